package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// taskView is one task.
type taskView struct {
	ledger.Task
	Words stateWords
	// Archived says that it is in the archive, which is only read.
	Archived bool
	// Steps are a page of its steps, of StepCount; MoreSteps and FirstSteps are addresses of other pages.
	Steps                 []stepRow
	StepCount             int
	MoreSteps, FirstSteps string
	// Graph is the picture of its steps; empty without steps.
	Graph template.HTML
	// Picked is the step that was asked for; nil for none.
	Picked *stepView
	// History are the changes of the task and of its steps.
	History history
	// Entries are investigations about it.
	Entries []api.Entry
	// Input is the context it was created with.
	Input []piece
	// Path is its page.
	Path string
}

// stepRow is a line of a list of steps.
type stepRow struct {
	ledger.Step
	Words stateWords
	// Path is the task's page with this step.
	Path string
}

// stepView is the step that was asked for, with what can be done about it.
type stepView struct {
	ledger.Step
	Words           stateWords
	Inputs, Results []piece
	// Behind are the names of the steps that need it, directly or by others; the ones after the first ten are counted.
	Behind string
	// NoAction says why nothing can be done; empty where something can.
	NoAction string
}

func showTask(v *visit) error { return v.showTaskAt("/tasks/", false) }

func showArchivedTask(v *visit) error { return v.showTaskAt("/archive/tasks/", true) }

// showTaskAt shows the task that the API has below a path.
func (v *visit) showTaskAt(under string, archived bool) error {
	path := under + v.id()
	data, err := v.console.cfg.API.Call(v.ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	t, live := data.(ledger.Task)
	if !live { // it was archived since
		http.Redirect(v.writer, v.Request, "/tasks/archive/"+v.id(), http.StatusSeeOther)
		v.wrote = true
		return nil
	}
	var steps api.List[ledger.Step]
	var moves history
	var entries []api.Entry
	err = together(
		into(&steps, func() (api.List[ledger.Step], error) {
			return get[api.List[ledger.Step]](v, path+"/workflow_steps", nil)
		}),
		into(&moves, func() (history, error) { return v.readHistory(path) }),
		into(&entries, func() ([]api.Entry, error) { return v.taskInvestigations(t.UUID) }),
	)
	if err != nil {
		return err
	}
	view := taskOf(t, steps.Items, archived)
	view.History, view.Entries = moves, entries
	view.listSteps(v, steps.Items)
	if asked := v.param("step"); asked != "" {
		i := slices.IndexFunc(steps.Items, func(s ledger.Step) bool { return s.UUID.String() == asked })
		if i < 0 {
			return &httpapi.Error{Code: httpapi.NotFound, Message: "The task has no step " + oneLine(asked, 100)}
		}
		view.Picked = pickedStep(steps.Items, i, archived)
	}
	v.frame.under(crumb{"Tasks", "/tasks"}, clip(t.Name, 60)+" "+t.UUID.String()[:8])
	v.frame.View = view
	return nil
}

// taskOf is a task as its page shows it.
func taskOf(t ledger.Task, steps []ledger.Step, archived bool) *taskView {
	view := &taskView{Task: t, Words: taskWords(t), Archived: archived, StepCount: len(steps), Graph: stepGraph(t.Name, steps), Path: "/tasks/" + t.UUID.String()}
	if archived {
		view.Path = "/tasks/archive/" + t.UUID.String()
	}
	view.Input, _ = prettyJSON(t.Context[:min(len(t.Context), maxShown)])
	return view
}

// listSteps puts a page of the steps into the view.
func (t *taskView) listSteps(v *visit, steps []ledger.Step) {
	steps, t.MoreSteps, t.FirstSteps = slicePage(v, steps, stepsShown, "from", "#steps", "step")
	for _, s := range steps {
		t.Steps = append(t.Steps, stepRow{s, stepWords(s.Status), v.with("step", s.UUID.String()) + "#step"})
	}
}

// pickedStep is a step with what can be done about it.
func pickedStep(steps []ledger.Step, i int, archived bool) *stepView {
	s := steps[i]
	v := &stepView{Step: s, Words: stepWords(s.Status), Behind: stepsBehind(steps, s.Name)}
	v.Inputs, _ = prettyJSON(s.Inputs[:min(len(s.Inputs), maxShown)])
	v.Results, _ = prettyJSON(s.Results[:min(len(s.Results), maxShown)])
	switch {
	case archived:
		v.NoAction = "The archive is only read."
	case s.Status == ledger.StepComplete || s.Status == ledger.StepResolvedManually:
		v.NoAction = "It is done."
	}
	return v
}

// stepsBehind names the steps that need a step, directly or by others, in their order.
func stepsBehind(steps []ledger.Step, name string) string {
	next := map[string][]string{}
	for _, s := range steps {
		for _, d := range s.Dependencies {
			next[d] = append(next[d], s.Name)
		}
	}
	seen := map[string]bool{name: true}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		for _, n := range next[queue[0]] {
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	var names []string
	for _, s := range steps {
		if seen[s.Name] && s.Name != name {
			names = append(names, clip(s.Name, 60))
		}
	}
	if len(names) > 10 {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:10], ", "), len(names)-10)
	}
	return strings.Join(names, ", ")
}

// commandTask puts a task back to its beginning, cancels it, dead-letters it or ends its flag. The API knows when that fits.
func commandTask(v *visit) (string, error) {
	back := "/tasks/" + v.id()
	var body map[string]any
	why := strings.TrimSpace(v.FormValue("why"))
	verb := v.PathValue("command")
	said := map[string]string{"retry": "It is put back to its beginning.", "cancel": "It is cancelled.", "unflag": "It may go on; its time begins anew.", "dlq": "It is dead-lettered, and an investigation opens."}[verb]
	switch verb {
	case "retry":
	case "cancel", "unflag":
		body = map[string]any{"notes": why}
	case "dlq":
		body = map[string]any{"reason": why}
	default:
		return back, &httpapi.Error{Code: httpapi.NotFound, Message: "A task is retried, cancelled, unflagged or dead-lettered."}
	}
	done, err := ask[any](v, http.MethodPost, back+"/"+verb, nil, bodyOrNone(body))
	if err != nil {
		return back, err
	}
	switch d := done.(type) {
	case api.CancelledTask:
		if !d.Cancelled {
			said = "It had ended before."
		}
	case api.UnflaggedTask:
		if !d.Unflagged {
			said = "It had no flag."
		}
	}
	v.say("%s", said)
	return back, nil
}

// bodyOrNone is no body for an empty map: a nil map in an interface would be one.
func bodyOrNone(body map[string]any) any {
	if body == nil {
		return nil
	}
	return body
}

// actOnStep does something with a step by hand. The API knows when that fits.
func actOnStep(v *visit) (string, error) {
	step := url.PathEscape(v.PathValue("step"))
	back := "/tasks/" + v.id() + "?step=" + url.QueryEscape(v.PathValue("step")) + "#step"
	body := map[string]any{"action": v.FormValue("action"), "notes": strings.TrimSpace(v.FormValue("why"))}
	if results := strings.TrimSpace(v.FormValue("results")); results != "" {
		if !json.Valid([]byte(results)) {
			return back, &httpapi.Error{Code: httpapi.Validation, Message: "The results are not JSON. A text is written in quotes"}
		}
		body["results"] = json.RawMessage(results)
	}
	done, err := ask[api.TreatedStep](v, http.MethodPatch, "/tasks/"+v.id()+"/workflow_steps/"+step, nil, body)
	if err == nil {
		v.say("The step is %s now, and the task %s.", done.Step.Status, done.TaskState)
	}
	return back, err
}
