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
		"or none": {}, "choose one of the two": {None: true, Headers: []message.Header{header("a", "1")}},
		"empty name": {Headers: []message.Header{header("", "1")}}, "belongs to postrider": {Headers: []message.Header{header("Postrider-x", "1")}},
	} {
		err := dlq.RedriveRequest{Entries: []uuid.UUID{uuid.New()}, Actor: "anna", Repair: &p}.Check()
		if !errors.Is(err, dlq.ErrRequest) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%+v: %v, want one that says %q", p, err, want)
		}
	}
}

// TestRepairLosesNothingSilently: a repair that gives some of the headers that cannot be read mends no message with others.
func TestRepairLosesNothingSilently(t *testing.T) {
	t.Parallel()
	p := dlq.Repair{Headers: []message.Header{header("a", "1"), header("b", "2")}}
	for raw, want := range map[string]bool{
		`{"a": 5, "ok": "x"}`: true, `{"a": 5, "b": [], "ok": null}`: true, `[["b", 5], ["ok", {"base64": "eA=="}]]`: true,
		`{"a": 5, "c": 6}`: false, `[["a", 5], ["c", {"base64": "?"}]]`: false, `[["a", 5], "c"]`: false, `[[5, "x"]]`: false, `{"": "x"}`: false,
		`{"a": 5, "c": `: false, `{"postrider-hops": "x", "a": 5}`: true, `5`: false,
	} {
		hs := []message.Header{header("ok", "x"), header(message.HeaderInvalidHeaders, raw)}
		if got := p.Mends(hs); got != want {
			t.Errorf("%s: %v", raw, got)
		}
		if !(dlq.Repair{None: true}).Mends(hs) {
			t.Errorf("%s: all go, and it is not mended", raw)
		}
	}
	if p.Mends([]message.Header{header("a\r\n", "1")}) || !p.Mends([]message.Header{header("c", "1")}) {
		t.Error("a name that no writer may send gets lost, or a sound one does not stay")
	}
}

// TestEachHeaderIsItsOwnText: each header that cannot be read is sent as the text of its own value, in its order and however often
// its name comes; given headers go first. What has no one value, no name, or was cut, is not mended.
func TestEachHeaderIsItsOwnText(t *testing.T) {
	t.Parallel()
	p := (&dlq.OperationOptions{HeadersAsText: true}).Repair()
	given := (&dlq.OperationOptions{HeadersAsText: true, Headers: [][]string{{"b", "given"}}}).Repair()
	for raw, want := range map[string][2]string{
		`{"a": 5, "ok": "x"}`:                       {"ok=x a=5", "ok=x a=5 b=given"},
		`{"z": [1, 2], "b": 7.50, "a": {"c": "d"}}`: {`ok=x z=[1, 2] b=7.50 a={"c": "d"}`, `ok=x z=[1, 2] a={"c": "d"} b=given`},
		`[["a", true], ["a", false], ["ok", "x"]]`:  {"ok=x a=true a=false", "ok=x a=true a=false b=given"},
		`{"a": {"base64": "?"}}`:                    {`ok=x a={"base64": "?"}`, `ok=x a={"base64": "?"} b=given`},
		`{"postrider-hops": "x", "a": 5}`:           {"ok=x a=5", "ok=x a=5 b=given"},
		`[["b"], ["a", 1]]`:                         {"", "ok=x a=1 b=given"},
		`[["a", 1, 2]]`:                             {"", ""}, `[[5, 1]]`: {"", ""}, `{"": 5}`: {"", ""}, `{"a": 5, "c": `: {"", ""}, `"a"`: {"", ""}, `5`: {"", ""},
	} {
		hs := []message.Header{header("ok", "x"), header(message.HeaderInvalidHeaders, raw)}
		for i, p := range []*dlq.Repair{p, given} {
			got := ""
			if p.Mends(hs) {
				for _, h := range p.Apply(hs) {
					got += " " + h.Name + "=" + string(h.Value)
				}
			}
			if err := p.Check(); err != nil || strings.TrimSpace(got) != want[i] {
				t.Errorf("%s with %d given: %q, %v, want %q", raw, len(p.Headers), got, err, want[i])
			}
		}
	}
	if err := (dlq.Repair{AsText: true, None: true}).Check(); !errors.Is(err, dlq.ErrRequest) {
		t.Errorf("as texts and without any: %v", err)
	}
}

// TestNoHeaderHasTwoValues: a header that is given and sent as its own text is refused by its name, and others are not.
func TestNoHeaderHasTwoValues(t *testing.T) {
	t.Parallel()
	hs := []message.Header{header("ok", "x"), header(message.HeaderInvalidHeaders, `{"b": 5, "a": [1], "postrider-x": 5}`)}
	for given, want := range map[string]string{"ok": "", "c": "", "a": `for the header "a", and`, "a b": `for the header "a" and the header "b", and`} {
		o := dlq.OperationOptions{HeadersAsText: true}
		for _, name := range strings.Fields(given) {
			o.Headers = append(o.Headers, []string{name, "given"})
		}
		p := o.Repair()
		if err := p.CheckTexts(p.Texts(hs)); want == "" && err != nil || want != "" && (!errors.Is(err, dlq.ErrRequest) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s given: %v", given, err)
		}
		if p.AsText = false; len(p.Texts(hs)) != 0 || p.CheckTexts(p.Texts(hs)) != nil {
			t.Errorf("%s given alone is refused", given)
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
		t.Error("another program's letter is believed")
	}
}

// TestRedriveRequestsAreChecked: each fault is named.
func TestRedriveRequestsAreChecked(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	for want, r := range map[string]dlq.RedriveRequest{
		"no investigation": {Actor: "anna"}, "twice": {Entries: []uuid.UUID{a, a}, Actor: "anna"}, "the actor is missing": {Entries: []uuid.UUID{a}},
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
