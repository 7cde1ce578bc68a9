package postgres

import (
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// Every event is found by its event_id although no index has that column: the first, the last, the events of a bulk load of
// one moment, and the events around ids that were rolled back. An event_id that no event has is found nowhere.
func TestEventsAreFoundByTheirIDs(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		f.exec(`insert into postrider.outbox_event (topic) select 't' from generate_series(1, 700)`)
		f.exec(`do $$ begin begin insert into postrider.outbox_event (topic) select 't' from generate_series(1, 300); raise exception 'no'; exception when others then null; end; end $$`)
		f.exec(`insert into postrider.outbox_event (topic) values ('alone')`)
	}
	if missed := value[int64](f, `select count(*) from postrider.outbox_event e where postrider.outbox_find_event(e.event_id) is distinct from e.id`); missed != 0 {
		t.Errorf("%d events are not found", missed)
	}
	for _, unknown := range []uuid.UUID{uuid.New(), uuid.Must(uuid.NewV7())} {
		page, err := f.store.Events(t.Context(), relay.EventFilter{EventID: unknown})
		if err != nil || len(page.Events) != 0 {
			t.Errorf("%v: %v %v", unknown, page, err)
		}
	}
	f.exec(`delete from postrider.outbox_event`)
	if id := pgtest.Value[*int64](t, f.pool, `select postrider.outbox_find_event(postrider.outbox_event_id())`); id != nil {
		t.Errorf("an empty log has event %d", *id)
	}
}
