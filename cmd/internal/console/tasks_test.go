package console_test

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// shipping is a task whose step hand_over failed, with that step.
func (r *rig) shipping() (task, step string) {
	r.t.Helper()
	ledgertest.Apply(r.t, r.pool, ledgertest.Template{Namespace: "demo", Name: "ship_order", Configuration: `{"steps": [{"name": "pick"}, {"name": "pack", "dependencies": ["pick"]},
		{"name": "label", "dependencies": ["pick"]}, {"name": "hand_over", "dependencies": ["pack", "label"], "max_retries": 0}, {"name": "notify", "dependencies": ["hand_over"]}]}`})
	id := ledgertest.Create(r.t, r.pool, ledgertest.New{Namespace: "demo", Name: "ship_order", Context: `{"order": 48}`})
	for _, name := range []string{"pick", "pack", "label", "hand_over"} {
		s := ledgertest.Steps(r.t, r.pool, id)[name]
		pgtest.Exec(r.t, r.pool, `select postrider.enqueue_step($1)`, s.UUID)
		pgtest.Exec(r.t, r.pool, `select postrider.start_step($1, 'worker-7')`, s.UUID)
		if name == "hand_over" {
			pgtest.Exec(r.t, r.pool, `select postrider.fail_step($1, 'the carrier did not answer in 30 seconds')`, s.UUID)
			return id.String(), s.UUID.String()
		}
		pgtest.Exec(r.t, r.pool, `select postrider.complete_step($1, '{"ok": true}')`, s.UUID)
	}
	return "", ""
}

func TestTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Admin)
	b.until("/tasks", "No task is stale").is(t, http.StatusOK).has(t, "There is no task.", `aria-current="page">Tasks`)
	b.get("/tasks/archive").is(t, 200).has(t, "Nothing was archived yet.", "only read")
	ledgertest.Apply(t, r.pool, ledgertest.Template{})
	var last uuid.UUID
	for range 30 {
		last = ledgertest.Create(t, r.pool, ledgertest.New{})
	}
	id, step := r.shipping()
	page := b.get("/tasks").is(t, 200).has(t, "demo/ship_order", "Older")
	if n := strings.Count(page.text, `<tr role="row" data-row`); n != 25 {
		t.Errorf("%d tasks on the first page", n)
	}
	if page := b.get("/tasks?namespace=demo").is(t, 200).has(t, id).text; strings.Contains(page, "default/task") {
		t.Error("the filter on a namespace shows another")
	}
	b.get("/tasks?namespace=nowhere").is(t, 200).has(t, "No task matches.", "Clear the filter")
	b.get("/tasks?status=odd").is(t, http.StatusBadRequest).has(t, "odd")
	b.get("/tasks?from=2099-01-01").is(t, 200).has(t, "No task matches.")
	pgtest.Exec(t, r.pool, `update postrider.tasker_tasks set stale_flagged_at = now() where task_uuid = $1`, last)
	b.get("/tasks").has(t, "1 task is stale and was left in place.", "Look at them")
	b.get("/tasks?flagged=true").is(t, 200).has(t, last.String(), "Stale")
	b.get("/tasks/"+last.String()).is(t, 200).has(t, "Let it go on…", "It has no steps.")
	b.post("/tasks/"+last.String()+"/unflag").is(t, http.StatusSeeOther)
	b.get("/tasks/"+last.String()).has(t, "It may go on")

	whole := b.get("/tasks/"+id).is(t, 200).has(t, "ship_order", "hand_over", "the carrier did not answer", `class="graph"`, "pick (done), then pack (done) and label (done), then hand_over (failed), then notify (waits)",
		"Step hand_over: in_progress → error", "order", "/outbox?task_uuid="+id)
	if strings.Contains(whole.text, "Forget its failures") {
		t.Error("actions of a step are there before one was picked")
	}
	b.get("/tasks/"+id+"?step="+step).is(t, 200).has(t, "Try again", "Mark as done…", "Then go on: <bdi>notify</bdi>", "Cancel it…")
	done := ledgertest.Steps(t, r.pool, uuid.MustParse(id))["pick"].UUID.String()
	b.get("/tasks/"+id+"?step="+done).is(t, 200).has(t, "It is done.")
	b.get("/tasks/"+id+"?step="+last.String()).is(t, http.StatusNotFound)
	act := "/tasks/" + id + "/steps/"
	b.post(act+step, "action", "complete_manually", "results", "{odd").is(t, http.StatusSeeOther)
	b.get("/tasks/"+id).has(t, "The results are not JSON")
	b.post(act+done, "action", "cancel")
	b.get("/tasks/"+id).has(t, "notice waiting") // the rule is the ledger's own
	if to := b.post(act+step, "action", "complete_manually", "results", `{"by": "phone"}`, "why", "they called").header.Get("Location"); to != "/tasks/"+id+"?step="+step+"#step" {
		t.Errorf("it leads to %s", to)
	}
	b.get("/tasks/"+id).has(t, "The step is resolved_manually now", "they called", "key admin")
	b.post("/tasks/"+id+"/retry").is(t, http.StatusSeeOther)
	b.get("/tasks/"+id).has(t, "notice waiting", "cannot be retried")
	b.post("/tasks/"+id+"/cancel", "why", "not wanted any more").is(t, http.StatusSeeOther)
	b.get("/tasks/"+id).has(t, "It is cancelled.")
	b.post("/tasks/"+id+"/odd").is(t, http.StatusSeeOther)
	b.get("/tasks/"+id).has(t, "notice waiting")
	old := ledgertest.Create(t, r.pool, ledgertest.New{Namespace: "demo", Name: "ship_order"})
	b.post("/tasks/"+old.String()+"/cancel").is(t, http.StatusSeeOther)
	step = ledgertest.Steps(t, r.pool, old)["hand_over"].UUID.String()
	ledgertest.Age(t, r.pool, old, 90*24*time.Hour)
	pgtest.Exec(t, r.pool, `select postrider.archive_completed_tasks(30, 10, false, p_archive_cancelled => true)`)
	id = old.String()
	if to := b.get("/tasks/"+id).is(t, http.StatusSeeOther).header.Get("Location"); to != "/tasks/archive/"+id {
		t.Errorf("an archived task leads to %s", to)
	}
	b.get("/tasks/archive").is(t, 200).has(t, "/tasks/archive/"+id)
	archived := b.get("/tasks/archive/"+id+"?step="+step).is(t, 200).has(t, "in the archive", "The archive is only read.", "hand_over", `class="graph"`)
	if strings.Contains(archived.text, "Cancel the task") || strings.Contains(archived.text, "Mark as done") {
		t.Error("an archived task has actions")
	}
	b.get("/tasks/no-uuid").is(t, http.StatusBadRequest)
	b.get("/tasks/"+uuid.NewString()).is(t, http.StatusNotFound)
}

// TestATaskOfManySteps: a page of 2,000 steps is bounded, and its picture folds what is wide or deep.
func TestATaskOfManySteps(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var steps []string
	for i := range 2000 {
		needs := ""
		if i >= 1000 { // a chain behind a wide level
			needs = fmt.Sprintf(`, "dependencies": ["s%d"]`, i-1)
		}
		steps = append(steps, fmt.Sprintf(`{"name": "s%d"%s}`, i, needs))
	}
	ledgertest.Apply(t, r.pool, ledgertest.Template{})
	id := ledgertest.Create(t, r.pool, ledgertest.New{Steps: "[" + strings.Join(steps, ",") + "]"})
	b := r.as(access.Read)
	b.until("/tasks", "task")
	got := b.get("/tasks/"+id.String()).is(t, 200).has(t, "1000 steps", "977 steps", "More steps", "from=100")
	if n := strings.Count(got.text, `<tr role="row" data-row`); n != 100 || len(got.text) > 200_000 {
		t.Errorf("%d steps in %d bytes", n, len(got.text))
	}
	b.get("/tasks/"+id.String()+"?from=1950").is(t, 200).has(t, "s1999", "First steps")
}

// TestEnginesArePaused from the lists of tasks, by a person who may, and go on: the detectors, and the archivers.
func TestEnginesArePaused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.pauses("detector", "/tasks", "/detector", "detectors of stale tasks")
	r.pauses("archiver", "/tasks/archive", "/archive", "archivers of tasks")
}

// pauses the engines of a kind from the page that has the form, which goes to a path.
func (r *rig) pauses(engine, page, path, engines string) {
	t := r.t
	b := r.as(access.Admin)
	b.get(page).is(t, http.StatusOK).has(t, `action="`+path+`/pause"`)
	paused := func() string {
		return pgtest.Value[string](t, r.pool, `select coalesce(string_agg(concat_ws(' ', engine, resume_at - paused_at, pause_reason), ', '), '') from postrider.tasker_switch where paused_at is not null`)
	}
	b.post(path+"/pause", "for", "1h", "why", "a migration").is(t, http.StatusSeeOther)
	if got := paused(); got != engine+" 01:00:00 a migration" {
		t.Errorf("paused: %q", got)
	}
	b.get(page).is(t, http.StatusOK).has(t, "are paused, so", "A migration", "The "+engines+" are paused until 20", `action="`+path+`/resume"`)
	b.post(path+"/resume").is(t, http.StatusSeeOther)
	if got := paused(); got != "" {
		t.Errorf("paused: %q", got)
	}
	b.get(page).has(t, "The "+engines+" go on.")
	b.post(path+"/pause", "for", "", "why", "").is(t, http.StatusSeeOther)
	b.get(page).has(t, "The "+engines+" are paused until a person resumes them.")
	if got := paused(); got != engine {
		t.Errorf("paused: %q", got)
	}
	r.as(access.Read).post(path+"/resume").is(t, http.StatusForbidden)
	if page := r.as(access.Read).get(page).is(t, http.StatusOK).text; strings.Contains(page, `action="`+path+`/`) {
		t.Errorf("a reader may switch the %s", engines)
	}
	b.post(path+"/resume").is(t, http.StatusSeeOther)
}

// TestTheHistoryOfATaskIsReadByPages: each change is on one of the pages, in order, and the last page leads no further. What else
// the address has stays.
func TestTheHistoryOfATaskIsReadByPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, step := r.shipping()
	for range 12 {
		pgtest.Exec(t, r.pool, `select postrider.retry_task($1::uuid)`, id)
		pgtest.Exec(t, r.pool, `select postrider.enqueue_step($1::uuid)`, step)
		pgtest.Exec(t, r.pool, `select postrider.start_step($1::uuid, 'worker-7')`, step)
		pgtest.Exec(t, r.pool, `select postrider.fail_step($1::uuid, 'no answer')`, step)
	}
	want := pgtest.Value[int](t, r.pool, `select (select count(*) from postrider.tasker_task_transitions where task_uuid = $1::uuid) + (select count(*) from postrider.tasker_workflow_step_transitions where task_uuid = $1::uuid)`, id)
	b := r.as(access.Read)
	all := 0
	var last time.Time
	path := "/tasks/" + id + "?step=" + step
	for pages := 0; ; pages++ {
		_, history, _ := strings.Cut(b.get(path).is(t, http.StatusOK).has(t, "Step <bdi>hand_over</bdi>").text, `<section id="history"`)
		for _, change := range strings.Split(history, "<li>")[1:] {
			_, at, _ := strings.Cut(change, `datetime="`)
			when, err := time.Parse(time.RFC3339Nano, at[:strings.Index(at, `"`)])
			if err != nil || all > 0 && when.After(last) {
				t.Fatalf("change %d is of %v, after one of %v: %v", all, when, last, err)
			}
			last = when
			all++
		}
		if (pages > 0) != strings.Contains(history, ">The newest</a>") {
			t.Errorf("page %d: %s", pages, history)
		}
		_, older, more := strings.Cut(history, `<a href="`)
		for more && !strings.Contains(older[:strings.Index(older, "</a>")], `rel="next"`) {
			_, older, more = strings.Cut(older, `<a href="`)
		}
		if !more {
			break
		}
		path, _, _ = strings.Cut(html.UnescapeString(older[:strings.Index(older, `"`)]), "#")
	}
	if all != want || want < 41 {
		t.Errorf("the pages have %d changes of %d", all, want)
	}
}
