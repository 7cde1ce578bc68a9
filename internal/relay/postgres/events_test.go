package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/relay"
)

// TestAnEventIsFoundAtOnce: however many are newer, on the first page, with the other filters, and whether the log has its
// row or only the exception does.
func TestAnEventIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic) values ('t'), ('t'), ('u')`)
	f.pass(relay.Receipt{Exceptions: exhausted(1)})
	f.buried(1)
	given, went, waits := eventID(f, 1), eventID(f, 2), uuid.Nil
	f.exec(`insert into postrider.outbox_event (topic) select 't' from generate_series(1, $1)`, eventWalk)
	waits = eventID(f, eventWalk)
	find := func(when string) {
		t.Helper()
		for name, c := range map[string]struct {
			filter relay.EventFilter
			id     uuid.UUID
		}{
			"given up":            {relay.EventFilter{EventID: given}, given},
			"with other filters":  {relay.EventFilter{EventID: given, Topic: "t", Status: "dead_lettered"}, given},
			"of another topic":    {relay.EventFilter{EventID: given, Topic: "u"}, uuid.Nil},
			"of another status":   {relay.EventFilter{EventID: given, Status: "pending"}, uuid.Nil},
			"of another task":     {relay.EventFilter{EventID: given, TaskUUID: given}, uuid.Nil},
			"one that went":       {relay.EventFilter{EventID: went}, went},
			"one that waits":      {relay.EventFilter{EventID: waits, Status: "pending"}, waits},
			"one that is unknown": {relay.EventFilter{EventID: uuid.New()}, uuid.Nil},
		} {
			page, err := f.store.Events(t.Context(), c.filter)
			if err != nil || (len(page.Events) == 1) != (c.id != uuid.Nil) || page.Next != 0 {
				t.Errorf("%s, %s: %d events, next %d, %v", when, name, len(page.Events), page.Next, err)
			} else if c.id != uuid.Nil && page.Events[0].EventID != c.id {
				t.Errorf("%s, %s: %+v", when, name, page.Events[0])
			}
		}
	}
	find("at once")
	f.exec(`analyze`)
	find("analysed")
	f.exec(`vacuum postrider.outbox_event`)
	find("vacuumed")
}

// TestEventsPageByPage: each event once, the newest first, whatever became of it, and of a task alone.
func TestEventsPageByPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := uuid.New()
	f.exec(`insert into postrider.outbox_event (topic, task_uuid) select 't', case when i % 7 = 0 then $1::uuid end from generate_series(1, 50) i`, task)
	h := f.topicHold("t", relay.Forever)
	var tasks []relay.TaskEvent
	for id := int64(7); id <= 49; id += 7 {
		tasks = append(tasks, relay.TaskEvent{ID: id, TaskUUID: task})
	}
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: append(exhausted(3, 21), parked(h.ID, 4, 28)...), Tasks: tasks})
	f.purge(relay.PurgePublished, 30)
	f.many(5)
	walk := func(filter relay.EventFilter) (ids []int64) {
		t.Helper()
		for filter.Limit = 4; ; {
			page, err := f.store.Events(t.Context(), filter)
			f.done(err)
			for _, e := range page.Events {
				ids = append(ids, e.ID)
			}
			if filter.After = page.Next; page.Next == 0 {
				return ids
			}
		}
	}
	all := walk(relay.EventFilter{})
	if len(all) != 29 || all[0] != 55 || all[24] != 31 || all[28] != 3 {
		t.Errorf("all are %v", all)
	}
	f.equal("of the task", walk(relay.EventFilter{TaskUUID: task}), 49, 42, 35, 28, 21)
	f.equal("given up", walk(relay.EventFilter{Status: "failed"}), 21, 3)
	f.equal("waiting of the task", walk(relay.EventFilter{TaskUUID: task, Status: "pending"}), 28)
	f.equal("the oldest first", walk(relay.EventFilter{OldestFirst: true, TaskUUID: task}), 21, 28, 35, 42, 49)
	if turned := walk(relay.EventFilter{OldestFirst: true}); len(turned) != len(all) || turned[0] != 3 || turned[28] != 55 {
		t.Errorf("the oldest first: %v", turned)
	}
	f.equal("exhausted", walk(relay.EventFilter{State: "exhausted", OldestFirst: true}), 3, 21)
	f.equal("behind the hold", walk(relay.EventFilter{HoldID: h.ID}), 28, 4)
	f.equal("behind the hold, of the task", walk(relay.EventFilter{HoldID: h.ID, TaskUUID: task}), 28)
	f.equal("behind another hold", walk(relay.EventFilter{HoldID: h.ID + 1}))
	f.equal("with a code of none", walk(relay.EventFilter{ErrorCode: "NONE"}))
	f.exec(`update postrider.outbox_event set key = 'k', created_at = '2026-01-31T12:00:00Z' where id in (33, 40)`)
	f.exec(`update postrider.outbox_event set created_at = '2026-01-31T13:00:00Z' where id = 41`)
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	f.equal("with a key", walk(relay.EventFilter{Key: []byte("k")}), 40, 33)
	f.equal("of a time", walk(relay.EventFilter{From: noon, To: noon}), 40, 33)
	f.equal("from a time", walk(relay.EventFilter{From: noon.Add(time.Second), To: noon.Add(time.Hour), OldestFirst: true}), 41)
	f.equal("until a time", walk(relay.EventFilter{To: noon, OldestFirst: true}), 33, 40)
	f.equal("with a code", walk(relay.EventFilter{ErrorCode: "X", Status: "failed"}), 21, 3)
	if e, err := f.store.Event(t.Context(), 28); err != nil || e.HoldID == nil || *e.HoldID != h.ID || e.State != "parked" {
		t.Errorf("event 28 is %+v, %v", e, err)
	}
	if _, err := f.store.Event(t.Context(), 5); !errors.Is(err, ErrNotFound) {
		t.Errorf("one that was removed: %v", err)
	}
}
