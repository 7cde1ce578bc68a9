package relay

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// A source writes to its own topics alone, and what it sends says where it comes from. What Postrider wrote about a task goes.
func TestTopicNotAllowed(t *testing.T) {
	t.Parallel()
	events := []Event{{ID: 1, EventID: uuid.New(), Topic: "orders"}, {ID: 2, EventID: uuid.New(), Topic: "billing"}, {ID: 3, EventID: uuid.New(), Topic: "lifecycle", OfTask: true}}
	p := newPlan(planInput{ctx: t.Context(), events: events, now: noon}, newHoldBook(nil), rules{
		settings: func(string) *TopicSettings { s := TopicSettings{}.withDefaults(); return &s },
		check:    func(*Message, int) *Outcome { return nil },
		own:      func(string) string { return "" },
		allowed:  func(topic string) bool { return topic == "orders" }, sourceName: "shop",
	})
	if len(p.messages) != 2 || p.messages[0].Topic != "orders" || p.messages[1].Topic != "lifecycle" {
		t.Fatalf("sent are %v", p.messages)
	}
	why := p.fates[1].why
	if p.fates[1].kind != fateUnsendable || why.Code != CodeTopicNotAllowed || why.Class != Permanent || !strings.Contains(why.Message, "shop") || !strings.Contains(why.Message, "billing") {
		t.Errorf("the other one: %+v", why)
	}
	if message.CategoryOf(string(why.Class), why.Code) != message.Validation {
		t.Error("its category is not validation")
	}
	for i, m := range p.messages {
		if n := len(m.Headers); n != 2 || m.Headers[1].Name != message.HeaderSource || string(m.Headers[1].Value) != "shop" || m.Headers[0].Name != message.HeaderEventID {
			t.Errorf("message %d has the headers %v", i, m.Headers)
		}
	}
	l := letterAt(&events[1], "shop", "", "dead", bare)
	if p.messages[0].ID.Source != "shop" || l.ID.Source != "shop" {
		t.Errorf("the ids are %+v and %+v", p.messages[0].ID, l.ID)
	}
	found := false
	for _, h := range l.Headers {
		found = found || h.Name == message.HeaderSource && string(h.Value) == "shop"
	}
	if !found {
		t.Errorf("the dead letter has the headers %v", l.Headers)
	}
	if m, _ := newEncoder("", 1).message(&events[0], nil); len(m.Headers) != 1 {
		t.Errorf("without a source the headers are %v", m.Headers)
	}
}
