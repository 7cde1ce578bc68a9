package relay

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// TestRedrivesSayWhatTheyWere: what Postrider sends again carries the id of the event that was first sent, and its dead
// letter keeps what it was first sent as. If a service writes these headers, the event is given up, and a redrive of its
// letter does not have them either.
func TestRedrivesSayWhatTheyWere(t *testing.T) {
	t.Parallel()
	own, first := uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"), "01890a5d-ac96-774b-bcce-000000000001"
	value := func(m *Message, name string) string {
		for _, h := range m.Headers {
			if h.Name == name {
				return string(h.Value)
			}
		}
		return ""
	}
	for name, c := range map[string]struct {
		event   Event
		of, id  string
		refused bool
	}{
		"of an event":             {Event{Redriven: true}, "event:" + first, first, false},
		"of an event about tasks": {Event{OfTask: true}, "event:" + first, first, false},
		"of a record":             {Event{Redriven: true}, "record:orders/0/1@2", message.RedriveEventID("record:orders/0/1@2").String(), false},
		"of nothing":              {Event{Redriven: true}, "other", own.String(), false},
		"by a service":            {Event{}, "event:" + first, "", true},
	} {
		e := c.event
		e.EventID, e.Topic, e.Headers = own, "orders", []byte(`[["a", "1"], ["postrider-hops", "1"], ["postrider-redrive-of", "`+c.of+`"], ["postrider-redrive-for", "billing"]]`)
		m, o := newEncoder("", 1).message(&e, nil)
		if (o != nil) != c.refused || o != nil && (o.Code != CodeInvalidHeaders || !strings.Contains(o.Message, message.HeaderRedriveOf)) {
			t.Fatalf("%s: %+v", name, o)
		}
		letter := letterAt(&e, "", "", "dead", whole)
		if id := value(&letter, message.HeaderEventID); id != own.String() {
			t.Errorf("%s: the letter is about %s", name, id)
		}
		of, group, invalid := c.of, "billing", ""
		if c.refused {
			of, group, invalid = "", "", string(e.Headers)
		} else if value(&m, message.HeaderEventID) != c.id || value(&m, message.HeaderRedriveOf) != c.of {
			t.Errorf("%s: sent as %v", name, m.Headers)
		}
		if value(&letter, message.HeaderRedriveOf) != of || value(&letter, message.HeaderRedriveFor) != group || value(&letter, message.HeaderInvalidHeaders) != invalid {
			t.Errorf("%s: the letter has %v", name, letter.Headers)
		}
	}
}
