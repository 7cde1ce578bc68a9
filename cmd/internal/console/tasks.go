package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// tasksView is a list of tasks, of the ledger or of the archive.
type tasksView struct {
	Say   say
	Tasks []taskRow
	// Archive says that it is the archive, which is only read.
	Archive bool
	// Views pick tasks, stale ones, or the archive; Chips pick a state, or the policy of archived ones.
	Views, Chips []chip
	// Namespace, Name, Version, Status, From and To are the filter as the form has it; Flagged is of the stale ones,
	// NearStale of the nearly stale ones.
	Namespace, Name, Version, Status, From, To, Flagged, NearStale string
	// More and First are addresses of other pages of the list; empty for none.
	More, First string
	// Detector says what the detectors of stale tasks do.
	Detector ledger.DetectorStatus
	// Switch is that of the engines which the list is about: the detectors, or the archivers.
	Switch   engineSwitch
	Filtered bool
	Exports  exports
	// Here is the address of the page, to come back to.
	Here string
}

// engineSwitch is the switch of engines of one kind, for the form that turns it.
type engineSwitch struct {
	ledger.Switch
	// Path is where the form goes, Engines their name, Hint what a pause does.
	Path, Engines, Hint string
}

// taskRow is a line of a list of tasks.
type taskRow struct {
	ledger.Task
	Words stateWords
	// Path is its page.
	Path string
}

// taskWords are the mark and the word of how a task is: the kind of its state, and its flag. Its state stands beside it.
func taskWords(t ledger.Task) stateWords {
	switch {
	case t.StaleFlaggedAt != nil:
		return stateWords{"failing", "failing", "Stale"}
	case t.Kind == "failed":
		return stateWords{"failing", "failing", "Failed"}
	case t.CompletedAt != nil || t.Kind == "terminal":
		return stateWords{"fine", "fine", "Ended"}
	case t.Kind == "waiting":
		return stateWords{"waiting", "waiting", "Waits"}
	case t.Kind == "active":
		return stateWords{"waiting", "waiting", "Working"}
	case t.Kind == "initial":
		return stateWords{"quiet", "quiet", "Not begun"}
	}
	return stateWords{"quiet", "quiet", t.Kind}
}

// workflowStates are states of the built-in machine that people look for. A machine of its own has others.
var workflowStates = []struct{ name, state string }{
	{"Working", "steps_in_process"}, {"Waits for steps", "waiting_for_dependencies"}, {"Waits for a retry", "waiting_for_retry"},
	{"Blocked", "blocked_by_failures"}, {"Failed", "error"}, {"Complete", "complete"}, {"Cancelled", "cancelled"},
}

// staleLimit is how many stale tasks the sentence counts.
const staleLimit = 100

// taskFilters and archiveFilters are the filters of the two lists of tasks, as the API has them.
var (
	taskFilters    = []string{"namespace", "name", "version", "status", "from", "to", "flagged", "near_stale"}
	archiveFilters = []string{"namespace", "name", "final_state"}
)

func showTasks(v *visit) error {
	view := tasksView{Here: v.with()}
	q := v.readTaskFilter(&view, taskFilters)
	view.Exports = v.exports("/tasks/export", q)
	var found, stale api.List[ledger.Task]
	var pending int64
	err := together(
		into(&view.Detector, func() (ledger.DetectorStatus, error) { return get[ledger.DetectorStatus](v, "/detector", nil) }), // as it is now: a person may just have turned it
		into(&found, func() (api.List[ledger.Task], error) { return list[api.List[ledger.Task]](v, "/tasks", q) }),
		into(&stale, func() (api.List[ledger.Task], error) {
			return get[api.List[ledger.Task]](v, "/tasks", url.Values{"flagged": {"true"}, "page_size": {fmt.Sprint(staleLimit)}})
		}),
		into(&pending, func() (int64, error) { return v.console.cfg.Investigations.PendingOf(v.ctx, dlq.SubjectTask) }),
	)
	if err != nil {
		return err
	}
	view.Switch = engineSwitch{view.Detector.Switch, "/detector", "detectors", "No stale task is found, moved or dead-lettered until they go on; then they find it."}
	view.Say = sayTasks(len(stale.Items), stale.Next != nil, pending, view.Detector)
	v.fillTasks(&view, found, "/tasks/")
	view.Chips = []chip{{"Any state", v.with("status", "", "after", ""), view.Status == ""}}
	listed := view.Status == ""
	for _, s := range workflowStates {
		listed = listed || s.state == view.Status
		view.Chips = append(view.Chips, chip{s.name, v.with("status", s.state, "after", ""), view.Status == s.state})
	}
	if !listed {
		view.Chips = append(view.Chips, chip{oneLine(view.Status, 60), v.with("status", "", "after", ""), true})
	}
	return nil
}

func showArchive(v *visit) error {
	view := tasksView{Archive: true, Say: say{Mark: "quiet", Text: "Archived tasks, the last archived first.", More: "The archive is only read. To do the work again, create a new task."}}
	paused, err := get[ledger.Switch](v, "/archive/status", nil)
	if err != nil {
		return err
	}
	view.Switch = engineSwitch{paused, "/archive", "archivers", "Tasks that ended stay among the live ones until they go on; then they are archived."}
	if paused.Paused {
		view.Say.Mark, view.Say.More = "held", withReason("The archivers are paused, so tasks that ended stay among the live ones.", paused)
	}
	q := v.readTaskFilter(&view, archiveFilters)
	view.Exports = v.exports("/tasks/archive/export", q)
	found, err := list[api.List[ledger.Task]](v, "/archive/tasks", q)
	if err != nil {
		return err
	}
	v.fillTasks(&view, found, "/tasks/archive/")
	final := v.param("final_state")
	view.Chips = []chip{{"Any end", v.with("final_state", "", "after", ""), final == ""}}
	for _, s := range ledger.FinalStates() {
		view.Chips = append(view.Chips, chip{map[string]string{"complete": "Complete", "error": "Failed", "cancelled": "Cancelled", "dlq_resolved": "Investigated"}[string(s)],
			v.with("final_state", string(s), "after", ""), final == string(s)})
	}
	v.frame.under(crumb{"Tasks", "/tasks"}, "Archive")
	return nil
}

// readTaskFilter reads the filter from the address; the API checks it.
func (v *visit) readTaskFilter(view *tasksView, names []string) url.Values {
	q := url.Values{"page_size": {"25"}}
	for _, name := range append(names, "after") {
		if value := v.param(name); value != "" {
			q.Set(name, value)
			view.Filtered = view.Filtered || name != "after"
		}
	}
	view.Namespace, view.Name, view.Version, view.Status = v.param("namespace"), v.param("name"), v.param("version"), v.param("status")
	view.From, view.To, view.Flagged, view.NearStale = v.param("from"), v.param("to"), v.param("flagged"), v.param("near_stale")
	return q
}

// fillTasks puts a page of the list into the view, and the view into the frame.
func (v *visit) fillTasks(view *tasksView, found api.List[ledger.Task], under string) {
	for _, t := range found.Items {
		view.Tasks = append(view.Tasks, taskRow{t, taskWords(t), under + t.UUID.String()})
	}
	if found.Next != nil {
		view.More = v.with("after", *found.Next)
	}
	if v.param("after") != "" {
		view.First = v.with("after", "")
	}
	switch {
	case view.Archive:
		view.Views = taskViews("/tasks/archive")
	case view.Flagged == "true":
		view.Views = taskViews("/tasks?flagged=true")
	case view.NearStale == "true":
		view.Views = taskViews("/tasks?near_stale=true")
	default:
		view.Views = taskViews("/tasks")
	}
	v.frame.View = view
}

// sayTasks says how many tasks are stale, and how many investigations about tasks are open.
func sayTasks(stale int, more bool, pending int64, d ledger.DetectorStatus) say {
	s := say{Mark: "fine", Text: "No task is stale, and no investigation about a task is open."}
	switch {
	case stale > 0:
		many := ""
		if more {
			many = "More than "
		}
		s = say{Mark: "failing", Text: many + some(stale, "task is stale and was left in place.", "tasks are stale and were left in place."), Name: "Look at them", Path: "/tasks?flagged=true"}
	case pending > 0:
		s = say{Mark: "waiting", Text: some(pending, "investigation about a task is open.", "investigations about tasks are open.")}
	}
	if pending > 0 {
		s.Name, s.Path = "Show the investigations", "/investigations?resolution_status=pending&subject_type=task"
	}
	if d.Paused {
		s.Mark, s.More = "held", withReason("The detectors of stale tasks are paused, so a task that is stuck is not found.", d.Switch)
	} else if d.LastPassAt == nil {
		s.More = "No detector of stale tasks has made a pass yet."
	}
	return s
}

// withReason is a sentence about a pause, and why it is.
func withReason(text string, s ledger.Switch) string {
	if s.Reason != "" {
		text += " " + sentence(oneLine(s.Reason, 200))
	}
	return text
}

// stepWords are the mark and the word of a step's status.
func stepWords(s ledger.StepStatus) stateWords {
	switch s {
	case ledger.StepComplete:
		return stateWords{"fine", "fine", "Done"}
	case ledger.StepResolvedManually:
		return stateWords{"fine", "fine", "Done by hand"}
	case ledger.StepError:
		return stateWords{"failing", "failing", "Failed"}
	case ledger.StepWaitingForRetry:
		return stateWords{"waiting", "back", "Tried again"}
	case ledger.StepInProgress:
		return stateWords{"waiting", "waiting", "Working"}
	case ledger.StepEnqueued:
		return stateWords{"waiting", "waiting", "Queued"}
	case ledger.StepCancelled:
		return stateWords{"quiet", "quiet", "Cancelled"}
	case ledger.StepPending:
		return stateWords{"quiet", "quiet", "Waits"}
	case "": // of a template
		return stateWords{}
	}
	return stateWords{"quiet", "quiet", string(s)}
}

// taskInvestigations are the investigations about a task, the newest first.
func (v *visit) taskInvestigations(id uuid.UUID) ([]api.Entry, error) {
	found, err := get[api.EntryList](v, "/dlq", url.Values{"subject_type": {string(dlq.SubjectTask)}, "subject_id": {id.String()}, "page_size": {"10"}})
	return found.Items, err
}

// switchEngine pauses engines, or lets them go on, and leads back to the page with the form. The form goes to the path that
// the API has.
func switchEngine(back, path, engines string) func(*visit) (string, error) {
	return func(v *visit) (string, error) {
		switch v.PathValue("command") {
		case "pause":
			body := map[string]any{"reason": strings.TrimSpace(v.FormValue("why"))}
			d, err := v.howLong()
			if err != nil {
				return back, err
			}
			if d > 0 {
				body["for_seconds"] = d.Seconds()
			}
			now, err := ask[ledger.Switch](v, http.MethodPost, path+"/pause", nil, body)
			if err != nil {
				return back, err
			}
			if now.ResumeAt != nil {
				v.say("The %s are paused until %s.", engines, now.ResumeAt.UTC().Format("2006-01-02 15:04 UTC"))
			} else {
				v.say("The %s are paused until a person resumes them.", engines)
			}
		case "resume":
			done, err := ask[api.ResumedEngine](v, http.MethodPost, path+"/resume", nil, nil)
			if err != nil {
				return back, err
			}
			if done.Resumed {
				v.say("The %s go on.", engines)
			} else {
				v.say("The %s were not paused.", engines)
			}
		default:
			return back, &httpapi.Error{Code: httpapi.NotFound, Message: "They are paused and resumed."}
		}
		return back, nil
	}
}
