package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/message"
)

// describeHeaders writes headers as name=value, a null value as name=null.
func describeHeaders(hs []message.Header) []string {
	out := []string{}
	for _, h := range hs {
		if h.Value == nil {
			out = append(out, h.Name+"=null")
		} else {
			out = append(out, fmt.Sprintf("%s=%q", h.Name, h.Value))
		}
	}
	return out
}

func TestMessageIsTheEventAndItsID(t *testing.T) {
	t.Parallel()
	const id = `postrider-event-id="00000000-0000-0000-0000-000000000001"`
	for name, c := range map[string]struct {
		change  func(*Event)
		key     string
		value   string
		headers []string
	}{
		"no key, empty payload": {func(*Event) {}, "null", `""`, []string{id}},
		"empty key":             {func(e *Event) { e.Key = []byte{} }, `""`, `""`, []string{id}},
		"tombstone":             {func(e *Event) { e.Key, e.Payload = []byte("k"), nil }, `"k"`, "null", []string{id}},
		"bytes":                 {func(e *Event) { e.Key, e.Payload = []byte{0, 255}, []byte{0} }, `"\x00\xff"`, `"\x00"`, []string{id}},
		"headers in order, repeated, null and empty": {
			func(e *Event) { e.Headers = []byte(`[["b","2"],["a",null],["b",""],["c",{"base64":"AP8="}]]`) },
			"null", `""`, []string{`b="2"`, "a=null", `b=""`, `c="\x00\xff"`, id},
		},
		"the count of a redrive": {func(e *Event) { e.Headers = []byte(`[["postrider-hops","2"],["a","1"]]`) }, "null", `""`, []string{`postrider-hops="2"`, `a="1"`, id}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := with(unkeyed(1), c.change)
			e.Episode = 4
			m, o := (&encoder{}).message(&e, nil)
			if o != nil {
				t.Fatalf("refused: %+v", *o)
			}
			if got := [2]string{bytesOrNull(m.Key), bytesOrNull(m.Value)}; got != [2]string{c.key, c.value} {
				t.Errorf("key and value are %v, want %s and %s", got, c.key, c.value)
			}
			if got := describeHeaders(m.Headers); strings.Join(got, " ") != strings.Join(c.headers, " ") {
				t.Errorf("headers %q, want %q", got, c.headers)
			}
			if m.Topic != "t" || m.ID != (MessageID{EventID: e.EventID, Episode: 4}) {
				t.Errorf("message for %q with id %+v", m.Topic, m.ID)
			}
		})
	}
}

func bytesOrNull(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func TestMessageRefusesWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*Event)
		code    string
		mention string
	}{
		"headers of a wrong shape":      {unencodable, CodeInvalidHeaders, `header "a"`},
		"headers that are not JSON":     {func(e *Event) { e.Headers = []byte(`{`) }, CodeInvalidHeaders, "not JSON"},
		"a header of ours":              {func(e *Event) { e.Headers = []byte(`{"postrider-event-id":"forged"}`) }, CodeInvalidHeaders, "postrider-event-id"},
		"a header of ours, in capitals": {func(e *Event) { e.Headers = []byte(`[["a","1"],["POSTRIDER-X","2"]]`) }, CodeInvalidHeaders, "POSTRIDER-X"},
		"a name of two lines":           {func(e *Event) { e.Headers = []byte(`{"a\r\nb":"c"}`) }, CodeInvalidHeaders, "control character"},
		"a count below zero":            {func(e *Event) { e.Headers = []byte(`[["postrider-hops","-5"]]`) }, CodeInvalidHeaders, `"-5"`},
		"a topic that is none":          {func(e *Event) { e.Topic = "a b" }, CodeInvalidTopic, `"a b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := with(keyed(1, "k"), c.change)
			_, o := (&encoder{}).message(&e, nil)
			if o == nil || o.Class != Permanent || o.Code != c.code || !strings.Contains(o.Message, c.mention) {
				t.Errorf("got %+v, want permanent %s that mentions %s", o, c.code, c.mention)
			}
		})
	}
}
