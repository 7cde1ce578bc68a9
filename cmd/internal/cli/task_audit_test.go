package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// TestTaskCommandsAreAudited: what people change by command is in the audit log with their name, as what they change by
// the API is; where that cannot be written, nothing is changed. All of it works with an operator's rights.
func TestTaskCommandsAreAudited(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	conn := db.Conn(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	d := &rig{T: t, db: db, owner: db.URL, operator: asRole(t, db, "postrider_operator")}
	task := func(state string) string {
		t.Helper()
		id := ledgertest.Create(t, pool, ledgertest.New{Namespace: "shop", Name: "order", Context: `{"id": 7}`})
		if state != "" {
			ledgertest.Put(t, pool, id, state)
		}
		return id.String()
	}
	stale := task("")
	ledgertest.Age(t, pool, uuid.MustParse(stale), 48*time.Hour)
	dir := written(t, map[string]string{"order.yaml": orderTemplate, "l.yaml": "max_duration_minutes: 4321\n"})
	for _, c := range []struct{ command, action, target string }{
		{"task create shop/order --context {\"id\":7} --id 0192aaaa-0000-7000-8000-000000000001", "task.create", "task 0192aaaa-0000-7000-8000-000000000001"},
		{"task transition TASK pending initializing --reason begin", "task.transition", "task TASK"},
		{"task step complete TASK reserve --notes phone", "step.complete_manually", "task TASK"},
		{"task step retry TASK reserve", "step.retry", "task TASK"},
		{"task step cancel TASK reserve", "step.cancel", "task TASK"},
		{"task step reset-retry-count TASK charge", "step.reset_retry_count", "task TASK"},
		{"task retry FAILED", "task.retry", "task FAILED"},
		{"task dlq TASK --reason ticket", "task.dead_letter", "task TASK"},
		{"task cancel TASK --notes enough", "task.cancel", "task TASK"},
		{"task detect-stale --dry-run=false", "task.detect_stale", "task"},
		{"task detector pause --by ada", "detector.pause", "detector"},
		{"task detector resume", "detector.resume", "detector"},
		{"archive pause --by ada", "archiver.pause", "archiver"},
		{"archive resume", "archiver.resume", "archiver"},
		{"template apply " + filepath.Join(dir, "order.yaml"), "template.apply", "template shop/order@1.0.0"},
		{"template namespace shop --lifecycle " + filepath.Join(dir, "l.yaml"), "namespace.apply", "namespace shop"},
	} {
		id := task("")
		if strings.Contains(c.command, "FAILED") {
			id = task("error")
		}
		if strings.Contains(c.command, "reset-retry-count") {
			exec(`update postrider.tasker_workflow_steps set retry_count = 1 where task_uuid = '` + id + `'`)
		}
		names := strings.NewReplacer("TASK", id, "FAILED", id)
		words := append(strings.Fields(names.Replace(c.command)), "--actor", "ada")
		state := func() string {
			return ask(t, conn, `select concat((select md5(string_agg(x::text, '|' order by x::text)) from postrider.tasker_tasks x), (select md5(string_agg(x::text, '|' order by x::text)) from postrider.tasker_workflow_steps x),
				(select count(*) from postrider.tasker_named_tasks x), (select md5(string_agg(x.configuration::text, '|' order by x.configuration::text)) from postrider.tasker_named_tasks x),
				(select md5(string_agg(x.lifecycle::text, '|' order by x.name)) from postrider.tasker_task_namespaces x), (select string_agg(x.paused_at::text, '|' order by x.engine) from postrider.tasker_switch x), (select count(*) from postrider.outbox_event))`)
		}
		before := state()
		exec(`revoke insert on postrider.access_audit from postrider_operator`)
		if r := postrider(t, []string{"DATABASE_URL=" + d.operator}, words...); r.code != ExitFailure {
			t.Errorf("%s without the audit log: exit code %d, %s%s", c.command, r.code, r.stdout, r.stderr)
		}
		if after := state(); after != before {
			t.Errorf("%s changed something without the audit log", c.command)
		}
		exec(`grant insert on postrider.access_audit to postrider_operator`)
		since := ask(t, conn, `select coalesce(max(access_audit_id), 0)::text from postrider.access_audit`)
		if r := postrider(t, []string{"DATABASE_URL=" + d.operator}, words...); r.code != ExitOK {
			t.Errorf("%s: exit code %d, %s%s", c.command, r.code, r.stdout, r.stderr)
		}
		if after := state(); after == before {
			t.Errorf("%s changed nothing", c.command)
		}
		got := ask(t, conn, `select coalesce(string_agg(actor || ': ' || action || ' ' || concat_ws(' ', target_type, target_id), ', '), '') from postrider.access_audit where access_audit_id > `+since)
		if want := " (ada): " + c.action + " " + names.Replace(c.target); !strings.HasPrefix(got, "cli:") || !strings.HasSuffix(got, want) || strings.Contains(got, ", ") {
			t.Errorf("%s: the audit log says %q, want %q", c.command, got, want)
		}
	}
	// What changes nothing writes nothing.
	since := ask(t, conn, `select count(*)::text from postrider.access_audit`)
	d.run(ExitOK, "task detect-stale")
	d.run(ExitOK, "task detector resume", "were not paused")
	d.run(ExitOK, "archive resume", "were not paused")
	d.run(ExitOK, "template apply "+filepath.Join(dir, "order.yaml"), "already")
	d.run(ExitOK, "template namespace")
	done := task("cancelled")
	d.run(ExitFailure, "task cancel "+done, "had ended before")
	d.run(ExitFailure, "task transition "+done+" pending initializing", "is not in pending")
	d.run(ExitFailure, "task retry "+uuid.NewString(), "not found")
	if now := ask(t, conn, `select count(*)::text from postrider.access_audit`); now != since {
		t.Errorf("%s rows in the audit log, there were %s", now, since)
	}
}
