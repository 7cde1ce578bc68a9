package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// TestRedactionReachesTasks: a value that is hidden in the investigation of a task is hidden in every answer about the task,
// live and archived, also in answers to changes. With the scope for it the whole is shown, and the look is audited.
func TestRedactionReachesTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"dlq.redact_paths": "$.card.number,$..pin,$.context.secret"})
	r.furnish()
	secrets := []string{"4111111111111111", "0815-pin", "s3cret"}
	const carries = `{"card": {"number": "4111111111111111"}, "deep": [{"pin": "0815-pin"}], "secret": "s3cret", "order": 17}`
	lacks := func(what, text string) {
		t.Helper()
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s: %s", what, secret, text)
			}
		}
		if !strings.Contains(text, dlq.Redacted) || !strings.Contains(text, "17") {
			t.Errorf("%s hides the wrong things: %s", what, text)
		}
	}
	fill := func(id string) {
		for _, sql := range []string{
			`insert into postrider.tasker_workflow_step_transitions (task_uuid, workflow_step_uuid, from_status, to_status, metadata)
				select task_uuid, workflow_step_uuid, 'pending', 'complete', $2::jsonb - 'secret' from postrider.tasker_workflow_steps where task_uuid = $1`,
			`update postrider.tasker_tasks set context = $2, metadata = $2::jsonb - 'secret' where task_uuid = $1`,
			`update postrider.tasker_workflow_steps set inputs = $2::jsonb - 'secret', results = $2::jsonb - 'secret' where task_uuid = $1`,
			`update postrider.tasker_task_transitions set metadata = $2::jsonb - 'secret' where task_uuid = $1`,
			`update postrider.tasker_workflow_step_transitions set metadata = $2::jsonb - 'secret' where task_uuid = $1`,
		} {
			r.exec(sql, id, carries)
		}
	}
	live := r.task("")
	step := r.steps(live)["a"]
	r.ask("PATCH", "/tasks/"+live+"/workflow_steps/"+step, `{"action": "complete_manually", "results": `+carries+`}`).is(200)
	fill(live)
	archived := r.task("complete")
	fill(archived)
	ledgertest.Age(t, r.pool, uuid.MustParse(archived), 40*24*3600e9)
	r.exec(`select * from postrider.archive_completed_tasks(30, 1000, false)`)
	old := value[string](r, `select workflow_step_uuid::text from postrider.tasker_workflow_steps_archive where task_uuid = $1 and step_name = 'a'`, archived)
	reader := []string{"X-API-Key", r.keys["read"]}
	for _, path := range []string{
		"/tasks", "/tasks/" + live, "/tasks/" + live + "/workflow_steps", "/tasks/" + live + "/workflow_steps/" + step, "/tasks/" + live + "/transitions", "/tasks/" + live + "/step_transitions",
		"/archive/tasks", "/archive/tasks/" + archived, "/archive/tasks/" + archived + "/workflow_steps", "/archive/tasks/" + archived + "/workflow_steps/" + old,
		"/archive/tasks/" + archived + "/transitions", "/archive/tasks/" + archived + "/step_transitions",
	} {
		lacks(path, r.ask("GET", path, "", reader...).is(200).Raw)
	}
	lacks("creating", r.ask("POST", "/tasks", `{"namespace_name": "default", "task_name": "task", "context": `+carries+`}`, "Idempotency-Key", "k").is(201).Raw)
	lacks("acting on a step", r.ask("PATCH", "/tasks/"+live+"/workflow_steps/"+r.steps(live)["b"], `{"action": "complete_manually", "results": {"pin": "0815-pin", "order": 17}}`).is(200).Raw)
	lacks("cancelling", r.ask("POST", "/tasks/"+live+"/cancel", "").is(200).Raw)
	if kept := value[string](r, `select string_agg(convert_from(body, 'UTF8'), '|') from postrider.access_answer`); strings.Contains(kept, "4111111111111111") {
		t.Errorf("answers are kept as they are not shown: %s", kept)
	}
	for _, path := range []string{"/tasks/" + live + "/payload", "/archive/tasks/" + archived + "/payload"} {
		r.ask("GET", path, "", reader...).is(403)
		whole := r.ask("GET", path+"?why=a+complaint", "", "X-API-Key", r.keys["read:payload"]).is(200)
		for _, secret := range secrets {
			if !strings.Contains(whole.Raw, secret) {
				t.Errorf("%s does not show %s: %s", path, secret, whole.Raw)
			}
		}
		if n := value[int](r, `select count(*) from postrider.access_audit where action = 'payload.reveal' and target_type = 'task' and target_id = $1 and actor = 'key read:payload' and details->>'reason' = 'a complaint'`,
			strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, "/archive"), "/tasks/"), "/")[0]); n != 1 {
			t.Errorf("%s: %d looks are in the audit log", path, n)
		}
	}
}
