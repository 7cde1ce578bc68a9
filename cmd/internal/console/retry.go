package console

import (
	"net/http"
	"net/url"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// retryCause puts the tasks of a cause back to their beginning, a portion at a time. The page that follows goes on where this
// portion ended.
func retryCause(v *visit) (string, error) {
	back := "/causes/" + v.id()
	body := map[string]any{"group": v.PathValue("id")}
	if after := v.FormValue("after"); after != "" {
		body["after"] = after
	}
	v.mayTake(httpapi.PlanLimit)
	done, err := ask[api.RetriedTasks](v, http.MethodPost, "/tasks/retry", nil, body)
	if err != nil {
		return back, err
	}
	left := ""
	switch {
	case done.Incomplete:
		left = " The database failed before all of them were reached: put the others back, too."
	case done.Next != nil:
		left = " There are more: put the others back, too."
	}
	if done.Next != nil {
		back += "?after=" + url.QueryEscape(*done.Next) + "#road"
	}
	v.say("%s%s%s", sayRetried(done), comesBack(done, "here"), left)
	return back, nil
}

// retryTasks puts the tasks that were picked in a list back to their beginning.
func retryTasks(v *visit) (string, error) {
	back := ownPath(v.FormValue("back"))
	ids := v.PostForm["id"]
	if len(ids) == 0 {
		return back, &httpapi.Error{Code: httpapi.Validation, Message: "No task is picked. Pick the tasks that are put back to their beginning"}
	}
	v.mayTake(httpapi.PlanLimit)
	done, err := ask[api.RetriedTasks](v, http.MethodPost, "/tasks/retry", nil, map[string]any{"ids": ids})
	if err == nil {
		v.say("%s%s", sayRetried(done), comesBack(done, "to its cause"))
	}
	return back, err
}

// comesBack says that nothing is confirmed yet: a retry closes investigations before the task has done anything.
func comesBack(done api.RetriedTasks, where string) string {
	if len(done.Retried) == 0 {
		return ""
	}
	return " A task that fails again comes back " + where + "."
}

// sayRetried counts what a retry did. Of the tasks that it skipped it says why the first one was.
func sayRetried(done api.RetriedTasks) string {
	said := some(len(done.Retried), "task is back at its beginning.", "tasks are back at their beginning.")
	if n := len(done.InvestigationsUnderWay); n > 0 {
		said += " " + some(n, "investigation stays open: its event is being sent again, so the work may start twice.", "investigations stay open: their events are being sent again, so the work may start twice.")
	}
	if n := len(done.Skipped); n > 0 {
		first := done.Skipped[0]
		said += " " + some(n, "was skipped", "were skipped") + ". Task " + first.TaskUUID.String() + ": " + sentence(oneLine(first.Explanation, 300))
	}
	return said
}
