package inbox

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

func TestIdentityOf(t *testing.T) {
	t.Parallel()
	header := func(name, value string) message.Header { return message.Header{Name: name, Value: []byte(value)} }
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	event, of := header(message.HeaderEventID, "e1"), func(v string) message.Header { return header(message.HeaderRedriveOf, v) }
	for name, c := range map[string]struct {
		headers []message.Header
		want    string
	}{
		"an empty first":             {[]message.Header{{Name: message.HeaderEventID}, event}, "record:orders/3/42@1700000000123"},
		"no header":                  {nil, "record:orders/3/42@1700000000123"},
		"an event":                   {[]message.Header{header("x", "y"), event}, "event:e1"},
		"a redriven event":           {[]message.Header{header(dlq.HeaderReplayID, "i1:2"), of("event:" + id), header(message.HeaderEventID, id)}, "event:" + id},
		"a redriven record":          {[]message.Header{of("record:stock/0/7@1700000000000"), event}, "record:stock/0/7@1700000000000"},
		"a redrive of nothing":       {[]message.Header{of(""), event}, "event:e1"},
		"a redrive of what is no id": {[]message.Header{of("event:e2"), event}, "event:e1"},
		"of another form":            {[]message.Header{of("other:x"), event}, "event:e1"},
		"the first counts":           {[]message.Header{event, header(message.HeaderEventID, "e2")}, "event:e1"},
		"a service that copied what names no event": {[]message.Header{header(dlq.HeaderReplayID, "i1:2"), header(dlq.HeaderReplayOf, "event:"+id), event}, "event:e1"},
		"names have a case":                         {[]message.Header{header("Postrider-Redrive-Of", "record:x/0/1"), event}, "event:e1"},
	} {
		if got := IdentityOf("orders", 3, 42, time.UnixMilli(1700000000123), c.headers).String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		m := consumer.Message{Headers: c.headers}
		if id := IdentityOf("orders", 3, 42, time.Time{}, c.headers); id.EventID != m.EventID() {
			t.Errorf("%s: the consumer reads %q", name, m.EventID())
		}
	}
}

// Two identities look alike only where they are one, also for ids that were made to deceive.
func TestIdentitiesDifferProperty(t *testing.T) {
	t.Parallel()
	part := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "a/b", "1:a", ":", "/", "event:a", "record:a", hashed + strings.Repeat("0", 64)}),
		rapid.StringMatching(`[ab1:/]{0,6}`))
	identity := rapid.Custom(func(t *rapid.T) Identity {
		return Identity{EventID: part.Draw(t, "event"),
			Topic: rapid.StringMatching(`[ab]{1,2}`).Draw(t, "topic"), Partition: rapid.Int32Range(0, 2).Draw(t, "partition"), Offset: rapid.Int64Range(0, 2).Draw(t, "offset"),
			Timestamp: time.UnixMilli(rapid.Int64Range(0, 2).Draw(t, "timestamp"))}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := identity.Draw(t, "a"), identity.Draw(t, "b")
		same := a.EventID == b.EventID && (a.EventID != "" || a == b)
		if got := a.String() == b.String(); got != same {
			t.Fatalf("%+v is %q, %+v is %q", a, a, b, b)
		}
	})
}

// Stored ids are short texts, and different for different ids.
func TestStoredProperty(t *testing.T) {
	t.Parallel()
	id := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.IntRange(190, 260), func(n int) string { return strings.Repeat("x", n) }),
		rapid.SampledFrom([]string{hashed, hashed + "x", "\x00", "\xff", "\ufffd"}))
	rapid.Check(t, func(t *rapid.T) {
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		if rapid.Bool().Draw(t, "pass a stored one off") {
			b = stored(a)
		}
		got := stored(a)
		if len(got) > maxIDBytes || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Fatalf("%q is stored as %q", a, got)
		}
		if (got == stored(b)) != (a == b) {
			t.Fatalf("%q is stored as %q, %q as %q", a, got, b, stored(b))
		}
	})
}
