package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
)

// road is the way of a redrive: Fix, Plan, Canary, Send, Confirmed.
type road struct {
	Steps []roadStep
	// Operation is the operation that goes it; nil before there is one.
	Operation *operationView
}

// roadStep is a step of it. State is done, now or empty; Held says that it was halted.
type roadStep struct {
	Number     int
	Name, Fact string
	State      string
	Held       bool
}

// operationView is an operation with what can be done about it now.
type operationView struct {
	api.Operation
	Words  stateWords
	Say    say
	Shares []share
	Road   []roadStep
	// OnTheWay were sent and have no outcome yet; Waiting have not been treated.
	OnTheWay, Waiting int64
	// Warnings are what a person should know before it starts.
	Warnings []string
	// What and Where say in words what it does, HaltsAt when it halts.
	What, Where, HaltsAt, Pace string
	// Scope is what is needed to command it.
	Needs string
	// Again is the address of the form for a new plan with what this one had; empty where its scope is not a group.
	Again string
	// CanStart, CanHalt, CanGoOn and CanEnd say which commands fit its state.
	CanStart, CanHalt, CanGoOn, CanEnd bool
	// Headers are what messages with unreadable headers get.
	Headers []pair
	// Listed are its items of the state that is picked.
	Listed []api.OperationItem
	Tabs   []chip
	More   string
	Picked string
}

// viewOperation is an operation as pages show it.
func viewOperation(o api.Operation) *operationView {
	v := &operationView{Operation: o, Words: statusWords(o.State), Needs: string(needs(o.Kind))}
	s := sayOperation(&o)
	v.Say = s
	v.Waiting = max(o.Items-o.Done-o.Skipped-o.Failed, 0)
	if o.Kind == dlq.OpRedrive {
		v.OnTheWay = max(o.Done-o.Delivered-o.CameBack, 0)
		v.Shares = []share{{Class: "fine", Name: "Arrived", Count: o.Delivered}, {Class: "accent", Name: "On their way", Count: v.OnTheWay},
			{Class: "failing", Name: "Came back", Count: o.CameBack}, {Class: "quiet", Name: "Left alone", Count: o.Skipped + o.Failed},
			{Class: "rest", Name: "Wait", Count: v.Waiting, Of: o.Items}}
	} else {
		v.Shares = []share{{Class: "fine", Name: "Done", Count: o.Done}, {Class: "failing", Name: "Failed", Count: o.Failed},
			{Class: "quiet", Name: "Left alone", Count: o.Skipped}, {Class: "rest", Name: "Wait", Count: v.Waiting, Of: o.Items}}
	}
	v.Road = roadSteps(&o)
	v.Warnings = warningsOf(&o)
	v.CanStart = o.State == dlq.Planned && o.Items > 0 && !sendsNothing(&o)
	v.Again = again(&o)
	if o.State == dlq.Completed && s.Mark != "fine" {
		v.Words = stateWords{s.Mark, s.Mark, "Done in part"}
	}
	v.CanHalt = o.State == dlq.Canary || o.State == dlq.Running
	v.CanGoOn = o.State == dlq.Paused || o.State == dlq.Halted
	v.CanEnd = !o.State.Ended()
	v.What = map[dlq.OperationKind]string{dlq.OpRedrive: "Send %s again", dlq.OpResolve: "Close %s", dlq.OpPurge: "Remove %s for good"}[o.Kind]
	v.What = fmt.Sprintf(v.What, some(o.Plan.Items, "letter", "letters"))
	if o.Plan.Bytes > 0 {
		v.What += ", " + bytesText(o.Plan.Bytes)
	}
	v.Where = whereOf(&o)
	ratio, minimum := o.Options.HaltsAt()
	v.HaltsAt = fmt.Sprintf("when more than %g in 100 come back, %d at least", ratio*100, minimum)
	v.Pace = "as fast as it goes"
	if o.Options.Rate > 0 {
		v.Pace = fmt.Sprintf("%g a second", o.Options.Rate)
	}
	if o.Options.Canary > 0 {
		v.Pace = fmt.Sprintf("%d first, then %s", o.Options.Canary, v.Pace)
	}
	for _, h := range o.Options.Headers {
		if len(h) == 2 {
			v.Headers = append(v.Headers, pair{h[0], h[1]})
		}
	}
	return v
}

func whereOf(o *api.Operation) string {
	if o.Kind != dlq.OpRedrive {
		return ""
	}
	if o.Options.Target != "" {
		return o.Options.Target
	}
	var topics []string
	for topic := range o.Plan.Topics {
		topics = append(topics, clip(topic, 120))
	}
	slices.Sort(topics)
	if len(topics) > 5 {
		topics = append(topics[:5], fmt.Sprintf("%d others", len(topics)-5))
	}
	return strings.Join(topics, ", ")
}

// warningsOf is what a plan found that may surprise.
func warningsOf(o *api.Operation) []string {
	var out []string
	p := o.Plan
	add := func(n int64, one, many string) {
		if n > 0 {
			out = append(out, some(n, one, many))
		}
	}
	add(p.Redriven, "was sent again before: its consumers may see it twice", "were sent again before: their consumers may see them twice")
	if o.Kind == dlq.OpRedrive {
		add(p.Tasks, "is about a task, and is left alone", "are about tasks, and are left alone")
		if o.Options.Repair() == nil {
			add(p.Unreadable, "has headers that cannot be read, and is left alone: give headers in the plan", "have headers that cannot be read, and are left alone: give headers in the plan")
		}
		add(p.Keys, "key has it: later events of the key may have gone before", "keys have them: later events of a key may have gone before")
	}
	add(p.Halting, "halts its key: it goes back to its place, and the key goes on", "halt their keys: they go back to their places, and the keys go on")
	return out
}

// sayOperation is how an operation stands.
func sayOperation(o *api.Operation) say {
	name := clip(o.Name, 80)
	known := o.Delivered + o.CameBack
	waiting := max(o.Items-o.Done-o.Skipped-o.Failed, 0)
	switch o.State {
	case dlq.Planned:
		if o.Items == 0 {
			return say{Mark: "quiet", Text: name + " is planned, and there is nothing in it.", More: "Nothing that is open matches its scope."}
		}
		if sendsNothing(o) {
			return say{Mark: "held", Text: fmt.Sprintf("%s would send nothing: the headers of all %s cannot be read.", name, count(o.Items)),
				More: "Plan again, and say which headers they are sent with."}
		}
		return say{Mark: "waiting", Text: fmt.Sprintf("%s is planned: %s. Nothing was done yet.", name, some(o.Items, "letter", "letters"))}
	case dlq.Canary:
		return say{Mark: "waiting", Text: fmt.Sprintf("%s: %s of the canary of %d arrived.", name, count(o.Delivered), o.Options.Canary),
			More: fmt.Sprintf("When what became of all of them is known, the other %s go. If too many come back, it halts by itself.", count(waiting))}
	case dlq.Running:
		if o.Kind == dlq.OpRedrive {
			return say{Mark: "waiting", Text: fmt.Sprintf("%s sends: %s of %s arrived.", name, count(o.Delivered), count(o.Items))}
		}
		return say{Mark: "waiting", Text: fmt.Sprintf("%s works: %s of %s are done.", name, count(o.Done), count(o.Items))}
	case dlq.Paused:
		return say{Mark: "held", Text: fmt.Sprintf("%s was halted by a person: %s have not been treated.", name, count(waiting)), More: "They wait for you: go on, or end it."}
	case dlq.Halted:
		return say{Mark: "held", Text: fmt.Sprintf("%s halted by itself: %s of the %s whose outcome is known came back.", name, count(o.CameBack), count(known)),
			More: strings.TrimSpace(sentence(text(o.Error)) + fmt.Sprintf(" %s arrived and are closed. %s have not been sent, and wait for you.", count(o.Delivered), count(waiting)))}
	case dlq.Aborted:
		return say{Mark: "quiet", Text: fmt.Sprintf("%s was ended: %s of %s had been treated.", name, count(o.Done), count(o.Items)), More: "What was sent stays sent. The others are open as before."}
	}
	if o.Kind == dlq.OpRedrive {
		if o.CameBack > 0 || o.Skipped+o.Failed > 0 {
			mark := "held"
			if o.CameBack > 0 || o.Delivered == 0 {
				mark = "failing"
			}
			return say{Mark: mark, Text: fmt.Sprintf("%s ended: %s of %s arrived, %s came back, %s were left alone.", name, count(o.Delivered), count(o.Items), count(o.CameBack), count(o.Skipped+o.Failed)),
				More: "What did not arrive is open as before. The items say why."}
		}
		return say{Mark: "fine", Text: fmt.Sprintf("%s is done: all %s arrived.", name, count(o.Items)), More: "Each is closed."}
	}
	return say{Mark: "fine", Text: fmt.Sprintf("%s is done: %s of %s.", name, count(o.Done), count(o.Items))}
}

// roadSteps are the steps of an operation; without one, the first is next.
func roadSteps(o *api.Operation) []roadStep {
	steps := []roadStep{{Name: "Fix", Fact: "mend the cause first"}, {Name: "Plan", Fact: "what will be sent, where and how fast"}, {Name: "Canary", Fact: "a few go first"},
		{Name: "Send", Fact: "the others"}, {Name: "Confirmed", Fact: "each letter closes when it arrives"}}
	at := 0
	if o != nil {
		waiting := max(o.Items-o.Done-o.Skipped-o.Failed, 0)
		steps[0].Fact = "as the messages are"
		if o.Options.Repair() != nil {
			steps[0].Fact = "headers that cannot be read are replaced"
		}
		steps[1].Fact = some(o.Plan.Items, "letter", "letters")
		if o.Plan.Keys > 0 {
			steps[1].Fact += ", " + some(o.Plan.Keys, "key", "keys")
		}
		steps[2].Fact = fmt.Sprintf("%d go first", o.Options.Canary)
		if o.Options.Canary == 0 {
			steps[2].Fact = "none was asked for"
		}
		steps[3].Fact = fmt.Sprintf("%s wait", count(waiting))
		steps[4].Fact = fmt.Sprintf("%s of %s arrived", count(o.Delivered), count(o.Items))
		begun := o.StartedAt != nil
		canaryOver := int64(o.Options.Canary) <= o.Done+o.Skipped+o.Failed && o.State != dlq.Canary
		switch {
		case !begun:
			at = 1
		case !canaryOver:
			at = 2
			steps[2].Fact = fmt.Sprintf("%s of %d arrived, %s came back", count(o.Delivered), o.Options.Canary, count(o.CameBack))
		case waiting > 0 && !o.State.Ended():
			at = 3
		case o.State == dlq.Completed && o.Items == o.Delivered:
			at = 5
		default:
			at = 4
		}
	}
	for i := range steps {
		steps[i].Number = i + 1
		switch {
		case i < at:
			steps[i].State = "done"
		case i == at:
			steps[i].State = "now"
			steps[i].Held = o != nil && (o.State == dlq.Halted || o.State == dlq.Paused || o.State.Ended() || sendsNothing(o))
		}
	}
	return steps
}

// roadOf is the road of a group: that of the operation about it that runs, of the newest that is planned, or of one that has
// just ended.
func (v *visit) roadOf(g api.GroupDetail) (road, error) {
	found, err := get[api.List[api.Operation]](v, "/operations", url.Values{"page_size": {"50"}})
	if err != nil {
		return road{}, err
	}
	var last *api.Operation
	for i, o := range found.Items {
		if o.Scope.Group == nil || *o.Scope.Group != g.UUID || o.Kind != dlq.OpRedrive {
			continue
		}
		if !o.State.Ended() {
			last = &found.Items[i]
			if o.StartedAt != nil {
				break
			}
		} else if last == nil && o.FinishedAt != nil && time.Since(*o.FinishedAt) < 10*time.Minute {
			last = &found.Items[i]
		}
	}
	if last == nil {
		return road{Steps: roadSteps(nil)}, nil
	}
	view := viewOperation(*last)
	if last.State.Ended() && g.Pending > 0 {
		return road{Steps: roadSteps(nil), Operation: view}, nil // what is still open has the road before it
	}
	return road{Steps: view.Road, Operation: view}, nil
}

// sendsNothing reports whether a planned redrive would leave all its messages alone, because it has no headers for them.
func sendsNothing(o *api.Operation) bool {
	return o.Kind == dlq.OpRedrive && o.State == dlq.Planned && o.Items > 0 && o.Options.Repair() == nil && o.Plan.Unreadable >= o.Items
}

// again is the address of the form for a new plan of the same group, with what this one had.
func again(o *api.Operation) string {
	if o.Kind != dlq.OpRedrive || o.Scope.Group == nil {
		return ""
	}
	q := url.Values{"kind": {string(o.Kind)}, "group": {o.Scope.Group.String()}, "why": {text(o.Reason)}, "target": {o.Options.Target},
		"canary": {strconv.Itoa(o.Options.Canary)}, "rate": {strconv.FormatFloat(o.Options.Rate, 'f', -1, 64)}}
	return "/plan?" + q.Encode()
}

// operationsView is the list of operations.
type operationsView struct {
	Operations []*operationView
	Open       bool
	Chips      []chip
	Next       string
}

func showOperations(v *visit) error {
	view := operationsView{Open: v.param("open") == "true"}
	q := url.Values{}
	for _, name := range []string{"open", "after"} {
		if value := v.param(name); value != "" {
			q.Set(name, value)
		}
	}
	found, err := get[api.List[api.Operation]](v, "/operations", q)
	if err != nil {
		return err
	}
	for _, o := range found.Items {
		view.Operations = append(view.Operations, viewOperation(o))
	}
	if found.Next != nil {
		view.Next = v.with("after", *found.Next)
	}
	view.Chips = []chip{{"All", v.with("open", "", "after", ""), !view.Open}, {"Not ended", v.with("open", "true", "after", ""), view.Open}}
	v.frame.View = view
	return nil
}

func showOperation(v *visit) error {
	o, err := get[api.Operation](v, "/operations/"+v.id(), nil)
	if err != nil {
		return err
	}
	view := viewOperation(o)
	view.Picked = v.param("state")
	q := url.Values{"page_size": {"25"}}
	for _, name := range []string{"state", "outcome", "after"} {
		if value := v.param(name); value != "" {
			q.Set(name, value)
		}
	}
	items, err := get[api.List[api.OperationItem]](v, "/operations/"+v.id()+"/items", q)
	if err != nil {
		return err
	}
	view.Listed = items.Items
	if items.Next != nil {
		view.More = v.with("after", *items.Next)
	}
	for _, state := range append([]string{""}, api.ItemStates()...) {
		name := "All"
		if state != "" {
			name = statusWords(state).Word
		}
		view.Tabs = append(view.Tabs, chip{Name: name, Path: v.with("state", state, "outcome", "", "after", ""), On: state == view.Picked && v.param("outcome") == ""})
	}
	if o.Kind == dlq.OpRedrive {
		for _, outcome := range []string{dlq.ItemDelivered, dlq.ItemCameBack} {
			view.Tabs = append(view.Tabs, chip{Name: statusWords(outcome).Word, Path: v.with("state", "", "outcome", outcome, "after", ""), On: outcome == v.param("outcome")})
		}
	}
	v.frame.under(crumb{"Operations", "/operations"}, clip(o.Name, 80))
	v.frame.View = view
	return nil
}

// commandOperation starts, halts, goes on with or ends an operation. The API knows who may.
func commandOperation(v *visit) (string, error) {
	back := "/operations/" + v.id()
	if to := ownPath(v.FormValue("back")); to != "/" {
		back = to
	}
	verb := v.PathValue("command")
	if !slices.Contains([]string{"start", "pause", "resume", "abort"}, verb) {
		return back, &httpapi.Error{Code: httpapi.NotFound, Message: "An operation is started, paused, resumed or aborted."}
	}
	_, err := ask[api.Operation](v, http.MethodPost, "/operations/"+v.id()+"/"+verb, nil, nil)
	if err == nil {
		v.say("%s", map[string]string{"start": "It is started.", "pause": "It is halted.", "resume": "It goes on.", "abort": "It is ended for good."}[verb])

	}
	return back, err
}
