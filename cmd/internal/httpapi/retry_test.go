package httpapi_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// TestARetryThatIsCutShort: if the database fails in a portion, the answer is incomplete and leads to where the request began,
// also for the first portion. The same request again reaches the tasks that are left. If nothing was done, it is an error.
func TestARetryThatIsCutShort(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"dlq.requeue_limit": "2"})
	ledgertest.Apply(t, r.pool, ledgertest.Template{})
	var tasks []string
	for range 5 {
		tasks = append(tasks, r.task("error"))
	}
	slices.Sort(tasks) // the order of a filter
	r.exec(`create function fail() returns trigger language plpgsql as $$ begin raise exception using errcode = '53100', message = 'no space left'; end $$`)
	full := func(task string) {
		t.Helper()
		r.exec(`drop trigger if exists fail on postrider.tasker_tasks`)
		if task != "" {
			r.exec(`create trigger fail before update on postrider.tasker_tasks for each row when (old.task_uuid = '` + task + `') execute function fail()`)
		}
	}
	retry := func(after string, retried []string, incomplete bool, skipped ...string) (next any) {
		t.Helper()
		got := r.ask("POST", "/tasks/retry", `{"filter": {"status": "error"}`+after+`}`).is(200)
		if fmt.Sprint(got.at("retried")) != fmt.Sprint(retried) || got.at("incomplete") != incomplete || !slices.Equal(reasons(got), skipped) {
			t.Errorf("%s", got.Raw)
		}
		return got.at("next")
	}
	behind := func(place any) string { return fmt.Sprintf(`, "after": %q`, place) }

	full(tasks[1])
	if next := retry("", tasks[:1], true, "not_reached"); next != nil {
		t.Errorf("the first portion goes on at %v", next)
	}
	r.ask("POST", "/tasks/retry", `{"filter": {"status": "error"}}`).is(503)
	full("")
	first := retry("", tasks[1:3], false)
	if first != tasks[2] {
		t.Fatalf("it goes on at %v", first)
	}
	full(tasks[4])
	if next := retry(behind(first), tasks[3:4], true, "not_reached"); next != first {
		t.Errorf("the second portion goes on at %v, not at %v", next, first)
	}
	full("")
	if next := retry(behind(first), tasks[4:], false); next != nil {
		t.Errorf("the end goes on at %v", next)
	}
}
