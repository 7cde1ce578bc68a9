package relay

import (
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// FuzzHeadersOfARecord: whatever the headers of a row are, the record and the dead letter have each of our
// headers at most once, and the event's own id.
func FuzzHeadersOfARecord(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a": "b"}`, `[["a", "1"], ["a", null]]`, `{"postrider-event-id": "x"}`, `[["postrider-event-id", "x"]]`,
		`{"POSTRIDER-event-id": "x"}`, `{"a": {"base64": "AA=="}}`, `[["a"]]`, `{"a": 1}`, `null`, `{"": ""}`, "{\"postrider\\u002devent-id\": \"x\"}",
		`[["postrider-payload", "reference"]]`, `{"a": "b", "a": "c"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, headers []byte) {
		e := &Event{EventID: uuid.New(), Topic: "t", Key: []byte("k"), Payload: []byte("p"), Headers: headers, LastErrorCode: "X"}
		check := func(what string, m *Message) {
			seen := map[string]string{}
			for _, h := range m.Headers {
				if !message.Reserved(h.Name) {
					continue
				}
				if _, twice := seen[h.Name]; twice {
					t.Errorf("%s: %s is there twice", what, h.Name)
				}
				seen[h.Name] = string(h.Value)
			}
			if got := seen[message.HeaderEventID]; got != e.EventID.String() {
				t.Errorf("%s says it is event %q", what, got)
			}
		}
		if m, refused := newEncoder("", 1).message(e, nil); refused == nil {
			check("the record", &m)
		}
		for _, fits := range []fit{whole, withoutPayload, bare} {
			m := letterAt(e, "", "", "dlq", fits)
			check("the letter", &m)
		}
	})
}
