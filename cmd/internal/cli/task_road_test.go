package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestTaskRetry(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	id := createOrder(t, db)
	task := uuid.MustParse(id)
	contains(t, refuse(t, db, ExitFailure, "task", "retry", id), "is pending and cannot be retried", "retries from error")
	ledgertest.Put(t, pool, task, "error")
	got := decode[api.RetriedTask](t, succeed(t, db, "task", "retry", id, "--actor", "kim", "-o", "json"))
	events := ledgertest.Events(t, pool, task)
	if last := events[len(events)-1]; got.Status != "retry_queued" || got.TaskUUID != task || got.EventID != last.EventID || last.Type != "postrider.task.retry_queued.v1" ||
		!strings.Contains(string(last.Payload), ` (kim)"`) {
		t.Errorf("retry printed %+v, the last event is %+v", got, last)
	}
	if state := ledgertest.State(t, pool, task); state != "pending" {
		t.Errorf("the task is %s", state)
	}
	ledgertest.Put(t, pool, task, "error")
	contains(t, succeed(t, db, "task", "retry", id), "is back at its beginning")
	contains(t, refuse(t, db, ExitFailure, "task", "retry", uuid.NewString()), "not found", "postrider task list")
	contains(t, refuse(t, db, ExitUsage, "task", "retry", "7"), "not the id of a task")
}

// TestChangesOfAnArchivedTask: each says where the task is, in the words of the API.
func TestChangesOfAnArchivedTask(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	id := createOrder(t, db)
	ledgertest.Put(t, pool, uuid.MustParse(id), "cancelled")
	pgtest.Exec(t, pool, `select postrider.archive_completed_tasks(p_retention_days => 0, p_dry_run => false, p_archive_cancelled => true)`)
	for _, args := range [][]string{{"retry", id}, {"cancel", id}, {"unflag", id}, {"dlq", id, "--reason", "x"}, {"transition", id, "pending", "error"}, {"step", "retry", id, "validate"}} {
		contains(t, refuse(t, db, ExitFailure, append([]string{"task"}, args...)...), "task "+id+" is in the archive, which is only read; create a new task")
	}
}

func TestTaskDLQ(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	id := createOrder(t, db)
	task := uuid.MustParse(id)
	contains(t, refuse(t, db, ExitUsage, "task", "dlq", id), "--reason is missing")
	contains(t, succeed(t, db, "task", "dlq", id, "--reason", "the customer called", "--actor", "kim"), "is dead-lettered")
	letters := ledgertest.Letters(t, pool, task)
	if len(letters) != 1 || letters[0].Reason != "manual_dlq" || !strings.Contains(string(letters[0].Payload), ` (kim)"`) {
		t.Errorf("letters %+v", letters)
	}
	contains(t, succeed(t, db, "task", "show", id), "error (failed)", "the customer called")
	ledgertest.Put(t, pool, task, "cancelled")
	contains(t, refuse(t, db, ExitFailure, "task", "dlq", id, "--reason", "x"), "has ended, it is cancelled")
}

// Showing an old dead-lettered task archives it; lists leave it out from then on, unless they are asked for it.
func TestTaskShowArchives(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	ledgertest.AddMachine(t, pool, ledgertest.Protocol())
	ledgertest.Apply(t, pool, ledgertest.Template{Namespace: "shop", Name: "scan", Machine: "protocol"})
	task := ledgertest.Create(t, pool, ledgertest.New{Namespace: "shop", Name: "scan"})
	if _, err := pool.Exec(t.Context(), `insert into postrider.tasker_undelivered_events (event_id, episode, task_uuid, topic, attempts, error_code, outcome, detail)
		values (gen_random_uuid(), 1, $1, 'documents', 3, 'INVALID_RECORD', 'refused', 'the task was in dead_letter already')`, task); err != nil {
		t.Fatal(err)
	}
	ledgertest.Put(t, pool, task, "dead_letter")
	contains(t, succeed(t, db, "task", "show", task.String()), "dead_letter (failed)", "INVALID_RECORD", "was in dead_letter already")
	contains(t, succeed(t, db, "task", "list"), task.String())
	ledgertest.Age(t, pool, task, 8*24*time.Hour)
	contains(t, succeed(t, db, "task", "list"), task.String()) // a list archives nothing
	contains(t, succeed(t, db, "task", "show", task.String()), "archived (terminal)")
	if got := succeed(t, db, "task", "list"); strings.Contains(got, task.String()) {
		t.Errorf("an archived task is listed:\n%s", got)
	}
	contains(t, succeed(t, db, "task", "list", "--state", "archived"), task.String())
}

// refuse runs a command on a database that must fail, and returns what it said.
func refuse(t *testing.T, db *pgtest.DB, code int, args ...string) string {
	t.Helper()
	r := postrider(t, []string{"DATABASE_URL=" + db.URL}, args...)
	if r.code != code || r.stdout != "" {
		t.Errorf("%v: exit code %d, want %d; %s", args, r.code, code, r.stdout)
	}
	return r.stderr
}
