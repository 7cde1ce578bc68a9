package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// shop is a database with the template shop/order@1.0.0.
func shop(t *testing.T) (*pgtest.DB, *pgxpool.Pool) {
	t.Helper()
	db := pgtest.New(t)
	pool := db.Pool(t)
	ledgertest.Apply(t, pool, ledgertest.Template{Namespace: "shop", Name: "order", Configuration: `{
		"input_schema": {"required": ["id"]},
		"steps": [{"name": "reserve"}, {"name": "charge", "dependencies": ["reserve"], "max_retries": 0}]}`})
	return db, pool
}

// createOrder creates a task by the command and returns its id.
func createOrder(t *testing.T, db *pgtest.DB, more ...string) string {
	t.Helper()
	id := strings.TrimSpace(succeed(t, db, append([]string{"task", "create", "shop/order", "--context", `{"id": 7}`}, more...)...))
	if _, err := uuid.Parse(id); err != nil {
		t.Fatalf("create printed %q", id)
	}
	return id
}

func TestTaskCreate(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	file := filepath.Join(t.TempDir(), "context.json")
	if err := os.WriteFile(file, []byte(`{"id": "from a file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	given := uuid.NewString()
	id := strings.TrimSpace(succeed(t, db, "task", "create", "shop/order@1.0.0", "--context", "@"+file, "--priority", "9", "--id", given,
		"--idempotency-key", "k", "--actor", "kim", "--steps", `[{"name": "only"}]`))
	if id != given {
		t.Errorf("created %s, want %s", id, given)
	}
	contains(t, postrider(t, []string{"DATABASE_URL=" + db.URL}, "__complete", "task", "show", given[:3]).stdout, given)
	again := decode[ledger.Task](t, succeed(t, db, "task", "create", "shop/order", "--context", `{"id": 1}`, "--idempotency-key", "k", "-o", "json"))
	if again.UUID.String() != given || again.Priority != 9 {
		t.Errorf("with the same key it is %+v", again)
	}
	shown := decode[ledger.WholeTask](t, succeed(t, db, "task", "show", id, "-o", "json"))
	if shown.Task.Priority != 9 || !strings.Contains(string(shown.Task.Context), "from a file") || len(shown.Steps) != 1 ||
		shown.Steps[0].Name != "only" || len(shown.Transitions) != 1 || !strings.Contains(string(shown.Transitions[0].Metadata), ` (kim)"`) {
		t.Errorf("the task is %+v", shown)
	}
	events := ledgertest.Events(t, pool, uuid.MustParse(id))
	if len(events) != 1 {
		t.Errorf("the events are %+v", events)
	}
}

func TestTaskShow(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	id := createOrder(t, db)
	contains(t, succeed(t, db, "task", "show", id), "shop/order@1.0.0", "pending (initial)", `"id": 7`, "reserve", "charge", "0/3", "NO", "created")
	contains(t, succeed(t, db, "task", "steps", id), "STEP", "reserve", "pending")
	if steps := decode[api.List[ledger.Step]](t, succeed(t, db, "task", "steps", id, "-o", "json")).Items; len(steps) != 2 || steps[1].Dependencies[0] != "reserve" {
		t.Errorf("the steps are %+v", steps)
	}
	plain := strings.TrimSpace(succeed(t, db, "task", "create", "shop/order", "--context", `{"id": 7}`, "--steps", "[]"))
	contains(t, succeed(t, db, "task", "steps", plain), "The task has no steps.")
	if got := decode[api.List[ledger.Step]](t, succeed(t, db, "task", "steps", plain, "-o", "json")); got.Items == nil || len(got.Items) != 0 || got.Next != nil {
		t.Errorf("no steps are %+v", got)
	}

	// Text that a client wrote into a task cannot move the cursor.
	ledgertest.Put(t, pool, uuid.MustParse(id), "error")
	if _, err := pool.Exec(t.Context(), `update postrider.tasker_tasks set error_reason = E'a\x1b[2Jb', stale_flagged_at = now(), retry_count = 2 where task_uuid = $1`, id); err != nil {
		t.Fatal(err)
	}
	shown := succeed(t, db, "task", "show", id)
	contains(t, shown, `a\x1b[2Jb`, "Stale", "since 20", "Retried", "error (failed)", "put there by a test")
	if strings.Contains(shown, "\x1b") {
		t.Errorf("a control character in %q", shown)
	}
}

// TestTaskShowAtOneMoment: a task that moves while it is read is shown as it was before, or as it is after.
func TestTaskShowAtOneMoment(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	id := createOrder(t, db)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	// The task is read before its steps, and its history after them.
	pgtest.Exec(t, tx, `lock table postrider.tasker_workflow_steps in access exclusive mode`)
	shown := make(chan result, 1)
	go func() { shown <- postrider(t, []string{"DATABASE_URL=" + db.URL}, "task", "show", id, "-o", "json") }()
	pgtest.WaitFor(t, pool, `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`)
	pgtest.Exec(t, tx, `select postrider.transition_task_state_atomic($1, 'pending', 'initializing')`, id)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := <-shown
	if r.code != ExitOK {
		t.Fatalf("exit code %d, %s", r.code, r.stderr)
	}
	v := decode[ledger.WholeTask](t, r.stdout)
	if last := v.Task.SortKey; len(v.Transitions) != last || v.Transitions[0].ToState != v.Task.State {
		t.Errorf("in %s after %d transitions, and %d are shown", v.Task.State, last, len(v.Transitions))
	}
}

// TestTaskShowOfTheArchive: a task is shown wherever it is.
func TestTaskShowOfTheArchive(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	id := createOrder(t, db)
	succeed(t, db, "task", "cancel", id)
	ledgertest.Age(t, pool, uuid.MustParse(id), 40*24*time.Hour)
	if _, err := pool.Exec(t.Context(), `select postrider.archive_completed_tasks(p_dry_run => false, p_archive_cancelled => true)`); err != nil {
		t.Fatal(err)
	}
	contains(t, succeed(t, db, "task", "show", id), "Archived", "as cancelled", "shop/order@1.0.0", "reserve", "charge")
	if got := decode[ledger.WholeTask](t, succeed(t, db, "task", "show", id, "-o", "json")); got.Task.UUID.String() != id || len(got.Steps) != 2 {
		t.Errorf("the archived task is %+v", got)
	}
	contains(t, fail(t, db, "task", "steps", id), "not found", "postrider archive list")
}

func TestTaskList(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	contains(t, succeed(t, db, "task", "list"), "There are no such tasks.")
	if got := decode[api.List[ledger.Task]](t, succeed(t, db, "task", "list", "-o", "json")); got.Items == nil || got.Next != nil {
		t.Errorf("no tasks are %+v", got)
	}
	first, second := createOrder(t, db), createOrder(t, db)
	ledgertest.Put(t, pool, uuid.MustParse(first), "error")
	ledgertest.AddMachine(t, pool, ledgertest.Protocol())
	ledgertest.Apply(t, pool, ledgertest.Template{Namespace: "papers", Name: "protocol", Machine: "protocol"})
	old := ledgertest.Create(t, pool, ledgertest.New{Namespace: "papers", Name: "protocol"})
	ledgertest.Put(t, pool, old, "archived")

	table := succeed(t, db, "task", "list")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], second) || !strings.HasPrefix(lines[2], first) {
		t.Errorf("the tasks are\n%s\nwant %s, then %s", table, second, first)
	}
	for args, want := range map[string]string{
		"--state error": first, "--state pending": second, "--state archived": old.String(), "--namespace shop --limit 1": second,
		"--namespace shop --offset 1": first, "--namespace shop --after " + second: first, "--name order --template-version 1.0.0 --state error": first,
	} {
		got := decode[api.List[ledger.Task]](t, succeed(t, db, append([]string{"task", "list", "-o", "json"}, strings.Fields(args)...)...))
		if len(got.Items) != 1 || got.Items[0].UUID.String() != want || (got.Next != nil) != strings.Contains(args, "--limit") || got.Next != nil && *got.Next != want {
			t.Errorf("%s lists %+v", args, got)
		}
	}
	contains(t, succeed(t, db, "task", "list", "--limit", "1"), "There are more: --after "+second)
}

// TestTaskByHand is a task whose step failed for good, and what a person does about it.
func TestTaskByHand(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	id := createOrder(t, db)
	contains(t, succeed(t, db, "task", "heartbeat", "shop", "worker-1"), "Worker worker-1 of shop is there.")
	contains(t, succeed(t, db, "task", "step", "complete", id, "reserve", "--notes", "by phone", "--actor", "kim", "--results", `{"shelf": 3}`),
		"Step reserve is resolved_manually; the task is in enqueuing_steps.")
	charge := ledgertest.Steps(t, pool, uuid.MustParse(id))["charge"].UUID
	for _, call := range []string{`start_step($1)`, `fail_step($1, 'declined')`} {
		if _, err := pool.Exec(t.Context(), `select postrider.`+call, charge); err != nil {
			t.Fatal(err)
		}
	}
	contains(t, succeed(t, db, "task", "show", id), "error (failed)", "declined")
	contains(t, succeed(t, db, "task", "step", "reset-retry-count", id, charge.String()), "Step charge is pending; the task is in enqueuing_steps.")
	reserve := ledgertest.Steps(t, pool, uuid.MustParse(id))["reserve"].UUID
	contains(t, succeed(t, db, "task", "step", "retry", id, strings.ToUpper(begins(charge, reserve)), "--notes", "new card"), "Step charge is enqueued; the task is in steps_in_process.")
	contains(t, succeed(t, db, "task", "step", "cancel", id, "charge"), "Step charge is cancelled; the task is in complete.")
	contains(t, succeed(t, db, "task", "transitions", id), "FROM", "steps_in_process", "kim", "step reserve: complete_manually")
	contains(t, succeed(t, db, "task", "transitions", id, "--steps"), "STEP", "reserve", "resolved_manually", "kim", "by phone")
	if h := decode[api.List[ledger.StepTransition]](t, succeed(t, db, "task", "transitions", id, "--steps", "-o", "json")).Items; len(h) != 8 {
		t.Errorf("the history of the steps is %+v", h)
	}
	contains(t, fail(t, db, "task", "cancel", id), "had ended before")

	contains(t, succeed(t, db, "task", "cancel", createOrder(t, db), "--notes", "given up"), "is cancelled")
	other := createOrder(t, db)
	contains(t, fail(t, db, "task", "unflag", other), "has no flag")
	if _, err := pool.Exec(t.Context(), `update postrider.tasker_tasks set stale_flagged_at = now() where task_uuid = $1`, other); err != nil {
		t.Fatal(err)
	}
	contains(t, succeed(t, db, "task", "unflag", other, "--notes", "slow today", "--actor", "kim"), "may go on")
	contains(t, succeed(t, db, "task", "show", other), "Stay counts from", "Lifetime counts from")
	contains(t, succeed(t, db, "task", "transition", other, "pending", "initializing", "--reason", "begin"), "is in initializing.")
	contains(t, fail(t, db, "task", "transition", other, "pending", "initializing"), "is not in pending (any more)")
	contains(t, fail(t, db, "task", "transition", other, "initializing", "blocked_by_failures"), "machine workflow allows from initializing: ")
}

// fail runs a command that must fail, and returns what it says.
func fail(t *testing.T, db *pgtest.DB, args ...string) string {
	t.Helper()
	r := postrider(t, []string{"DATABASE_URL=" + db.URL}, args...)
	if r.code == ExitOK || r.stdout != "" {
		t.Fatalf("%v: exit code %d, printed %s", args, r.code, r.stdout)
	}
	return r.stderr
}

func TestTaskRefusals(t *testing.T) {
	t.Parallel()
	db, _ := shop(t)
	id, absent := createOrder(t, db), uuid.NewString()
	for args, mention := range map[string]string{
		"task create order":                                   `"order" is not NAMESPACE/NAME`,
		"task create shop/":                                   `is not NAMESPACE/NAME`,
		"task create shop/order --context {":                  "--context is not JSON",
		"task create shop/order --context @/nowhere":          "--context: open /nowhere",
		"task create shop/order --priority 2147483648":        "--priority is 2147483648; it must be from -2147483648",
		"task create shop/order --id x":                       `--id is "x"; it must be the id of a task, a uuid of 36 characters`,
		"task create shop/order":                              "$.id is missing",
		"task create shop/none":                               "no template shop/none",
		"task create shop/order@3.0.0":                        "it has the versions 1.0.0",
		"task show x":                                         `"x" is not the id of a task`,
		"task show " + absent:                                 "not found, nor is it in the archive; postrider task list",
		"task steps " + absent:                                "not found",
		"task transitions " + absent:                          "not found",
		"task list --limit 0":                                 "--limit is 0; it must be from 1 to 1000",
		"task list --offset -1":                               "--offset is -1",
		"task list --after x":                                 "--after is",
		"task list --offset 1 --after " + id:                  "not both",
		"task list -o xml":                                    "-o is",
		"task step retry " + id + " nothing":                  "has no step \"nothing\"; it has reserve, charge",
		"task step explode " + id:                             "there are cancel, complete, reset-retry-count, retry",
		"task step complete " + id + " reserve --results {":   "--results is not JSON",
		"task cancel " + absent:                               "no task " + absent,
		"task heartbeat nowhere w":                            "no namespace 'nowhere'",
		"task transition " + absent + " pending initializing": "no task",
		"task nothing":                                        "postrider task has no command",
	} {
		contains(t, fail(t, db, strings.Fields(args)...), mention)
	}
}
