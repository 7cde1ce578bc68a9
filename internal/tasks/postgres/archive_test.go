package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/message"
)

func TestArchiveOnlyArchivesOldCompletedTasks(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	old := r.ended("complete", 31*day)
	resolved := r.ended("resolved_manually", 45*day)
	failed := r.ended("error", 31*day)
	fresh := r.ended("complete", 29*day)
	cancelled := r.ended("cancelled", 400*day)
	var active []uuid.UUID
	for _, state := range []string{"pending", "initializing", "enqueuing_steps", "steps_in_process", "evaluating_results",
		"waiting_for_dependencies", "waiting_for_retry", "blocked_by_failures"} {
		active = append(active, r.ended(state, 400*day))
	}
	before := r.census()

	dry := r.run(func(o *ledger.ArchiveOptions) { o.DryRun = true })
	want := ledger.Archived{Tasks: 3, Steps: 12, Transitions: 6, Complete: 2, Error: 1}
	if dry != want {
		t.Errorf("the dry run counts %+v, want %+v", dry, want)
	}
	if n := one[int](r, `select count(*) from postrider.tasker_tasks_archive`) + one[int](r, `select count(*) from postrider.tasker_archive_statistics`); n != 0 {
		t.Errorf("a dry run wrote %d rows", n)
	}
	if got := r.run(); got != want {
		t.Errorf("archived %+v, want %+v", got, want)
	}
	r.want(old, "archive as complete")
	r.want(resolved, "archive as complete")
	r.want(failed, "archive as error")
	for _, id := range append(active, fresh, cancelled) {
		r.want(id, "live")
	}
	if again := r.run(); again != (ledger.Archived{}) {
		t.Errorf("a second run archived %+v", again)
	}
	if after := r.census(); after != before {
		t.Errorf("before: %s, after: %s", before, after)
	}
	for _, id := range []uuid.UUID{old, resolved, failed} {
		events := ledgertest.OfType(ledgertest.Events(t, r.pool, id), "postrider.task.archived.v1")
		if len(events) != 1 {
			t.Fatalf("task %s: %d events say that it was archived", id, len(events))
		}
		var payload map[string]any
		if err := json.Unmarshal(events[0].Payload, &payload); err != nil {
			t.Fatal(err)
		}
		archived := one[time.Time](r, `select archived_at from postrider.tasker_tasks_archive where task_uuid = $1`, id)
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(payload["archived_at"]))
		if err != nil || !at.Equal(archived) || payload["task_uuid"] != id.String() || payload["task_name"] != "task" ||
			payload["from_state"] == nil || payload["from_state"] != payload["to_state"] || payload["sort_key"] != 2.0 || payload["final_state"] == nil {
			t.Errorf("the event says %s, %v; archived at %v", events[0].Payload, err, archived)
		}
	}
	for _, id := range append(active, fresh, cancelled) {
		if n := len(ledgertest.OfType(ledgertest.Events(t, r.pool, id), "postrider.task.archived.v1")); n != 0 {
			t.Errorf("%d events say that task %s was archived", n, id)
		}
	}
}

// rowsOf are the rows of a table as JSON by identity, without what only the archive has.
func (r *archiveRig) rowsOf(table, id string) map[string]string {
	r.Helper()
	rows, err := r.pool.Query(r.Context(), fmt.Sprintf(`select %s::text, (to_jsonb(x) - '{archived_at,namespace_name,task_name,task_version,final_state}'::text[])::text from postrider.%s x`, id, table))
	if err != nil {
		r.Fatal(err)
	}
	all := map[string]string{}
	var key, row string
	if _, err := pgx.ForEachRow(rows, []any{&key, &row}, func() error { all[key] = row; return nil }); err != nil {
		r.Fatal(err)
	}
	return all
}

// work lets a task go the whole way, with a step that fails once.
func (r *archiveRig) work(task uuid.UUID, n int) {
	r.Helper()
	steps := ledgertest.Steps(r.T, r.pool, task)
	all := &pgx.Batch{} // in one round trip
	for _, name := range []string{"a", "b", "c", "d"} {
		step := steps[name].UUID
		all.Queue(`select postrider.start_step($1, 'w')`, step)
		if name == "b" && n%3 == 0 {
			all.Queue(`select postrider.fail_step($1, 'timeout "x"', true, '0')`, step)
			all.Queue(`select postrider.start_step($1, 'w')`, step)
		}
		all.Queue(`select postrider.complete_step($1, jsonb_build_object('n', $2::int, 'big', 12345678901234567890::numeric))`, step, n)
	}
	if err := r.pool.SendBatch(r.Context(), all).Close(); err != nil {
		r.Fatal(err)
	}
	if state := ledgertest.State(r.T, r.pool, task); state != "complete" {
		r.Fatalf("task %s is in %s", task, state)
	}
}

func TestArchivalPreservesDataIntegrity(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	const tasks = 100
	for n := range tasks {
		id := ledgertest.Create(t, r.pool, ledgertest.New{Context: fmt.Sprintf(`{"n": %d, "text": "Grüße ☃ \" \\ ", "list": [1, null, {"x": 1e2}]}`, n),
			Priority: n, Key: fmt.Sprintf("key %d", n)})
		r.work(id, n)
		if n%10 == 0 {
			entry := r.collect(r.letter(id, dlq.ManualDLQ), id, dlq.ManualDLQ)
			r.close(entry, dlq.ManuallyResolved)
			r.exec(`update postrider.tasker_tasks set error_reason = 'why', metadata = '{"error": {"reason": "R"}}', retry_count = 2, stale_flagged_at = now() where task_uuid = $1`, id)
		}
		ledgertest.Age(t, r.pool, id, 40*day)
	}
	before := map[string]map[string]string{}
	for table, id := range tables {
		before[table] = r.rowsOf(table, id)
	}
	if got := r.run(func(o *ledger.ArchiveOptions) { o.BatchSize = 30 }); got.Tasks != tasks || got.Steps != 4*tasks || got.DLQResolved != 10 || got.Complete != 90 {
		t.Errorf("archived %+v", got)
	}
	for table, id := range tables {
		if left := r.rowsOf(table, id); len(left) != 0 {
			t.Errorf("%d rows are left in %s", len(left), table)
		}
		after := r.rowsOf(table+"_archive", id)
		if len(before[table]) < tasks || !maps.Equal(before[table], after) {
			t.Errorf("%s: %d rows before, %d after, or they differ", table, len(before[table]), len(after))
			for key, row := range before[table] {
				if after[key] != row {
					t.Fatalf("before: %s\nafter:  %s", row, after[key])
				}
			}
		}
	}
	if n := one[int](r, `select count(*) from postrider.tasker_tasks_archive where namespace_name = 'default' and task_name = 'task' and task_version = '1.0.0'`); n != tasks {
		t.Errorf("%d archived tasks have their names", n)
	}
}

// TestArchiveHasEveryColumn: a column that a later migration gives to a live table must come along.
func TestArchiveHasEveryColumn(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	for table := range tables {
		missing := one[[]string](r, `select coalesce(array_agg(format('%s %s', a.attname, format_type(a.atttypid, a.atttypmod))), '{}')
			from pg_attribute a where a.attrelid = ('postrider.' || $1)::regclass and a.attnum > 0 and not a.attisdropped and not exists (
				select from pg_attribute b where b.attrelid = ('postrider.' || $1 || '_archive')::regclass and b.attname = a.attname
				and b.atttypid = a.atttypid and b.atttypmod = a.atttypmod and b.attnotnull = a.attnotnull and not b.attisdropped)`, table)
		if len(missing) > 0 {
			t.Errorf("%s_archive lacks %q: give it these columns, and archive_completed_tasks as well", table, missing)
		}
		// That the function moves each column is seen from its text.
		source := one[string](r, `select prosrc from pg_proc where oid = 'postrider.archive_completed_tasks'::regproc`)
		_, insert, _ := strings.Cut(source, "insert into postrider."+table+"_archive")
		insert, _, _ = strings.Cut(insert, "from gone")
		columns := strings.FieldsFunc(insert, func(c rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz_0123456789", c) })
		for _, column := range one[[]string](r, `select array_agg(attname::text) from pg_attribute where attrelid = ('postrider.' || $1)::regclass and attnum > 0 and not attisdropped`, table) {
			if n := len(slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return c != column })); n != 2 {
				t.Errorf("archive_completed_tasks names column %s of %s %d times, want 2", column, table, n)
			}
		}
	}
}

func TestArchivePolicies(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	ledgertest.AddMachine(t, r.pool, ledgertest.Protocol())
	ledgertest.Apply(t, r.pool, ledgertest.Template{Name: "document", Machine: "protocol"})
	investigated := func(state string) uuid.UUID {
		id := r.ended(state, 40*day)
		r.close(r.collect(r.letter(id, dlq.StalenessTimeout), id, dlq.StalenessTimeout), dlq.PermanentlyFailed)
		return id
	}
	document := func(state string) uuid.UUID {
		id := ledgertest.Create(t, r.pool, ledgertest.New{Name: "document"})
		ledgertest.Put(t, r.pool, id, state)
		ledgertest.Age(t, r.pool, id, 40*day)
		return id
	}
	tasks := map[string][]uuid.UUID{
		"complete":     {r.ended("complete", 40*day), r.ended("resolved_manually", 40*day), document("complete")},
		"error":        {r.ended("error", 40*day), document("dead_letter"), document("archived"), document("grounding_failed")},
		"cancelled":    {r.ended("cancelled", 40*day), investigated("cancelled")},
		"dlq_resolved": {investigated("error"), investigated("complete")},
	}
	for _, p := range []struct {
		final  string
		policy ledger.ArchivePolicies
		count  ledger.Archived
	}{
		{"cancelled", ledger.ArchivePolicies{Cancelled: true}, ledger.Archived{Tasks: 2, Cancelled: 2}},
		{"dlq_resolved", ledger.ArchivePolicies{DLQResolved: true}, ledger.Archived{Tasks: 2, DLQResolved: 2}},
		{"complete", ledger.ArchivePolicies{Completed: true}, ledger.Archived{Tasks: 3, Complete: 3}},
		{"error", ledger.ArchivePolicies{Failed: true}, ledger.Archived{Tasks: 4, Error: 4}},
	} {
		if got := r.run(func(o *ledger.ArchiveOptions) { o.Policies = &ledger.ArchivePolicies{} }); got.Tasks != 0 {
			t.Errorf("without any policy %d tasks went", got.Tasks)
		}
		// As dry as real.
		for _, dry := range []bool{true, false} {
			got := r.run(func(o *ledger.ArchiveOptions) { o.Policies, o.DryRun = &p.policy, dry })
			got.Steps, got.Transitions = 0, 0
			if got != p.count {
				t.Errorf("policy %+v, dry %v: %+v, want %+v", p.policy, dry, got, p.count)
			}
		}
		for final, ids := range tasks {
			for _, id := range ids {
				if final == p.final {
					r.want(id, "archive as "+final)
				}
			}
		}
		delete(tasks, p.final)
		for _, ids := range tasks {
			for _, id := range ids {
				r.want(id, "live")
			}
		}
	}
}

// TestArchiveWaitsForInvestigations: a task stays while a dead letter of it is on its way, or an investigation
// of it is pending.
func TestArchiveWaitsForInvestigations(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	all := &ledger.ArchivePolicies{Completed: true, Failed: true, Cancelled: true, DLQResolved: true}
	id, other := r.ended("error", 40*day), r.ended("error", 40*day)
	stays := func(why string) {
		t.Helper()
		if got := r.run(func(o *ledger.ArchiveOptions) { o.Policies = all }); got.Tasks != 0 {
			t.Errorf("%s: %d tasks were archived", why, got.Tasks)
		}
		r.want(id, "live")
	}
	first := r.letter(id, dlq.StalenessTimeout)
	if got := r.run(func(o *ledger.ArchiveOptions) { o.Policies = all }); got.Tasks != 1 {
		t.Errorf("beside a task that stays %d were archived", got.Tasks)
	}
	r.want(other, "archive as error")
	stays("the letter is on its way")
	entry := r.collect(first, id, dlq.StalenessTimeout)
	stays("the investigation is pending")
	second := r.letter(id, dlq.ManualDLQ)
	r.close(entry, dlq.ManuallyResolved)
	stays("a second letter is on its way")
	entry = r.collect(second, id, dlq.ManualDLQ)
	stays("the second investigation is pending")
	r.close(entry, dlq.Cancelled)
	if got := r.run(func(o *ledger.ArchiveOptions) { o.Policies = all }); got.DLQResolved != 1 {
		t.Errorf("archived %+v", got)
	}
	r.want(id, "archive as dlq_resolved")
	task, err := r.archive.Task(t.Context(), id)
	if err != nil || !slices.Equal(task.DeadLetters, []string{first, second}) {
		t.Errorf("the archived task has the letters %q, %v", task.DeadLetters, err)
	}
}

// TestArchiveGoesOnBehindWhatStays: tasks that must stay are at the front, and there are more of them than a
// batch has.
func TestArchiveGoesOnBehindWhatStays(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	for i := range 25 {
		r.ended("cancelled", 100*day)
		r.letter(r.ended("error", 90*day), dlq.StalenessTimeout)
		r.ended("complete", 40*day+time.Duration(i/5)*time.Hour) // five at a time share a time
	}
	// Ties are told apart by the uuid, over the border of a batch, too.
	r.exec(`update postrider.tasker_tasks set state_entered_at = date_trunc('hour', state_entered_at) where state = 'complete'`)
	if dry := r.run(func(o *ledger.ArchiveOptions) { o.BatchSize, o.DryRun = 3, true }); dry.Tasks != 25 {
		t.Errorf("a dry run in small batches counts %d", dry.Tasks)
	}
	if got := r.run(func(o *ledger.ArchiveOptions) { o.BatchSize = 3 }); got.Tasks != 25 || got.Complete != 25 {
		t.Errorf("archived %+v", got)
	}
	if n := one[int](r, `select count(*) from postrider.tasker_tasks`); n != 50 {
		t.Errorf("%d tasks are live", n)
	}
}

// TestArchiveWalksInPieces: one call looks at so many tasks that must stay and no more, and says where the next goes on.
func TestArchiveWalksInPieces(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	named := one[uuid.UUID](r, `select named_task_uuid from postrider.tasker_named_tasks`)
	r.exec(`insert into postrider.tasker_tasks (named_task_uuid, state, live, state_entered_at)
		select $1, 'cancelled', false, now() - interval '90 days' + i * interval '1 second' from generate_series(1, 25000) i`, named)
	last := r.ended("complete", 40*day)
	// In a transaction of its own a call counts what it reads.
	call := func(after *ledger.TaskPlace) (tasks, fetched int, more bool, place ledger.TaskPlace) {
		t.Helper()
		var at *time.Time
		var id *uuid.UUID
		if after != nil {
			at, id = &after.At, &after.TaskUUID
		}
		err := pgx.BeginFunc(t.Context(), r.db.Conn(t), func(tx pgx.Tx) error {
			if err := tx.QueryRow(t.Context(), `select tasks_archived, more, last_entered, last_task from postrider.archive_completed_tasks(30, 100, true,
				p_after_entered => $1, p_after_task => $2)`, at, id).Scan(&tasks, &more, &place.At, &place.TaskUUID); err != nil {
				return err
			}
			return tx.QueryRow(t.Context(), `select pg_stat_get_xact_tuples_fetched('postrider.tasker_tasks'::regclass)`).Scan(&fetched)
		})
		if err != nil {
			t.Fatal(err)
		}
		return tasks, fetched, more, place
	}
	var after *ledger.TaskPlace
	for n, want := range []struct {
		tasks int
		more  bool
	}{{0, true}, {0, true}, {1, false}} {
		tasks, fetched, more, place := call(after)
		if tasks != want.tasks || more != want.more || fetched > 10_100 {
			t.Errorf("call %d counts %d tasks, more %v, and reads %d", n+1, tasks, more, fetched)
		}
		after = &place
	}
	if got := r.run(); got.Tasks != 1 || got.Complete != 1 {
		t.Errorf("archived %+v", got)
	}
	r.want(last, "archive as complete")
	// With the policy for them they go, and all of them.
	policies := ledger.ArchivePolicies{Cancelled: true}
	if dry := r.run(func(o *ledger.ArchiveOptions) { o.Policies, o.DryRun = &policies, true }); dry.Cancelled != 25000 {
		t.Errorf("with the policy for cancelled ones %+v would go", dry)
	}
}

// TestLetterThatArrivedByReference: the letter of a task that is too large for the dead-letter topic arrives without its
// value; the task is archived all the same once its investigation is closed.
func TestLetterThatArrivedByReference(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	id := r.ended("error", 40*day)
	letter := r.letter(id, dlq.StalenessTimeout)
	var outboxID int64
	var event uuid.UUID
	var headers []byte
	if err := r.pool.QueryRow(t.Context(), `select id, event_id, headers from postrider.outbox_event where idempotency_key = $1`, letter).Scan(&outboxID, &event, &headers); err != nil {
		t.Fatal(err)
	}
	outboxtest.Settle(t, r.pool, outboxtest.DeadLettered, outboxID)
	stored, err := message.ParseHeaders(headers)
	if err != nil {
		t.Fatal(err)
	}
	record := dlq.Record{Topic: "postrider.dlq", Key: []byte(id.String()), Timestamp: time.Now(), Headers: stored}
	for name, value := range map[string]string{message.HeaderLetterVersion: "1", message.HeaderEventID: event.String(), message.HeaderEpisode: "1",
		message.HeaderOriginTopic: "postrider.dlq", message.HeaderErrorClass: "permanent", message.HeaderErrorCode: "MESSAGE_TOO_LARGE",
		message.HeaderPayload: message.PayloadReference, message.HeaderPayloadBytes: "900000", message.HeaderOutboxID: strconv.FormatInt(outboxID, 10)} {
		record.Headers = append(record.Headers, message.Header{Name: name, Value: []byte(value)})
	}
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: r.pool})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.RecordLetters(t.Context(), []dlq.Letter{dlq.Decode(record)}); err != nil {
		t.Fatal(err)
	}
	var entry uuid.UUID
	var reason dlq.Reason
	if err := r.pool.QueryRow(t.Context(), `select dlq_entry_uuid, dlq_reason from postrider.dlq_entry where subject_type = 'task' and subject_id = $1`, id.String()).Scan(&entry, &reason); err != nil {
		t.Fatal(err)
	}
	if reason != dlq.StalenessTimeout {
		t.Errorf("the investigation has the reason %s", reason)
	}
	const closed = `select closed_at is not null from postrider.outbox_exception where event_id = $1 and episode = 1`
	if got := r.run(); got.Tasks != 0 || one[bool](r, closed, event) {
		t.Errorf("with a pending investigation %+v went, or the letter's event is not waited for", got)
	}
	r.close(entry, dlq.ManuallyResolved)
	if got := r.run(); got.DLQResolved != 1 {
		t.Errorf("archived %+v", got)
	}
	r.want(id, "archive as dlq_resolved")
	// The event of the letter may go as well: its letter is recorded and closed.
	if !one[bool](r, closed, event) {
		t.Error("the letter's event is still waited for")
	}
}

func TestArchivedTasksStayUnique(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	id := ledgertest.Create(t, r.pool, ledgertest.New{Key: "order-17"})
	ledgertest.Put(t, r.pool, id, "complete")
	ledgertest.Age(t, r.pool, id, 40*day)
	ledgertest.Apply(t, r.pool, ledgertest.Template{Version: "1.1.0"})
	r.run()
	r.want(id, "archive as complete")
	if again := ledgertest.Create(t, r.pool, ledgertest.New{Key: "order-17"}); again != id {
		t.Errorf("the key of archived task %s gave a new task %s", id, again)
	}
	wantCode(t, r.try(`select postrider.create_task('default', 'task', p_task_uuid => $1)`, id), "23505", "already")
	wantCode(t, r.try(`insert into postrider.tasker_tasks (task_uuid, named_task_uuid, state, live) select $1, named_task_uuid, 'pending', true
		from postrider.tasker_named_tasks limit 1`, id), "23505", "in the archive")
	r.want(id, "archive as complete")
}

func TestArchiveArguments(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	for call, want := range map[string]string{
		`-1`:                       "p_retention_days is -1",
		`36501`:                    "p_retention_days is 36501, it must be from 0 to 36500",
		`2147483647`:               "p_retention_days is 2147483647",
		`null`:                     "p_retention_days is null",
		`1, 0`:                     "p_batch_size is 0",
		`1, 100001`:                "p_batch_size is 100001",
		`1, null`:                  "p_batch_size is null",
		`1, 1, null`:               "p_dry_run",
		`1, 1, true, null`:         "policies",
		`p_archive_failed => null`: "policies",
	} {
		wantCode(t, r.try(`select * from postrider.archive_completed_tasks(`+call+`)`), "22023", want)
	}
	// By default it is a dry run that keeps cancelled tasks.
	r.ended("complete", 31*day)
	r.ended("cancelled", 31*day)
	if n := one[int](r, `select tasks_archived from postrider.archive_completed_tasks()`); n != 1 {
		t.Errorf("by default %d tasks are counted", n)
	}
	if n := one[int](r, `select count(*) from postrider.tasker_tasks`); n != 2 {
		t.Errorf("%d tasks are live", n)
	}
	for _, o := range []ledger.ArchiveOptions{{RetentionDays: -1}, {BatchSize: -1}, {BatchSize: 100_001}, {Pause: -1}} {
		if got, err := ledger.Archive(t.Context(), r.archive, o); err == nil || got.Tasks != 0 {
			t.Errorf("%+v archived %+v, %v", o, got, err)
		}
	}
	if _, err := r.archive.Task(t.Context(), uuid.New()); !errors.Is(err, ledger.ErrNotArchived) {
		t.Errorf("a task that is nowhere: %v", err)
	}
}
