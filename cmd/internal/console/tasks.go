package console

import (
	"fmt"
	"net/url"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// tasksView is a list of tasks: those of the ledger, or the archive.
type tasksView struct {
	Say   say
	Tasks []taskRow
	// Archive says that it is the archive, which is only read.
	Archive bool
	// Views pick tasks, stale ones, or the archive; Chips pick a state, or the policy of archived ones.
	Views, Chips []chip
	// Namespace, Name, Version, Status, From and To are the filter as the form has it; Flagged is of the stale ones.
	Namespace, Name, Version, Status, From, To, Flagged string
	// More and First are addresses of other pages of the list; empty for none.
	More, First string
	// Detector says what the detectors of stale tasks do.
	Detector ledger.DetectorStatus
	Filtered bool
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

func showTasks(v *visit) error {
	view := tasksView{}
	f, err := v.figures()
	if err != nil {
		return err
	}
	view.Detector = f.Status.Detector
	q := v.readTaskFilter(&view, "namespace", "name", "version", "status", "from", "to", "flagged", "after")
	found, err := get[api.List[ledger.Task]](v, "/tasks", q)
	if err != nil {
		return err
	}
	if err := v.sayTasks(&view); err != nil {
		return err
	}
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
	view := tasksView{Archive: true, Say: say{Mark: "quiet", Text: "Archived tasks, those archived last first.", More: "The archive is only read. To do the work again, create a new task."}}
	q := v.readTaskFilter(&view, "namespace", "name", "final_state", "after")
	found, err := get[api.List[ledger.Task]](v, "/archive/tasks", q)
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
func (v *visit) readTaskFilter(view *tasksView, names ...string) url.Values {
	q := url.Values{"page_size": {"25"}}
	for _, name := range names {
		if value := v.param(name); value != "" {
			q.Set(name, value)
			view.Filtered = view.Filtered || name != "after"
		}
	}
	view.Namespace, view.Name, view.Version, view.Status = v.param("namespace"), v.param("name"), v.param("version"), v.param("status")
	view.From, view.To, view.Flagged = v.param("from"), v.param("to"), v.param("flagged")
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
	stale := view.Flagged == "true"
	view.Views = []chip{{"All", "/tasks", !view.Archive && !stale}, {"Stale", "/tasks?flagged=true", stale}, {"Archive", "/tasks/archive", view.Archive}}
	v.frame.View = view
}

// sayTasks is how the tasks stand: those that are stale, and investigations about tasks.
func (v *visit) sayTasks(view *tasksView) error {
	stale, err := get[api.List[ledger.Task]](v, "/tasks", url.Values{"flagged": {"true"}, "page_size": {fmt.Sprint(staleLimit)}})
	if err != nil {
		return err
	}
	open, err := get[api.EntryList](v, "/dlq", url.Values{"subject_type": {string(dlq.SubjectTask)}, "resolution_status": {string(dlq.Pending)}, "page_size": {"1"}})
	if err != nil {
		return err
	}
	var pending int64
	if open.Total != nil {
		pending = *open.Total
	}
	view.Say = sayTasks(len(stale.Items), stale.Next != nil, pending, view.Detector)
	return nil
}

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
		s.Mark, s.More = "held", "The detectors of stale tasks are paused, so a task that stands is not found."
		if d.Reason != "" {
			s.More += " " + sentence(oneLine(d.Reason, 200))
		}
	} else if d.LastPassAt == nil {
		s.More = "No detector of stale tasks has made a pass yet."
	}
	return s
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
	}
	return stateWords{"quiet", "quiet", string(s)}
}

// taskInvestigations are those about a task, the newest first.
func (v *visit) taskInvestigations(id uuid.UUID) ([]api.Entry, error) {
	found, err := get[api.EntryList](v, "/dlq", url.Values{"subject_type": {string(dlq.SubjectTask)}, "subject_id": {id.String()}, "page_size": {"10"}})
	return found.Items, err
}
