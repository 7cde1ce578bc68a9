package cli

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// investigated dead-letters tasks by hand, and records their letters as the collector does. It returns their group.
func investigated(t *testing.T, pool *pgxpool.Pool, tasks ...uuid.UUID) (group string) {
	t.Helper()
	services, err := app.NewServices(pool, config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var letters []dlq.Letter
	for i, task := range tasks {
		pgtest.Exec(t, pool, `select postrider.dead_letter_task($1, 'the partner is away', 'ann')`, task)
		event := ledgertest.Letters(t, pool, task)[0]
		letters = append(letters, dlq.Decode(dlq.Record{Topic: "postrider.dlq", Offset: int64(i), Key: []byte(task.String()), Value: event.Payload, Headers: []message.Header{
			{Name: "ce_type", Value: []byte(dlq.TaskLetterType)}, {Name: "ce_subject", Value: []byte(task.String())}, {Name: message.HeaderEventID, Value: []byte(event.EventID.String())}}}))
	}
	if _, err := services.Store.RecordLetters(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	return pgtest.Value[string](t, pool, `select min(dlq_group_uuid::text) from postrider.dlq_entry where resolution_status = 'pending' having count(distinct dlq_group_uuid) = 1`)
}

// TestTaskRetryOfMany: by ids, by the group of their investigations, and by a filter, with what was skipped and why.
func TestTaskRetryOfMany(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	var tasks []uuid.UUID
	for range 3 {
		tasks = append(tasks, uuid.MustParse(createOrder(t, db)))
	}
	group := investigated(t, pool, tasks...)
	ledgertest.Put(t, pool, tasks[1], "cancelled")
	retry := func(code int, args ...string) api.RetriedTasks {
		t.Helper()
		r := postrider(t, []string{"DATABASE_URL=" + db.URL}, append([]string{"task", "retry", "-o", "json"}, args...)...)
		if r.code != code {
			t.Fatalf("%v: exit code %d, want %d; %s", args, r.code, code, r.stderr)
		}
		return decode[api.RetriedTasks](t, r.stdout)
	}
	states := func() string {
		return pgtest.Value[string](t, pool, `select string_agg(state, ' ' order by task_uuid) from postrider.tasker_tasks`)
	}
	want := []uuid.UUID{tasks[0], tasks[2]}
	dry := retry(ExitPartly, "--group", group, "--dry-run")
	if !dry.DryRun || !slices.Equal(dry.Retried, want) || len(dry.Skipped) != 1 || dry.Skipped[0].TaskUUID != tasks[1] || dry.Skipped[0].Reason != ledger.RetryNotRetryable ||
		dry.Skipped[0].Explanation != "it is cancelled; machine workflow retries from error" {
		t.Errorf("the dry run says %+v", dry)
	}
	if got := states(); got != "error cancelled error" {
		t.Errorf("after a dry run they are %s", got)
	}
	if got := retry(ExitPartly, "--group", group, "--actor", "kim"); !slices.Equal(got.Retried, want) || len(got.ClosedInvestigations) != 2 || len(got.Skipped) != 1 || got.Next != nil {
		t.Errorf("retried by their group: %+v", got)
	}
	if got := states(); got != "pending cancelled pending" {
		t.Errorf("after the retry they are %s", got)
	}
	if got := pgtest.Value[string](t, pool, `select string_agg(concat_ws(' ', action, target_id) , ', ' order by access_audit_id) from postrider.access_audit
		where action = 'task.retry' and actor like '%kim%'`); got != fmt.Sprintf("task.retry %s, task.retry %s", tasks[0], tasks[2]) {
		t.Errorf("the audit log has %s", got)
	}
	if open := pgtest.Value[int](t, pool, `select count(*) from postrider.dlq_entry where resolution_status = 'pending'`); open != 1 {
		t.Errorf("%d investigations are pending, want that of the cancelled task alone", open)
	}
	absent := uuid.New()
	ledgertest.Put(t, pool, tasks[0], "error")
	if got := retry(ExitPartly, tasks[0].String(), absent.String(), tasks[2].String()); !slices.Equal(got.Retried, tasks[:1]) || len(got.Skipped) != 2 ||
		got.Skipped[0] != (ledger.SkippedRetry{TaskUUID: absent, Reason: ledger.RetryNotFound, Explanation: "there is no such task"}) || got.Skipped[1].Reason != ledger.RetryNotRetryable {
		t.Errorf("retried by their ids: %+v", got)
	}
	ledgertest.Put(t, pool, tasks[0], "error")
	ledgertest.Put(t, pool, tasks[2], "error")
	if got := retry(ExitOK, "--namespace", "shop", "--state", "error"); !slices.Equal(got.Retried, want) || len(got.Skipped) != 0 {
		t.Errorf("retried by a filter: %+v", got)
	}
	if got := retry(ExitOK, "--namespace", "elsewhere"); len(got.Retried)+len(got.Skipped) != 0 {
		t.Errorf("retried by a filter that none fits: %+v", got)
	}
	pgtest.Exec(t, pool, `select postrider.archive_completed_tasks(p_retention_days => 0, p_dry_run => false, p_archive_cancelled => true)`)
	contains(t, succeed(t, db, "task", "retry", "--namespace", "shop", "--dry-run"), "There is no such task to retry.")
	contains(t, refuse(t, db, ExitUsage, "task", "retry"), "name the tasks in one way")
	contains(t, refuse(t, db, ExitUsage, "task", "retry", tasks[0].String(), "--group", group), "name the tasks in one way")
	contains(t, refuse(t, db, ExitUsage, "task", "retry", "--from", "soon"), "--from is", "soon")
	contains(t, refuse(t, db, ExitFailure, "task", "retry", "--state", "nowhere"), "no machine has the state")
	contains(t, refuse(t, db, ExitFailure, "task", "retry", "--group", absent.String()), "postrider dlq groups")
}
