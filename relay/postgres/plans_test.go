package postgres

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay/outbox"
)

// array is a literal with n elements.
func array(n int, element, of string) string {
	return "'{" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "}'::" + of + "[]"
}

func ids(n int) string {
	var b strings.Builder
	for id := range n {
		fmt.Fprintf(&b, ",%d", id+1)
	}
	return "'{" + b.String()[1:] + "}'::bigint[]"
}

// plan is how PostgreSQL is to find the events of a query: with these arguments, along these indexes.
type plan struct{ args, uses string }

// someMarks are epochs and marks that are known, as the last arguments.
var someMarks = strings.Repeat(", "+array(outbox.Shards, "1", "bigint"), 2)

// eventPlans are those of what the relay does with events.
func eventPlans() map[string]plan {
	const n = 1000
	failures := fmt.Sprintf("%s, %s, %s, %s", array(n, "1", "int"), array(n, "a", "text"), array(n, "a", "text"), array(n, "a", "text"))
	return map[string]plan{
		"lock_shards":        {"5, 16" + someMarks, "outbox_event_claim"},
		"claim_events":       {"1000, 67108864" + someMarks, "outbox_event_claim"},
		"claim_letters":      {"'{orders,bills}'::text[], 16", "outbox_event_exhausted"},
		"letter_topics":      {"", "outbox_event_exhausted"},
		"postpone_letters":   {ids(n) + ", 1", "outbox_event_pkey"},
		"park_crowd":         {"5::smallint, 100, 'orders', '\\x61'::bytea, 20000, 50000, 100", "outbox_event_claim outbox_event_pkey"},
		"count_attempt":      {"7", "outbox_event_pkey"},
		"settle_published":   {ids(n), "outbox_event_pkey"},
		"settle_deleted":     {ids(n), "outbox_event_pkey"},
		"settle_letters":     {ids(n), "outbox_event_pkey"},
		"settle_exhausted":   {ids(n) + ", " + failures, "outbox_event_pkey"},
		"settle_scheduled":   {ids(n) + ", " + failures + ", " + array(n, "1", "bigint"), "outbox_event_pkey"},
		"park_events":        {ids(n) + ", " + array(n, "1", "bigint") + ", " + failures, "outbox_event_pkey"},
		"return_parked":      {ids(500) + ", 1000, 99999, 1, 250" + someMarks, "outbox_event_parked outbox_event_claim outbox_event_pkey"},
		"return_scheduled":   {"1000", "outbox_event_scheduled outbox_event_pkey"},
		"pull_scheduled":     {"1000", "outbox_event_scheduled outbox_event_pkey"},
		"due_shards":         {"", "outbox_event_scheduled"},
		"find_far_scheduled": {"1000", "outbox_event_scheduled"},
	}
}

// TestPlansWithStaleStatistics: right after a bulk load, and before anything analysed the table, every
// query about events must be a walk along the index made for it, whether PostgreSQL plans for these
// arguments or for any.
func TestPlansWithStaleStatistics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	load(f)
	for name, q := range eventPlans() {
		wantPlan(f, name, q.args, q.uses)
	}
}

// wantPlan checks that a query walks along these indexes of the events and does nothing else with them,
// whether PostgreSQL plans for these arguments or for any.
func wantPlan(f *fixture, name, args, uses string) {
	f.Helper()
	for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
		plan := asOnOneTable(f, explain(f, name, args, mode))
		used := map[string]bool{}
		for _, m := range indexScan.FindAllStringSubmatch(plan, -1) {
			used[m[1]] = true
		}
		var want []string
		for _, i := range strings.Fields(uses) {
			if !used[i] {
				want = append(want, i)
			}
			delete(used, i)
		}
		if len(want) > 0 || len(used) > 0 || badNode.MatchString(plan) {
			f.Errorf("%s, %s: want walks along %s and nothing else over events:\n%s", name, mode, uses, plan)
		}
		if name == "claim_events" && sortNode.MatchString(plan) {
			f.Errorf("%s, %s sorts:\n%s", name, mode, plan)
		}
	}
}

var (
	sortNode  = regexp.MustCompile(`(?m)(^|->  )(Incremental )?Sort$`)
	indexScan = regexp.MustCompile(`Index (?:Only )?Scan (?:Backward )?using (outbox_event_\w+)`)
	// badNode is a walk over all events, or an index walk without a condition to begin at.
	badNode = regexp.MustCompile(`(?:Seq|Bitmap Heap) Scan on outbox_event|Hash Join|Merge Join|using outbox_event_pkey on \S+( \S+)?\n\s*(?:->|$)`)
)

// load writes 50,000 events in one COPY, as a migration from another outbox would.
func load(f *fixture) {
	f.Helper()
	f.exec(`do $$ declare part text; begin
		for part in select c.oid::regclass::text from pg_class c left join pg_inherits i on i.inhrelid = c.oid
			where c.relkind = 'r' and 'postrider.outbox_event'::regclass in (c.oid, i.inhparent) loop
			execute 'alter table ' || part || ' set (autovacuum_enabled = off)';
		end loop; end $$`)
	const rows = 50_000
	conn := f.db.Conn(f.T)
	n, err := conn.CopyFrom(f.Context(), pgx.Identifier{"postrider", "outbox_event"}, []string{"topic", "key", "payload"},
		pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
			return []any{"orders", fmt.Appendf(nil, "key-%d", i%5000), []byte("payload")}, nil
		}))
	if err != nil || n != rows {
		f.Fatalf("copied %d rows, %v", n, err)
	}
}

// explain returns the plan of a query in a session of the relay.
func explain(f *fixture, name, args, mode string) string {
	f.Helper()
	conn, err := f.relay.Acquire(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Release()
	call := "q"
	if args != "" {
		call = "q(" + args + ")"
	}
	var lines []string
	err = pgx.BeginFunc(f.Context(), conn, func(tx pgx.Tx) error {
		for _, sql := range []string{
			"set local plan_cache_mode = " + mode,
			"select set_config('postrider.claim', '{1,2,3,4,5,6,7,8}', true)",
			"prepare q as " + query(name),
		} {
			if _, err := tx.Exec(f.Context(), sql); err != nil {
				return err
			}
		}
		rows, err := tx.Query(f.Context(), "explain (costs off) execute "+call)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		_, err = tx.Exec(f.Context(), "deallocate q")
		return err
	})
	if err != nil {
		f.Fatalf("explain %s: %v", name, err)
	}
	return strings.Join(lines, "\n")
}

func TestPoolSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, want := range map[string]string{
		"jit": "off", "enable_seqscan": "off", "enable_sort": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
		"idle_in_transaction_session_timeout": "23s", "statement_timeout": "1min", "lock_timeout": "10s", "application_name": "postrider",
		// The server asks the system, where the connection has them.
		"tcp_keepalives_idle": "4", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3", "tcp_user_timeout": "10000",
	} {
		var got string
		if err := f.relay.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", name, got, err, want)
		}
	}
	if n := f.relay.Config().MaxConns; n != 12 {
		t.Errorf("the pool has up to %d connections", n)
	}
	_, other := f.open(Options{MaxConns: 3, ApplicationName: "other"}, StoreOptions{})
	var name string
	if err := other.QueryRow(t.Context(), "show application_name").Scan(&name); err != nil || name != "other" || other.Config().MaxConns != 3 {
		t.Errorf("application_name %s, %v, up to %d connections", name, err, other.Config().MaxConns)
	}
}

func TestPoolErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:hunter2@host:port/db", "postgres://u:hunter2@host/db?sslmode=never", "host=h password=hunter2 port=x",
	} {
		pool, err := NewPool(t.Context(), url, Options{})
		if err == nil {
			pool.Close()
			t.Errorf("%s is accepted", url)
		} else if strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "database URL: ") {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestPlansWithMisleadingStatistics: the table was analysed when all of it was pending and of one key, as in
// the first minute of a service or after a failure. A shard then looks like the whole table, and the walk
// along the primary key as good as the one along the index of the shards; it reads sixty times as much.
func TestPlansWithMisleadingStatistics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`alter table postrider.outbox_event set (autovacuum_enabled = off)`)
	f.exec(`insert into postrider.outbox_event (topic, key, payload) select 'orders', 'a', 'x' from generate_series(1, 20000)`)
	f.exec(`analyze postrider.outbox_event`)
	load(f)
	for name, q := range map[string]struct{ args, uses string }{
		"lock_shards":  {"5, 16" + someMarks, "outbox_event_claim"},
		"claim_events": {"1000, 67108" + someMarks, "outbox_event_claim"},
		"raise_water":  {"7" + someMarks, "outbox_event_claim"},
		"find_sunken":  {someMarks[2:], "outbox_event_claim"},
		"know_water":   {"7" + someMarks, "outbox_event_claim"},
		"park_crowd":   {"5::smallint, 100, 'orders', '\\x61'::bytea, 20000, 50000, 100", "outbox_event_claim outbox_event_pkey"},
	} {
		wantPlan(f, name, q.args, q.uses)
	}
}

// TestPlansOfAnEmptiedTable: where vacuum found nothing alive, or nothing that it could count, PostgreSQL takes the table
// for empty however many pages it has, and a walk over all of them for cheap. So it goes beside a long snapshot, where
// the dead rows of an hour are there.
func TestPlansOfAnEmptiedTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	load(f)
	f.exec(`delete from postrider.outbox_event`)
	f.exec(`vacuum (truncate off, analyze) postrider.outbox_event`)
	if n := value[float64](f, `select reltuples from pg_class where oid = 'postrider.outbox_event'::regclass`); n > 10 {
		t.Fatalf("the table is taken for one of %.0f rows: nothing was tested", n)
	}
	f.insert("a", "b")
	plans := eventPlans()
	maps.Copy(plans, purgePlans())
	for name, q := range plans {
		wantPlan(f, name, q.args, q.uses)
	}
}
