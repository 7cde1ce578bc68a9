package postgres

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// identified replaces what stands for the ids of row i.
var identified = strings.NewReplacer("{entry}", numbered(1), "{event}", numbered(2), "{sent}", numbered(3))

func numbered(kind int) string {
	return fmt.Sprintf("('00000000-0000-0000-%04d-' || lpad(i::text, 12, '0'))::uuid", kind)
}

func numberedUUID(kind, i int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("00000000-0000-0000-%04d-%012d", kind, i))
}

// fill writes n investigations of events after from, each with its letter and its event, and an operation over them all.
// Either all of it is over: redriven, delivered, closed and treated; or it is all to be done, and every other one is
// on its way already.
func (r *redriving) fill(from, n int, over bool) (operation uuid.UUID) {
	r.t.Helper()
	operation = numberedUUID(9, from)
	for _, sql := range []string{
		`insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, topic, snapshot, last_occurred_at, resolution_status, resolution_timestamp)
			select {entry}, 'event', i::text, 'failed', 'max_retries_exceeded', now(), 'orders', '{}', now(),
				(case when g.over then 'manually_resolved' else 'pending' end)::postrider.dlq_resolution_status, case when g.over then now() end from given g`,
		`insert into postrider.outbox_event (id, event_id, topic, key, payload) overriding system value
			select i, {event}, 'orders', convert_to('key-' || i % 100, 'UTF8'), 'x' from given g`,
		`insert into postrider.outbox_exception (id, event_id, topic, state, episode, sent_at, copied, kind, key, payload, headers, created_at)
			select i, {event}, 'orders', 'dead_lettered', 1, now(), true, 'event', convert_to('key-' || i % 100, 'UTF8'), 'x', '{}', now() from given g`,
		`insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload, payload_kind, headers, event_id, episode, outbox_id, origin_topic)
			select 'event:' || {event} || ':1', {entry}, 'postrider', 'd', 0, i, 'tombstone', 'x', 'inline', '[["trace", "x"]]', {event}, 1, i, 'orders' from given g`,
		`insert into postrider.dlq_operation (dlq_operation_uuid, kind, name, actor, state, scope, items)
			select distinct g.operation, 'redrive', g.operation::text, 'a', case when g.over then 'completed' else 'running' end, '{}'::jsonb, count(*) over () from given g`,
		`insert into postrider.dlq_operation_item (dlq_operation_uuid, item, dlq_entry_uuid, state)
			select g.operation, g.place, {entry}, case when g.over then 'done' else 'waiting' end from given g`,
		`insert into postrider.dlq_redrive (redrive_id, dlq_entry_uuid, generation, dlq_operation_uuid, letter_id, outbox_id, event_id, target, actor, outcome)
			select {entry} || ':1', {entry}, 1, g.operation, 'event:' || {event} || ':1', 1000000 + i, {sent}, 'orders', 'a', case when g.over then 'delivered' end
			from given g where g.over or i % 2 = 0`,
	} {
		mustExec(r.t, r.subject.pool, `with given as (
			select i, i - $1::int as place, $3::boolean as over, $4::uuid as operation from generate_series($1::int + 1, $1::int + $2::int) i) `+identified.Replace(sql), from, n, over, operation)
	}
	mustExec(r.t, r.subject.pool, `select setval('postrider.outbox_event_id_seq', 10000000)`)
	return operation
}

// filled are the investigations of fill whose number leaves rest when it is divided by two, their letters and redrives.
func filled(from, n, rest int) (entries []uuid.UUID, letters, redrives []string) {
	for i := from + 1; i <= from+n; i++ {
		if i%2 == rest {
			entry := numberedUUID(1, i)
			entries = append(entries, entry)
			letters = append(letters, "event:"+numberedUUID(2, i).String()+":1")
			redrives = append(redrives, entry.String()+":1")
		}
	}
	return entries, letters, redrives
}

// batchQueries are the statements that a batch of an operation, or a look at redrives, makes of rows that it finds by
// their keys.
func batchQueries(operation uuid.UUID, waiting, going []uuid.UUID, redrives []string) map[string][]any {
	n := len(waiting)
	texts := func(s string) []string { return slices.Repeat([]string{s}, n) }
	places := make([]int64, n)
	for i := range places {
		places[i] = int64(i + 1)
	}
	return map[string][]any{
		"waiting":   {operationWaiting, operation, n},
		"lock":      {redriveLock, waiting},
		"to go":     {purgeLock, waiting},
		"read":      {redriveRead, waiting, message.HeaderInvalidHeaders},
		"treated":   {operationTreated, operation, places, texts("done"), texts(""), "sent"},
		"outcome":   {operationOutcome, slices.Repeat([]uuid.UUID{operation}, n), going, texts("delivered")},
		"advance":   {operationAdvance, operation, n, 0, 0, "running", "", 0, false, n},
		"under way": {redriveUnderWay, going},
		"open":      {redriveOpen, 100, "", n, "main"},
		"end":       {redriveEnd, redrives, texts("gone")},
		"forget":    {redriveForget, redrives},
		"again":     {redriveDiedAgain, redrives},
		"close":     {entryClose, going, "cancelled", texts(""), "a"},
		"events":    {haltingOf, going},
		"purge":     {purgeDelete, going},
	}
}

// walks returns the flaw of a plan that is more than a look at each row by its key, and an empty text for other plans.
func walks(name, plan string) string {
	for _, bad := range []string{"Seq Scan on dlq_", "Seq Scan on outbox_", "Hash Join", "Merge Join", "dlq_redrive_one_open", "dlq_entry_one_pending"} {
		if strings.Contains(plan, bad) {
			return bad
		}
	}
	if name != "open" && strings.Contains(plan, "dlq_redrive_open") {
		return "dlq_redrive_open"
	}
	if name == "waiting" && !strings.Contains(plan, "dlq_operation_item_waiting") || name == "open" && !strings.Contains(plan, "dlq_redrive_open") {
		return "another index than its own"
	}
	if name == "treated" && !regexp.MustCompile(`dlq_operation_uuid = .* AND \(item = `).MatchString(plan) {
		return "not each item by its place"
	}
	nodes := strings.Split(plan, "->")
	for _, node := range nodes {
		if regexp.MustCompile(`Index (Only )?Scan (Backward )?using`).MatchString(node) && !strings.Contains(node, "Index Cond") {
			return "an index from end to end"
		}
	}
	return ""
}

// TestPlansOfABatchDoNotRestOnStatistics: these were taken while the tables were empty, or while all that was in them was
// over; or the plan is one that a session made when they were small. Each of these made a batch cost what all others
// before it had done.
func TestPlansOfABatchDoNotRestOnStatistics(t *testing.T) {
	t.Parallel()
	const old, fresh, n = 4000, 2000, 100
	for name, steps := range map[string][]string{
		"none":                {"over", "fresh", "prepare"},
		"of empty tables":     {"analyse", "over", "fresh", "prepare"},
		"of what is over":     {"over", "analyse", "fresh", "prepare"},
		"of an older session": {"prepare", "over", "fresh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRedriving(t)
			waiting, letters, _ := filled(old, fresh, 1)
			going, _, redrives := filled(old, fresh, 0)
			conn, err := r.subject.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			within := func(f func(tx pgx.Tx)) {
				t.Helper()
				tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: steady + "; set local plan_cache_mode = 'force_generic_plan'"})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback(t.Context()) }()
				f(tx)
			}
			queries := batchQueries(uuid.Nil, waiting[:n], going[:n], redrives[:n])
			prepare := func() {
				// Made and asked for once: from then on the session has its plan.
				within(func(tx pgx.Tx) {
					for name, query := range queries {
						mustRun(t, tx, "prepare "+preparedName(name)+" as "+query[0].(string))
						mustRun(t, tx, "explain execute "+preparedName(name)+literals(query[1:]))
					}
				})
			}
			var operation uuid.UUID
			for _, step := range steps {
				switch step {
				case "over":
					r.fill(0, old, true)
				case "analyse":
					mustExec(t, r.subject.pool, `analyze`)
				case "fresh":
					operation = r.fill(old, fresh, false)
				case "prepare":
					prepare()
				}
			}
			queries = batchQueries(operation, waiting[:n], going[:n], redrives[:n])
			within(func(tx pgx.Tx) {
				for name, query := range queries {
					custom := explained(t, tx, query[0].(string), query[1:]...)
					generic := strings.Join(pgtest.Column[string](t, tx, "explain execute "+preparedName(name)+literals(query[1:])), "\n")
					for kind, plan := range map[string]string{"custom": custom, "generic": generic} {
						if why := walks(name, plan); why != "" {
							t.Errorf("%s, its %s plan: %s\n%s", name, kind, why, plan)
						}
					}
				}
			})
			// Plans within the functions are not seen; the pages that they read and write for a message are.
			tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: steady})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			events := make([]uuid.UUID, n)
			for i := range events {
				events[i] = dlqtest.EventID(i)
			}
			for round := range 8 { // the session's own plans of them are made on the way
				last := pgtest.Value[int64](t, tx, `select last_value from postrider.outbox_event_id_seq`)
				err := pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error { // a savepoint: open redrives are not made again
					run := func(what, query string, args ...any) {
						t.Helper()
						lines := pgtest.Column[string](t, tx, "explain (analyze, buffers, timing off, costs off) "+query, args...)
						if pages := buffers(strings.Join(lines, "\n")); pages == 0 || pages > 100*n {
							t.Errorf("round %d: to %s %d messages reads and writes %d pages", round, what, n, pages)
						}
					}
					run("send", redriveEnqueue, letters[:n], events, slices.Repeat([]string{"orders"}, n), make([]*string, n), false, nil, nil)
					ids := pgtest.Column[int64](t, tx, `select id from postrider.outbox_event where id > $1 order by id`, last)
					run("note", redriveNote, operation, "a", waiting[:n], letters[:n], ids, events, make([]bool, n), make([]int32, n),
						slices.Repeat([]string{"orders"}, n), make([]bool, n))
					if got := pgtest.Value[int](t, tx, `select count(*) from postrider.dlq_redrive where letter_id = any ($1) and generation = 1`, letters[:n]); got != n {
						t.Errorf("round %d: %d are noted, want %d", round, got, n)
					}
					return errTakenBack
				})
				if !errors.Is(err, errTakenBack) {
					t.Fatal(err)
				}
			}
		})
	}
}

var errTakenBack = errors.New("taken back")

func preparedName(name string) string { return "batch_" + strings.ReplaceAll(name, " ", "_") }

func mustRun(t *testing.T, tx pgx.Tx, sql string) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%.200s: %v", sql, err)
	}
}

// literals are arguments as execute has them.
func literals(args []any) string {
	var out []string
	for _, a := range args {
		v := reflect.ValueOf(a)
		if v.Kind() != reflect.Slice {
			out = append(out, "'"+fmt.Sprint(a)+"'")
			continue
		}
		var elements []string
		for i := range v.Len() {
			elements = append(elements, `"`+fmt.Sprint(v.Index(i).Interface())+`"`)
		}
		out = append(out, "'{"+strings.Join(elements, ",")+"}'")
	}
	return "(" + strings.Join(out, ", ") + ")"
}

// buffers is how many pages a plan that was run says it had in hand.
func buffers(plan string) (pages int) {
	_, line, _ := strings.Cut(plan, "Buffers: ")
	line, _, _ = strings.Cut(line, "\n")
	for _, part := range regexp.MustCompile(`(?:hit|read)=(\d+)`).FindAllStringSubmatch(line, -1) {
		n, _ := strconv.Atoi(part[1])
		pages += n
	}
	return pages
}
