package postgres

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
)

// array is a literal with n elements.
func array(n int, element, of string) string {
	return "'{" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "}'::" + of + "[]"
}

func idList(n int) string {
	var b strings.Builder
	for id := range n {
		fmt.Fprintf(&b, ",%d", id+1)
	}
	return "'{" + b.String()[1:] + "}'::bigint[]"
}

// plans are what PostgreSQL is asked with large tables, and with which arguments.
func plans() map[string]string {
	const n = 1000
	return map[string]string{
		"log_read":          "'{5,90}'::bigint[], '{7,99}'::bigint[], 150000, 5000, 65536",
		"log_details":       idList(n),
		"log_large":         idList(n),
		"log_take":          "'{1,2}'::bigint[], '{0,50}'::bigint[], '{9223372036854775807,9223372036854775807}'::bigint[], '{100,100}'::int[], 500, 67108864, 1000000000",
		"log_due_holds":     "500, 1000000000",
		"log_glance":        "150000",
		"log_glance_due":    "1000000000, 1000000000",
		"log_begin":         "",
		"log_gone":          idList(n),
		"log_put_back":      idList(n),
		"log_free":          "",
		"log_skipped":       idList(n),
		"log_resolve_skips": "",
		"log_exceptions": fmt.Sprintf("%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s", idList(n), array(n, uuid.Nil.String(), "uuid"), array(n, "t", "text"), array(n, "exhausted", "text"),
			array(n, "1", "bigint"), array(n, "1", "bigint"), array(n, "1", "int"), array(n, "1", "int"), array(n, "a", "text"), array(n, "a", "text"), array(n, "a", "text")),
		"list_events":        "180000, '', '', null, null, null, 25, 20000, '', null, '', null, null, null, false",
		"read_backlog":       "1000",
		"claim_letters":      "'{t,u}'::text[], 16, 1000000",
		"letter_topics":      "1000000",
		"count_letters":      "",
		"postpone_letters":   idList(n) + ", 1",
		"settle_letters":     idList(n),
		"find_halting":       idList(n),
		"read_event_bytes":   "777",
		"read_event_headers": idList(20),
		"list_holds":         "100, null, null, null, null, null",
		"read_delivered":     "100000, now() - interval '15 minutes'",
		"read_latency":       "",
		"list_task_events":   "180000, '', '', null, '" + uuid.Nil.String() + "', null, 25, 20000, '', null, '', null, null, null",
	}
}

// walk is a node that reads a whole table of events or exceptions, or an index without a condition to begin at.
var walk = regexp.MustCompile(`(?:Seq|Bitmap Heap) Scan on outbox_(?:event|exception|receipt)|(?:using outbox_event_pkey on outbox_event|using outbox_exception_pkey on outbox_exception) \S+\n\s*(?:->|$|Filter)`)

// explain returns the plan of a query in a session of the relay.
func explain(f *fixture, name, args, mode string) string {
	f.Helper()
	conn, err := f.relay.Acquire(f.Context())
	f.done(err)
	defer conn.Release()
	call := "q"
	if args != "" {
		call = "q(" + args + ")"
	}
	var lines []string
	err = pgx.BeginFunc(f.Context(), conn, func(tx pgx.Tx) error {
		for _, sql := range []string{"set local plan_cache_mode = " + mode, "prepare q as " + query(name)} {
			if _, err := tx.Exec(f.Context(), sql); err != nil {
				return err
			}
		}
		rows, err := tx.Query(f.Context(), "explain (costs off) execute "+call)
		if err != nil {
			return err
		}
		if lines, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
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

// TestPlans: with 200,000 events, 100,000 of them exceptions of every kind, each query walks along indexes: if nothing was
// analysed, if the tables were analysed when they were empty, and if the statistics are right.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, statistics := range []string{"none", "of empty tables", "right", "vacuumed away"} {
		t.Run(statistics, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.exec(`alter table postrider.outbox_event set (autovacuum_enabled = off); alter table postrider.outbox_exception set (autovacuum_enabled = off);
				alter table postrider.outbox_receipt set (autovacuum_enabled = off); alter table postrider.outbox_hold set (autovacuum_enabled = off)`)
			if statistics == "of empty tables" {
				f.exec(`analyze`)
			}
			f.exec(`insert into postrider.outbox_event (topic, key, payload) select 't', convert_to((i % 5000)::text, 'UTF8'), 'payload' from generate_series(1, 200000) i`)
			f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at) select 'key', 't', convert_to(i::text, 'UTF8'), 'retry', now() from generate_series(1, 100) i`)
			f.exec(`insert into postrider.outbox_exception (id, event_id, topic, state, hold_id, next_attempt_at, copied)
				select e.id, e.event_id, 't', (array['parked', 'scheduled', 'exhausted', 'dead_lettered'])[1 + e.id % 4]::postrider.outbox_exception_state,
				       case when e.id % 4 = 0 then 1 + e.id % 100 end, case when e.id % 4 = 1 then now() end, e.id % 4 > 1
				from postrider.outbox_event e where e.id <= 100000`)
			f.exec(`insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps)
				select i, 1, i * 100, i * 100 - 99, int8multirange(int8range(i * 100 - 99, i * 100 + 1)), '{}' from generate_series(1, 1500) i`)
			switch statistics {
			case "right":
				f.exec(`analyze`)
			case "vacuumed away": // and so taken for empty, however many pages there are
				f.exec(`delete from postrider.outbox_event`)
				f.exec(`delete from postrider.outbox_exception`)
				f.exec(`vacuum (truncate off, analyze) postrider.outbox_event`)
				f.exec(`vacuum (truncate off, analyze) postrider.outbox_exception`)
			}
			for name, args := range plans() {
				for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
					if plan := explain(f, name, args, mode); walk.MatchString(plan) {
						t.Errorf("%s, %s walks over all there is:\n%s", name, mode, plan)
					}
				}
			}
		})
	}
}

// An event is found by its event_id, and the events of a task are found, however large the log is and right after a bulk
// load that was not vacuumed. Events that the relay has read are found by its notes, the others among the next ones.
func TestEventsAreFoundInALargeLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`alter table postrider.outbox_event set (autovacuum_enabled = off)`)
	task := uuid.New()
	f.exec(`insert into postrider.outbox_event (topic, task_uuid) select 't', $1 from generate_series(1, 3)`, task)
	f.exec(`insert into postrider.outbox_event (topic, key, payload) select 't', convert_to((i % 5000)::text, 'UTF8'), 'payload' from generate_series(1, 200000) i`)
	look := func(when string) {
		page, err := f.store.Events(t.Context(), relay.EventFilter{TaskUUID: task, Limit: 2})
		if err != nil || len(page.Events) != 2 || page.Next == 0 || page.Events[0].ID != 3 {
			t.Errorf("%s: of the task %+v, %v", when, page, err)
		}
		page, err = f.store.Events(t.Context(), relay.EventFilter{EventID: eventID(f, 77)})
		if err != nil || len(page.Events) != 1 || page.Events[0].ID != 77 {
			t.Errorf("%s: by id %+v, %v", when, page, err)
		}
	}
	look("before it is read")
	f.exec(`insert into postrider.outbox_task_event select $1, id from generate_series(1, 3) id`, task)
	f.exec(`insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps) values (1, 1, 200003, 1, '{[1,200004)}', '{}')`)
	look("after it was read")
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

// TestAPageReadsFewReceipts: a list of events, and the oldest event, cost what they show, however many receipts there are, with
// and without some that exceptions have left.
func TestAPageReadsFewReceipts(t *testing.T) {
	t.Parallel()
	for name, returned := range map[string]string{"none returned": "null", "some returned": "case when i % 100 = 0 then int8multirange(int8range(i - 50, i - 49)) end"} {
		for _, analysed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, analysed: %v", name, analysed), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.exec(`alter table postrider.outbox_event set (autovacuum_enabled = off); alter table postrider.outbox_receipt set (autovacuum_enabled = off)`)
				f.exec(`insert into postrider.outbox_event (topic, payload) select 't', 'payload' from generate_series(1, 40000)`)
				f.exec(`insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps, returned)
					select i, 1, i, i, int8multirange(int8range(i, i + 1)), '{}', ` + returned + ` from generate_series(1, 40000) i`)
				if analysed {
					f.exec(`analyze`)
				}
				for _, page := range []struct {
					name              string
					before            int64
					id                any
					limit, walk, most int
				}{
					{"a page of 25 events", math.MaxInt64, nil, 25, eventWalk, 6 * eventWalk}, // four for each event that is looked at
					{"the oldest event", 2, int64(1), 1, 1, 500},
				} {
					var lines []string
					f.done(pgx.BeginFunc(t.Context(), f.relay, func(tx pgx.Tx) error {
						rows, err := tx.Query(t.Context(), "explain (analyze, buffers, timing off, costs off) "+query("list_events"),
							page.before, "", "", nil, nil, page.id, page.limit, page.walk, "", nil, "", nil, nil, nil, false)
						if err == nil {
							lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
						}
						return err
					}))
					plan := strings.Join(lines, "\n")
					hit := regexp.MustCompile(`Buffers: shared hit=(\d+)`).FindStringSubmatch(plan) // of the top node
					if hit == nil {
						t.Fatalf("no figure in\n%s", plan)
					}
					if blocks, _ := strconv.Atoi(hit[1]); blocks > page.most {
						t.Errorf("%s reads %d blocks, more than %d:\n%s", page.name, blocks, page.most, plan)
					}
				}
			})
		}
	}
}
