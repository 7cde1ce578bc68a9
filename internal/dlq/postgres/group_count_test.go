package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// miscounted says where counters and states of groups differ from the investigations that exist.
const miscounted = `
with counts as (
    select dlq_group_uuid, dlq_reason, subject_type, resolution_status, count(*) as n from postrider.dlq_entry group by 1, 2, 3, 4
), hours as (
    select dlq_group_uuid, date_trunc('hour', created_at, 'UTC') as hour, count(*) as n from postrider.dlq_entry group by 1, 2
), groups as (
    select g.*, n.entries as n_entries, n.pending as n_pending, n.occurrences as n_occurrences, n.newest
    from postrider.dlq_group g cross join lateral (
        select count(*) as entries, count(*) filter (where resolution_status = 'pending') as pending, coalesce(sum(occurrences), 0) as occurrences,
               (array_agg(dlq_entry_uuid order by created_at desc, dlq_entry_uuid desc))[1] as newest
        from postrider.dlq_entry e where e.dlq_group_uuid = g.dlq_group_uuid) n
)
select format('count of %s: %s, there are %s', coalesce(c.dlq_group_uuid, t.dlq_group_uuid), c.entries, t.n)
from postrider.dlq_count c full join counts t using (dlq_group_uuid, dlq_reason, subject_type, resolution_status) where c.entries is distinct from t.n
union all
select format('hour %s of %s: %s, there are %s', hour, coalesce(h.dlq_group_uuid, t.dlq_group_uuid), h.opened, t.n)
from postrider.dlq_hour h full join hours t using (dlq_group_uuid, hour) where h.opened is distinct from t.n
union all
select format('group %s (%s): %s of %s are open, newest %s, %s letters; it should be %s of %s, newest %s, %s letters',
              title, state, pending, entries, last_entry_uuid, occurrences, n_pending, n_entries, newest, n_occurrences)
from groups where (entries, pending, occurrences) is distinct from (n_entries, n_pending, n_occurrences)
    or (n_entries > 0 and not exists (select from postrider.dlq_entry e where e.dlq_entry_uuid = last_entry_uuid))
    or (n_entries = 0 and last_entry_uuid is not null) or total < entries
    or (state not in ('muted', 'new') and (state = 'resolved') <> (n_pending = 0)) or (state = 'new' and total > 0 and n_pending = 0)`

func recount(ctx context.Context, t interface{ Fatalf(string, ...any) }, pool *pgxpool.Pool) {
	rows, err := pool.Query(ctx, miscounted)
	if err != nil {
		t.Fatalf("%v", err)
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(wrong) > 0 {
		t.Fatalf("%v: %s", err, strings.Join(wrong, "\n"))
	}
}

// TestCountersAreRight: whichever statement changes investigations, the counters are what counting gives.
func TestCountersAreRight(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	next := 0
	rapid.Check(t, func(t *rapid.T) {
		var did []string
		ctx := context.Background()
		exec := func(sql string, args ...any) {
			did = append(did, fmt.Sprint(sql, args))
			if _, err := s.pool.Exec(ctx, sql, args...); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		exec(`delete from postrider.dlq_entry`)
		exec(`delete from postrider.dlq_letter`)
		some := func() string { // a share of the investigations, the same for the same numbers
			n := rapid.IntRange(1, 4).Draw(t, "share")
			return fmt.Sprintf("hashtext(dlq_entry_uuid::text || '%d') %% %d = 0", rapid.IntRange(0, 9).Draw(t, "which"), n)
		}
		group := func() string {
			return fmt.Sprintf("coalesce((select dlq_group_uuid from postrider.dlq_group order by fingerprint limit 1 offset %d), '00000000-0000-0000-0000-000000000000')", rapid.IntRange(0, 6).Draw(t, "group"))
		}
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			switch rapid.IntRange(0, 8).Draw(t, "step") {
			case 0, 1: // as the collector does
				var records []dlq.Record
				for range rapid.IntRange(1, 6).Draw(t, "letters") {
					next++
					r := dlqtest.Event(rapid.IntRange(0, 3).Draw(t, "event"), next)
					for i := range r.Headers {
						if strings.HasSuffix(r.Headers[i].Name, "error-message") {
							r.Headers[i].Value = []byte(rapid.SampledFrom([]string{"a", "b", "c 1", "c 2"}).Draw(t, "message"))
						}
					}
					records = append(records, r)
				}
				if _, err := s.RecordLetters(ctx, dlqtest.Letters(records...)); err != nil {
					t.Fatalf("%v", err)
				}
			case 2: // as a person does with psql, into a group or none
				exec(`insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot,
						dlq_group_uuid, resolution_status, resolution_timestamp, created_at, occurrences)
					select 'record', $1::text || n, 'x', 'unclassified', now(), now() - n * interval '1 hour', '{}', `+group()+`,
						case when n % 2 = 0 then 'cancelled' else 'pending' end::postrider.dlq_resolution_status, case when n % 2 = 0 then now() end,
						now() - n * interval '40 minutes', n
					from generate_series(1, 5) n on conflict do nothing`, fmt.Sprint(next, "-"))
				next++
			case 3:
				exec(`update postrider.dlq_entry set resolution_status = 'manually_resolved', resolution_timestamp = now() where resolution_status = 'pending' and ` + some())
			case 4:
				exec(`update postrider.dlq_entry set dlq_group_uuid = ` + group() + `, dlq_reason = 'manual_dlq' where ` + some())
			case 5:
				exec(`update postrider.dlq_entry set occurrences = occurrences + 2, last_occurred_at = now(), resolution_notes = 'x' where ` + some())
			case 6:
				exec(`delete from postrider.dlq_entry where ` + some())
			case 7:
				exec(`update postrider.dlq_entry set updated_at = now()`)
			case 8:
				exec(`truncate postrider.dlq_entry, postrider.dlq_letter`)
			}
			recount(ctx, t, s.pool)
		}
	})
}

// TestRecountRepairs counters that were changed by hand.
func TestRecountRepairs(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	if _, err := s.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.Event(1, 1), dlqtest.Task(1, 1), dlq.Record{Topic: "other"})); err != nil {
		t.Fatal(err)
	}
	mustExec(t, s.pool, `update postrider.dlq_count set entries = 7`)
	mustExec(t, s.pool, `delete from postrider.dlq_hour`)
	mustExec(t, s.pool, `update postrider.dlq_group set pending = 0, entries = 9, occurrences = 3, state = 'resolved', last_entry_uuid = null`)
	mustExec(t, s.pool, `select postrider.dlq_recount()`)
	recount(t.Context(), t, s.pool)
}

// TestAnInvestigationNeedsAGroup: an investigation of a group that does not exist is refused, as a fault that passes.
func TestAnInvestigationNeedsAGroup(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	_, err := s.pool.Exec(t.Context(), `insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at,
		snapshot, dlq_group_uuid) values ('record', 'x', 'x', 'unclassified', now(), now(), '{}', gen_random_uuid())`)
	if err == nil || !strings.Contains(err.Error(), "names a group that does not exist") {
		t.Errorf("error %v", err)
	}
}

// TestCollectorsOfTheSameGroups: many collectors open investigations in the same groups, new ones at first, in
// different orders, while people close them. No session waits for ever, and the counts are right.
func TestCollectorsOfTheSameGroups(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	const collectors, batches, groups = 6, 8, 12
	record := func(n int) dlq.Record {
		r := dlqtest.Event(n, 1)
		for i := range r.Headers {
			if strings.HasSuffix(r.Headers[i].Name, "error-message") {
				r.Headers[i].Value = []byte("cause " + strings.Repeat("x", n%groups))
			}
		}
		return r
	}
	var wg sync.WaitGroup
	for c := range collectors {
		wg.Go(func() {
			for b := range batches {
				var records []dlq.Record
				for i := range 2 * groups {
					n := i
					if c%2 == 1 {
						n = 2*groups - 1 - i
					}
					records = append(records, record((c*batches+b)*2*groups+n))
				}
				if _, err := s.RecordLetters(t.Context(), dlqtest.Letters(records...)); err != nil {
					t.Error(err)
				}
			}
		})
		if c%3 == 0 {
			wg.Go(func() {
				for range batches {
					_, err := s.pool.Exec(t.Context(), `update postrider.dlq_entry e set resolution_status = 'cancelled', resolution_timestamp = now()
						from (select dlq_entry_uuid from postrider.dlq_entry where resolution_status = 'pending' order by dlq_entry_uuid limit 30 for update) w
						where e.dlq_entry_uuid = w.dlq_entry_uuid`)
					if err != nil && !deadlock(err) { // people may have to ask again, letters never
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	recount(t.Context(), t, s.pool)
	var n, made int
	if err := s.pool.QueryRow(t.Context(), `select (select count(*) from postrider.dlq_entry), (select count(*) from postrider.dlq_group where total > 0)`).Scan(&n, &made); err != nil {
		t.Fatal(err)
	}
	if n != collectors*batches*2*groups || made != groups {
		t.Errorf("%d investigations in %d groups", n, made)
	}
}

func groupOf(t *testing.T, s subject, entry uuid.UUID) uuid.UUID {
	t.Helper()
	e, err := s.investigations.Show(t.Context(), entry)
	if err != nil {
		t.Fatal(err)
	}
	return e.GroupUUID
}
