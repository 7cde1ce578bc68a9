package postgres

import (
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/relay"
)

// TestAnEventThatWasGivenUpIsFoundAtOnce: however many are newer, on the first page, and with the other filters.
func TestAnEventThatWasGivenUpIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic) values ('t'), ('t'), ('u')`)
	f.exec(`update postrider.outbox_event set state = 'dead_lettered', episode = 1, updated_at = now() where id = (select min(id) from postrider.outbox_event)`)
	given := value[uuid.UUID](f, `select event_id from postrider.outbox_event order by id limit 1`)
	waits := value[uuid.UUID](f, `select event_id from postrider.outbox_event order by id offset 1 limit 1`)
	f.exec(`insert into postrider.outbox_event (topic) select 't' from generate_series(1, $1)`, eventWalk)
	for name, c := range map[string]struct {
		filter relay.EventFilter
		want   int
		more   bool
	}{
		"given up":            {relay.EventFilter{EventID: given}, 1, false},
		"with other filters":  {relay.EventFilter{EventID: given, Topic: "t", Status: "dead_lettered"}, 1, false},
		"of another topic":    {relay.EventFilter{EventID: given, Topic: "u"}, 0, false},
		"of another status":   {relay.EventFilter{EventID: given, Status: "pending"}, 0, false},
		"of another task":     {relay.EventFilter{EventID: given, TaskUUID: given}, 0, false},
		"one that waits":      {relay.EventFilter{EventID: waits}, 0, true},
		"one that is unknown": {relay.EventFilter{EventID: uuid.New()}, 0, true},
	} {
		page, err := f.store.Events(t.Context(), c.filter)
		if err != nil || len(page.Events) != c.want || (page.Next != 0) != c.more {
			t.Errorf("%s: %d events, next %d, %v", name, len(page.Events), page.Next, err)
			continue
		}
		if c.want == 1 && page.Events[0].EventID != given {
			t.Errorf("%s: %+v", name, page.Events[0])
		}
	}
	page, err := f.store.Events(t.Context(), relay.EventFilter{EventID: waits})
	for err == nil && len(page.Events) == 0 && page.Next != 0 {
		page, err = f.store.Events(t.Context(), relay.EventFilter{EventID: waits, Before: page.Next})
	}
	if err != nil || len(page.Events) != 1 || page.Events[0].EventID != waits {
		t.Errorf("behind the first page: %+v, %v", page, err)
	}
}
