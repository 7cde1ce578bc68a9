package doctor

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestForwardedTables: a cutover that has not ended, a table that its connector has again, and a trigger that is off are found.
func TestForwardedTables(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	s.exec(t, `create table public.theirs (id uuid primary key, payload text); create publication "d bz" for table public.theirs;
		create function postrider.outbox_forward_theirs() returns trigger language plpgsql as $$begin return null; end$$;
		create trigger postrider_forward after insert on public.theirs for each statement execute function postrider.outbox_forward_theirs();
		insert into postrider.outbox_forward (source_table, function_name, definition, mode, prefix, slot, publication, fence)
			values ('public.theirs', 'outbox_forward_theirs', '{}', 'forward', '', 'd bz', 'd bz', '0/1')`)
	for _, step := range []struct {
		change  string
		verdict Verdict
		says    string
	}{
		{`alter publication "d bz" drop table public.theirs`, OK, "1 table of another outbox is forwarded"},
		{`alter publication "d bz" add table public.theirs`, Failed, `sent twice alter publication "d bz" drop table`},
		{`alter publication "d bz" drop table public.theirs; alter table public.theirs disable trigger postrider_forward`, Failed, "is to be forwarded, and its trigger is gone or disabled"},
		{`update postrider.outbox_forward set mode = 'held'`, Failed, "its trigger is gone or disabled postrider debezium cutover 'public.theirs' --run"},
		{`alter table public.theirs enable trigger postrider_forward; update postrider.outbox_forward set mode = 'held';
			insert into postrider.outbox_held_event (source_table, event_id, topic) values ('public.theirs', gen_random_uuid(), 't')`, OK, "is forwarded"},
		{`update postrider.outbox_forward set changed_at = now() - interval '2 minutes'`, Warning, "1 event is held"},
		{`update postrider.outbox_forward set changed_at = now() - interval '20 minutes'`, Failed, "1 event is held"},
		{`update postrider.outbox_forward set mode = 'off'; alter publication "d bz" add table public.theirs; alter table public.theirs disable trigger postrider_forward`, OK, "is forwarded"},
		{`alter table public.theirs rename to elsewhere`, Failed, "there is no such table"},
	} {
		s.exec(t, step.change)
		found := false
		for _, f := range s.examine(t, nil).Findings {
			if f.Check == "forwarded tables" {
				found = true
				if f.Verdict != step.verdict || !strings.Contains(f.Says+" "+f.Hint, step.says) {
					t.Errorf("after %s: %+v, want %s %q", step.change, f, step.verdict, step.says)
				}
			}
		}
		if !found {
			t.Errorf("after %s nothing is said", step.change)
		}
	}
}
