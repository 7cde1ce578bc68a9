package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// archiveRig is a ledger with a template of four steps, and its archive.
type archiveRig struct {
	*testing.T
	db      *pgtest.DB
	pool    *pgxpool.Pool
	archive *postgres.Archive
	offset  int64
}

const day = 24 * time.Hour

const fourSteps = `{"steps": [{"name": "a", "handler": "h"}, {"name": "b", "dependencies": ["a"], "inputs": {"n": 1}},
	{"name": "c", "dependencies": ["a"], "max_retries": 7}, {"name": "d", "dependencies": ["b", "c"]}]}`

func newArchiveRig(t *testing.T) *archiveRig {
	t.Helper()
	db := pgtest.New(t)
	r := &archiveRig{T: t, db: db, pool: db.Pool(t)}
	r.archive = postgres.NewArchive(r.pool)
	ledgertest.Apply(t, r.pool, ledgertest.Template{Configuration: fourSteps})
	return r
}

// ended is a task that came to a state some time ago.
func (r *archiveRig) ended(state string, ago time.Duration) uuid.UUID {
	r.Helper()
	id := ledgertest.Create(r.T, r.pool, ledgertest.New{Context: `{"order": 17}`})
	ledgertest.Put(r.T, r.pool, id, state)
	ledgertest.Age(r.T, r.pool, id, ago)
	return id
}

func (r *archiveRig) exec(sql string, args ...any) {
	r.Helper()
	pgtest.Exec(r, r.pool, sql, args...)
}

func one[T any](r *archiveRig, sql string, args ...any) T {
	r.Helper()
	rows, err := r.pool.Query(r.Context(), sql, args...)
	if err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
	return v
}

// run archives all that the policies allow after 30 days.
func (r *archiveRig) run(change ...func(*ledger.ArchiveOptions)) ledger.Archived {
	r.Helper()
	o := ledger.ArchiveOptions{RetentionDays: 30}
	for _, c := range change {
		c(&o)
	}
	got, err := ledger.Archive(r.Context(), r.archive, o)
	if err != nil {
		r.Fatal(err)
	}
	return got
}

// where says in which of the two places a task is.
func (r *archiveRig) where(task uuid.UUID) string {
	r.Helper()
	return one[string](r, `select concat_ws(' and ', case when exists (select from postrider.tasker_tasks where task_uuid = $1) then 'live' end,
		(select 'archive as ' || final_state from postrider.tasker_tasks_archive where task_uuid = $1))`, task)
}

func (r *archiveRig) want(task uuid.UUID, where string) {
	r.Helper()
	if got := r.where(task); got != where {
		r.Errorf("task %s is in %q, want %q", task, got, where)
	}
}

// letter writes a dead letter of a task, as the detector does, and returns its id.
func (r *archiveRig) letter(task uuid.UUID, reason dlq.Reason) string {
	r.Helper()
	event := one[*uuid.UUID](r, `select postrider.task_dead_letter($1, $2, state, sort_key, 'CODE', 'why') from postrider.tasker_tasks where task_uuid = $1`, task, reason)
	if event == nil {
		r.Fatalf("no letter of task %s was written", task)
	}
	return one[string](r, `select dead_letters[cardinality(dead_letters)] from postrider.tasker_tasks where task_uuid = $1`, task)
}

// collect records a letter of a task as the collector does, and returns the investigation.
func (r *archiveRig) collect(letter string, task uuid.UUID, reason dlq.Reason) uuid.UUID {
	r.Helper()
	return r.collectOf(letter, dlq.Subject{Type: dlq.SubjectTask, ID: task.String()}, reason)
}

// collectOf records a letter of a subject.
func (r *archiveRig) collectOf(letter string, subject dlq.Subject, reason dlq.Reason) uuid.UUID {
	r.Helper()
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: r.pool})
	if err != nil {
		r.Fatal(err)
	}
	r.offset++
	task := uuid.Nil // as the collector reads it
	if subject.Type == dlq.SubjectTask {
		task = uuid.MustParse(subject.ID)
	}
	_, err = store.RecordLetters(r.Context(), []dlq.Letter{{ID: letter, Dialect: dlq.DialectPostrider, DLQTopic: "postrider.dlq", DLQOffset: r.offset,
		DLQRecordAt: time.Now(), Subject: subject, TaskUUID: task, Reason: reason, OriginalState: "steps_in_process", KeyKind: dlq.Tombstone, PayloadKind: dlq.Tombstone}})
	if err != nil {
		r.Fatal(err)
	}
	return one[uuid.UUID](r, `select dlq_entry_uuid from postrider.dlq_letter where letter_id = $1`, letter)
}

func (r *archiveRig) close(entry uuid.UUID, status dlq.Status) {
	r.Helper()
	r.exec(`update postrider.dlq_entry set resolution_status = $2, resolution_timestamp = now(), resolved_by = 'me', updated_at = now()
		where dlq_entry_uuid = $1`, entry, status)
}

// tables are the live tables of a task and their identities; each has its archive.
var tables = map[string]string{
	"tasker_tasks": "task_uuid", "tasker_workflow_steps": "workflow_step_uuid", "tasker_task_transitions": "task_transition_uuid",
	"tasker_workflow_step_transitions": "step_transition_uuid",
}

// census counts the rows of the four kinds, live and archived, each row once; a row in both places fails.
func (r *archiveRig) census() string {
	r.Helper()
	var all string
	for _, table := range []string{"tasker_tasks", "tasker_workflow_steps", "tasker_task_transitions", "tasker_workflow_step_transitions"} {
		id := tables[table]
		// One statement, one snapshot.
		all += one[string](r, fmt.Sprintf(`select format('%[1]s %%s, ', count(distinct id) + 1000000000 * (count(*) - count(distinct id)))
			from (select %[2]s as id from postrider.%[1]s union all select %[2]s from postrider.%[1]s_archive) x`, table, id))
	}
	return all
}
