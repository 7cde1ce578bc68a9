package postgres

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// erasOf are the eras of a time, one of each level.
func erasOf(at time.Time) []int64 {
	second := at.Unix()
	return []int64{second >> 6 * 4, second>>12*4 + 1, second>>18*4 + 2}
}

func TestErasHaveTheirTimesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := time.UnixMicro(rapid.Int64Range(-3e15, 5e15).Draw(t, "from"))
		to := from.Add(time.Duration(rapid.SampledFrom([]int64{1e3, 1e9, 64e9, 1e12, 1e14, 3e16}).Draw(t, "scale") * rapid.Int64Range(0, 9).Draw(t, "length")))
		named := eras(from, to)
		has := func(at time.Time) bool {
			return slices.ContainsFunc(erasOf(at), func(era int64) bool { return slices.Contains(named, era) })
		}
		inside := from.Add(time.Duration(rapid.Int64Range(0, int64(to.Sub(from))).Draw(t, "inside")))
		if !has(from) || !has(to) || !has(inside) {
			t.Fatalf("eras from %v to %v lack one of their times, or %v", from, to, inside)
		}
		if early, late := from.Add(-64*time.Second), to.Add(64*time.Second); has(early) || has(late) {
			t.Fatalf("eras from %v to %v have %v or %v", from, to, early, late)
		}
		if most := 4*63 + 1 + int(to.Sub(from)/(1<<18*time.Second)) + 2; len(named) > most {
			t.Fatalf("%d eras for %v", len(named), to.Sub(from))
		}
	})
}

// oldOutage writes many investigations with one message, then as many of other groups, and a few with the words of
// that message in another group, some before and some after.
func oldOutage(t *testing.T, r *redriving) {
	t.Helper()
	for _, sql := range []string{`
		insert into postrider.dlq_group (fingerprint, fingerprint_version, parts, title, first_seen_at, last_seen_at)
		select 'w:' || g, 1, jsonb_build_object('message', case g when 0 then 'the wall of fire fell' else 'order # refused' end), 'x', now(), now() from generate_series(0, 3) g`, `
		insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, dlq_group_uuid, error_message, resolution_status,
			resolution_timestamp, created_at, updated_at)
		select 'event', gen_random_uuid(), 'failed', 'max_retries_exceeded', now(), now(), '{}', g.dlq_group_uuid,
			case when n < 2000 then 'The wall of fire fell' when n % 400 = 7 then 'order ' || n || ' refused: a WALL OF FIRE' else 'order ' || n || ' refused' end,
			case when n % 3 = 0 then 'pending' else 'cancelled' end::postrider.dlq_resolution_status, case when n % 3 > 0 then now() end,
			now() - interval '40 days' + case when n < 2000 then n * interval '1 second' else interval '2 hours' + (n - 2000) * interval '8 minutes' end, now()
		from generate_series(0, 3999) n join postrider.dlq_group g on g.fingerprint = 'w:' || case when n < 2000 then 0 else 1 + n % 3 end`} {
		mustExec(t, r.subject.pool, sql)
	}
}

// afterOldOutage is a transaction on a table of oldOutage that was vacuumed, so that an index alone may answer.
func afterOldOutage(t *testing.T, r *redriving, begin string) pgx.Tx {
	t.Helper()
	oldOutage(t, r)
	// A page that another session looks at just then is left out. With pages left out the server would look at the table, too.
	for deadline := time.Now().Add(3 * time.Minute); ; {
		mustExec(t, r.subject.pool, `vacuum (analyze) postrider.dlq_entry`)
		if pgtest.Value[bool](t, r.subject.pool, `select relallvisible = relpages from pg_class where oid = 'postrider.dlq_entry'::regclass`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("vacuum leaves pages out")
		}
	}
	tx, err := r.subject.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// windowed runs a search by its window alone.
func windowed(t *testing.T, d *Investigations, q dlq.Search) (page []found, done bool) {
	t.Helper()
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	err := d.readPlanned(t.Context(), "search", func(ctx context.Context, tx pgx.Tx) (err error) {
		f := q.Filter
		s := &search{Search: q, bounds: d.bounds, tx: tx, from: nullTime(f.From), to: nullTime(f.To)}
		done, err = s.window(ctx, s.conditions())
		page = s.page
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return page, done
}

// TestTheMessageOfAnOldOutageIsFoundByItsTime compares pages that the window finds with what a plain query finds.
func TestTheMessageOfAnOldOutageIsFoundByItsTime(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	oldOutage(t, r)
	d := r.people()
	d.bounds = bounds{walk: 50, pairs: 100, merge: 10_000, exactly: 500}
	now := time.Now()
	for name, c := range map[string]struct {
		search dlq.Search
		found  bool
	}{
		"newest":                   {dlq.Search{Filter: dlq.Filter{Message: "wall OF fire"}}, true},
		"third page":               {dlq.Search{Filter: dlq.Filter{Message: "wall of fire", Offset: 50}}, true},
		"oldest":                   {dlq.Search{Filter: dlq.Filter{Message: "wall of fire"}, Ascending: true}, true},
		"pending":                  {dlq.Search{Filter: dlq.Filter{Message: "wall of fire", Status: dlq.Pending}}, true},
		"of a time":                {dlq.Search{Filter: dlq.Filter{Message: "wall of fire", From: now.Add(-960 * time.Hour), To: now.Add(-959*time.Hour - 30*time.Minute)}}, true},
		"in few":                   {dlq.Search{Filter: dlq.Filter{Message: "a wall of fire"}}, false},
		"a page with too much":     {dlq.Search{Filter: dlq.Filter{Message: "wall of fire", Offset: 600}}, false},
		"by the last change":       {dlq.Search{Filter: dlq.Filter{Message: "wall of fire"}, OrderBy: dlq.ByUpdated}, false},
		"what only the group says": {dlq.Search{Filter: dlq.Filter{Message: "order # refused"}}, false},
	} {
		page, done := windowed(t, d, c.search)
		if done != c.found {
			t.Errorf("%s: found by the window: %v, want %v", name, done, c.found)
		}
		f := c.search.Filter
		way := map[bool]string{false: "desc", true: "asc"}[c.search.Ascending]
		want := pgtest.Column[uuid.UUID](t, r.subject.pool, `select e.dlq_entry_uuid from postrider.dlq_entry e where e.error_message ilike $1 and ($2 = '' or e.resolution_status::text = $2)
			and ($3::timestamptz is null or e.created_at >= $3) and ($4::timestamptz is null or e.created_at <= $4) order by e.created_at `+way+`, e.dlq_entry_uuid `+way+` limit 26 offset $5`,
			pattern(f.Message), string(f.Status), nullTime(f.From), nullTime(f.To), f.Offset)
		if got := column(page, func(f found) uuid.UUID { return f.ID }); done && !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", name, got, want)
		}
		if c.search.OrderBy == dlq.ByUpdated {
			continue
		}
		whole, err := d.Find(t.Context(), c.search)
		if err != nil {
			t.Fatal(err)
		}
		if got := column(whole.Entries, func(e dlq.Entry) uuid.UUID { return e.UUID }); !slices.Equal(got, want[:min(25, len(want))]) {
			t.Errorf("%s: a search finds %v, want %v", name, got, want)
		}
	}
}

// TestWithoutTheIndexOfMessages: where the extension is missing, the same is found.
func TestWithoutTheIndexOfMessages(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	oldOutage(t, r)
	mustExec(t, r.subject.pool, `drop index postrider.dlq_entry_message`)
	d := r.people()
	d.bounds = bounds{walk: 50, pairs: 100, merge: 10_000, exactly: 500}
	q := dlq.Search{Filter: dlq.Filter{Message: "wall of fire"}, Ascending: true}
	if _, done := windowed(t, d, q); done {
		t.Error("found by an index that is not there")
	}
	page, err := d.Find(t.Context(), q)
	if err != nil || len(page.Entries) != 25 || page.Entries[0].ErrorMessage != "The wall of fire fell" {
		t.Errorf("%d found, %v", len(page.Entries), err)
	}
}

// TestWindowsUseTheIndexOfMessages: both conditions use one index, and its eras are the ones that Go computes.
func TestWindowsUseTheIndexOfMessages(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	oldOutage(t, r)
	tx, err := r.subject.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: beginRead + "; set local enable_indexscan = off"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	now := time.Now()
	plan := explained(t, tx, searchWindow, "", "", "", "", nil, "", "", "", "%wall of fire%", now.Add(-time.Hour), now, pgtype.Timestamptz{}, pgtype.UUID{}, 26, 0, "", "", nil, 501, eras(now.Add(-time.Hour), now))
	conditions := ""
	for line := range strings.Lines(plan) {
		if strings.Contains(line, "Index Cond") {
			conditions += line
		}
	}
	if !strings.Contains(plan, "Bitmap Index Scan on dlq_entry_message") || !strings.Contains(conditions, "~~*") || !strings.Contains(conditions, "&&") {
		t.Errorf("the index of messages and eras is not used for both:\n%s", plan)
	}
	if strings.Count(plan, "Index Scan") != 1 {
		t.Errorf("another index serves, too:\n%s", plan)
	}
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(-1, 999_999_000), now, time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		var definition string
		if err := tx.QueryRow(t.Context(), `select pg_get_indexdef('postrider.dlq_entry_message'::regclass, 2, true)`).Scan(&definition); err != nil {
			t.Fatal(err)
		}
		var got []int64
		if err := tx.QueryRow(t.Context(), `select `+definition+` from (select $1::timestamptz as created_at) e`, at).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if want := erasOf(at); !slices.Equal(got, want) {
			t.Errorf("%v: the index has the eras %v, want %v", at, got, want)
		}
	}
}

// explained returns the plan of a query.
func explained(t *testing.T, tx pgx.Tx, query string, args ...any) string {
	t.Helper()
	return strings.Join(pgtest.Column[string](t, tx, "explain "+query, args...), "\n")
}
