package dlq_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

func header(name, value string) message.Header {
	return message.Header{Name: name, Value: []byte(value)}
}

// TestRepair: given headers replace the ones of the same name, ours go, and nothing said is an error.
func TestRepair(t *testing.T) {
	t.Parallel()
	readable := []message.Header{header("tenant", "acme"), header("priority", "low"), header("postrider-invalid-headers", "{}")}
	for _, test := range []struct {
		o    dlq.OperationOptions
		want string
	}{
		{dlq.OperationOptions{Headers: [][]string{{"priority", "5"}, {"new", "1"}}}, "tenant=acme priority=5 new=1"},
		{dlq.OperationOptions{NoHeaders: true}, ""},
	} {
		p := test.o.Repair()
		var got []string
		for _, h := range p.Apply(readable) {
			got = append(got, h.Name+"="+string(h.Value))
		}
		if err := p.Check(); err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%+v: %v, %v", test.o, got, err)
		}
	}
	if p := (&dlq.OperationOptions{}).Repair(); p != nil {
		t.Errorf("nothing was said: %+v", p)
	}
	for want, p := range map[string]dlq.Repair{
		"or none": {}, "give headers": {None: true, Headers: []message.Header{header("a", "1")}},
		"empty name": {Headers: []message.Header{header("", "1")}}, "belongs to postrider": {Headers: []message.Header{header("Postrider-x", "1")}},
	} {
		err := dlq.RedriveRequest{Entries: []uuid.UUID{uuid.New()}, Actor: "anna", Repair: &p}.Check()
		if !errors.Is(err, dlq.ErrRequest) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%+v: %v, want one that says %q", p, err, want)
		}
	}
}

// TestInvalidHeaders: only a letter of the relay says so.
func TestInvalidHeaders(t *testing.T) {
	t.Parallel()
	l := dlq.Letter{Dialect: dlq.DialectPostrider, Headers: []message.Header{header("a", "1"), header(message.HeaderInvalidHeaders, `{"priority": 5}`)}}
	if text, invalid := l.InvalidHeaders(); !invalid || text != `{"priority": 5}` {
		t.Errorf("%q, %v", text, invalid)
	}
	l.Headers = l.Headers[:1]
	if text, invalid := l.InvalidHeaders(); invalid {
		t.Errorf("a sound one: %q", text)
	}
	foreign := dlq.Letter{Headers: []message.Header{header(message.HeaderInvalidHeaders, "{}")}}
	if _, invalid := foreign.InvalidHeaders(); invalid {
		t.Error("somebody else's letter is believed")
	}
}

// TestRedriveRequestsAreChecked: each fault is named.
func TestRedriveRequestsAreChecked(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	for want, r := range map[string]dlq.RedriveRequest{
		"no investigation": {Actor: "anna"}, "twice": {Entries: []uuid.UUID{a, a}, Actor: "anna"}, "nobody": {Entries: []uuid.UUID{a}},
		"limit of hops": {Entries: []uuid.UUID{a}, Actor: "anna", MaxHops: 1001}, "edited alone": {Entries: []uuid.UUID{a, b}, Actor: "anna", Edit: &dlq.Edit{}},
		"tombstone": {Entries: []uuid.UUID{a}, Actor: "anna", Edit: &dlq.Edit{Tombstone: true, Payload: []byte("x")}},
		"target":    {Entries: []uuid.UUID{a}, Actor: "anna", Target: "a/b"},
	} {
		if err := r.Check(); !errors.Is(err, dlq.ErrRequest) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%+v: %v, want one that says %q", r, err, want)
		}
	}
}

// TestOrigin: a letter about a record says where a group first read it.
func TestOrigin(t *testing.T) {
	t.Parallel()
	l := dlq.Decode(pointerTo(7, "share group"))
	if l.Origin() == "" || l.Origin() != l.Subject.ID {
		t.Errorf("%q, want %q", l.Origin(), l.Subject.ID)
	}
	l.OriginTopic = ""
	if l.Origin() != "" {
		t.Errorf("it came from nowhere, and says %q", l.Origin())
	}
}
