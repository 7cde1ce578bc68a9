package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
)

// operationView is an operation with what can be done about it now.
type operationView struct {
	api.Operation
	Words  stateWords
	Say    say
	Shares []share
	Road   []roadStep
	// OnTheWay were sent and have no outcome yet; Waiting have not been processed.
	OnTheWay, Waiting int64
	// Warnings are what a person should know before it starts, and while it goes.
	Warnings []warning
	// What and Where say in words what it does, HaltsAt when it halts.
	What, Where, HaltsAt, Pace string
	// Verb is the button that starts it.
	Verb string
	// GoOn is the button that lets it go on; Ends says what becomes of what it has not done when it is ended.
	GoOn, Ends string
	// Cause is the title of the cause that it is about; empty where its scope is no group, and where that was removed.
	Cause string
	// Again is the address of the form for a new plan with what this one had; empty where its scope is not a group.
	Again string
	// Rest is the address of the form for a new plan of what was not sent, and RestVerb is its button; empty for none.
	Rest, RestVerb string
	// CanStart, CanHalt, CanGoOn and CanEnd say which commands fit its state.
	CanStart, CanHalt, CanGoOn, CanEnd bool
	// Happened is what people did with it and what it did itself, the newest first.
	Happened []happening
	// Headers are what messages with unreadable headers get.
	Headers []pair
	// Listed are its items of the state that is picked.
	Listed []api.OperationItem
	Tabs   []chip
	More   string
	Picked string
	// Exports are its items as files.
	Exports exports
}

// viewOperation is an operation as pages show it.
func viewOperation(o api.Operation) *operationView {
	v := &operationView{Operation: o, Words: statusWords(o.State)}
	s := sayOperation(&o)
	v.Say = s
	v.Waiting = max(o.Items-o.Done-o.Skipped-o.Failed, 0)
	rest := "Waiting"
	if o.State.Ended() {
		rest = "Left out"
	}
	if o.Kind == dlq.OpRedrive {
		v.OnTheWay = max(o.Done-o.Delivered-o.CameBack, 0)
		v.Shares = []share{{Class: "fine", Name: "Arrived", Count: o.Delivered}, {Class: "accent", Name: "On their way", Count: v.OnTheWay},
			{Class: "failing", Name: "Failed again", Count: o.CameBack}, {Class: "quiet", Name: "Not sent", Count: o.Skipped + o.Failed},
			{Class: "rest", Name: rest, Count: v.Waiting, Of: o.Items}}
	} else {
		v.Shares = []share{{Class: "fine", Name: "Done", Count: o.Done}, {Class: "failing", Name: "Failed", Count: o.Failed},
			{Class: "quiet", Name: "Skipped", Count: o.Skipped}, {Class: "rest", Name: rest, Count: v.Waiting, Of: o.Items}}
	}
	v.Road = roadSteps(&o)
	v.Warnings = warningsOf(&o)
	v.CanStart = o.State == dlq.Planned && o.Items > 0 && !sendsNothing(&o)
	v.Again = again(&o)
	if o.State == dlq.Completed && s.Mark != "fine" {
		v.Words = stateWords{s.Mark, s.Mark, partWord(&o)}
	}
	v.CanHalt = o.State == dlq.Canary || o.State == dlq.Running
	v.CanGoOn = o.State == dlq.Paused || o.State == dlq.Halted
	v.CanEnd = !o.State.Ended()
	noun := nounOf(o.Kind)
	v.What = map[dlq.OperationKind]string{dlq.OpRedrive: "Send %s again", dlq.OpResolve: "Close %s", dlq.OpPurge: "Remove %s for good"}[o.Kind]
	v.What = fmt.Sprintf(v.What, some(o.Plan.Items, noun, noun+"s"))
	if o.Plan.Bytes > 0 {
		v.What += ", " + bytesText(o.Plan.Bytes)
	}
	act := map[dlq.OperationKind]string{dlq.OpRedrive: "Send", dlq.OpResolve: "Close", dlq.OpPurge: "Remove for good:"}[o.Kind]
	v.Verb, v.GoOn = act+" "+some(o.Items, noun, noun+"s"), act+" the other "+count(v.Waiting)
	if first, rest := int64(o.Options.Canary), o.Items-int64(o.Options.Canary); o.Kind == dlq.OpRedrive && first > 0 && rest > 0 {
		v.Verb = fmt.Sprintf("Send %s first, then the other %s if %s", count(first), count(rest), theyArrive(first))
	}
	if v.Waiting == 0 {
		v.GoOn = "Wait for the outcome"
	} else if v.Waiting == o.Items {
		v.GoOn = act + " the " + count(v.Waiting)
	}
	v.Ends = map[dlq.OperationKind]string{dlq.OpRedrive: "not sent; their investigations stay as they are", dlq.OpResolve: "not closed", dlq.OpPurge: "not removed"}[o.Kind]
	v.Ends = some(v.Waiting, noun+" is ", noun+"s are ") + v.Ends
	if v.Waiting == 0 {
		v.Ends = "Nothing in it is left to do"
	} else if v.Waiting == 1 {
		v.Ends = strings.Replace(v.Ends, "their investigations stay as they are", "its investigation stays as it is", 1)
	}
	v.Where = whereOf(&o)
	ratio, minimum := o.Options.HaltsAt()
	v.HaltsAt = fmt.Sprintf("when more than %g in 100 fail again, and %d at least", ratio*100, minimum)
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

// partWord is the word of an operation that has ended by itself and has not done all of it.
func partWord(o *api.Operation) string {
	switch {
	case o.Kind != dlq.OpRedrive && o.Done == 0:
		return "Nothing done"
	case o.Kind == dlq.OpRedrive && o.Done <= o.CameBack:
		return "None arrived"
	}
	return "Done in part"
}

// theyArrive is what n messages of a canary do.
func theyArrive(n int64) string {
	if n == 1 {
		return "it arrives"
	}
	return "they arrive"
}

// nounOf is what an operation of a kind is about: messages are sent, investigations are closed or removed.
func nounOf(kind dlq.OperationKind) string {
	if kind == dlq.OpRedrive {
		return "message"
	}
	return "investigation"
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
func warningsOf(o *api.Operation) []warning {
	var out []warning
	p := o.Plan
	add := func(n int64, one, many string) {
		if n > 0 {
			out = append(out, warning{Text: some(n, one, many)})
		}
	}
	of := ""
	if p.Foreseen < p.Items {
		of = "of the first " + count(p.Foreseen) + " "
	}
	if !o.State.Ended() {
		add(p.LeftOut[dlq.NotPending], of+"is closed, and is not sent", of+"are closed, and are not sent")
	}
	add(p.Redriven, "was sent again before: its consumers may see it twice", "were sent again before: their consumers may see them twice")
	if o.Kind == dlq.OpRedrive {
		add(p.Tasks, "is about a task, and is not sent", "are about tasks, and are not sent")
		if o.Options.Repair() == nil {
			add(unreadable(o), "has headers that cannot be read, and is not sent: say in the plan what is sent instead", "have headers that cannot be read, and are not sent: say in the plan what is sent instead")
		}
		add(p.Keys, "key is among them: later events of the key may have gone before", "keys are among them: later events of a key may have gone before")
	}
	if !o.State.Ended() {
		for _, why := range slices.Sorted(maps.Keys(p.LeftOut)) {
			if why != dlq.TaskSubject && why != dlq.NotPending && (why != dlq.UnreadableHeaders || o.Options.Repair() != nil) {
				skipped := of + "would be skipped: " + whySkipped(why)
				add(p.LeftOut[why], skipped, skipped)
			}
		}
	}
	if o.State == dlq.Planned {
		for _, r := range o.Reaches {
			if r.Missing {
				out = append(out, warning{Text: r.Explanation})
			}
		}
	}
	for _, v := range p.Overlaps {
		name := clip(v.Name, 80) + " (" + string(v.State) + ")"
		add(v.Items, "is to be treated by the operation "+name+", too", "are to be treated by the operation "+name+", too")
	}
	add(p.Halting, "halts its key: it goes back to its place, and the key goes on", "halt their keys: they go back to their places, and the keys go on")
	return out
}

// sayOperation is how an operation stands.
func sayOperation(o *api.Operation) say {
	name := clip(o.Name, 200)
	known := o.Delivered + o.CameBack
	waiting := max(o.Items-o.Done-o.Skipped-o.Failed, 0)
	switch o.State {
	case dlq.Planned:
		if o.Items == 0 {
			return say{Mark: "quiet", Text: name + " is planned, and there is nothing in it.", More: "Nothing that is open matches its scope."}
		}
		if sendsNothing(o) {
			return sayNothing(o, name)
		}
		s := say{Mark: "waiting", Text: fmt.Sprintf("%s is planned: %s. Nothing was done yet.", name, some(o.Items, nounOf(o.Kind), nounOf(o.Kind)+"s"))}
		if first, rest := int64(o.Options.Canary), o.Items-int64(o.Options.Canary); o.Kind == dlq.OpRedrive && first > 0 && rest > 0 {
			s.More = fmt.Sprintf("Once it is started, %s first. If %s, the other %s without another click; if too many fail again, it halts by itself.", some(first, "message goes", "messages go"), theyArrive(first), some(rest, "goes", "go"))
		}
		return s
	case dlq.Canary:
		return say{Mark: "waiting", Text: fmt.Sprintf("%s: %s of the canary of %d arrived.", name, count(o.Delivered), o.Options.Canary),
			More: fmt.Sprintf("When the outcome of all of them is known, the other %s go. If too many fail again, it halts by itself.", count(max(o.Items-int64(o.Options.Canary), 0)))}
	case dlq.Running:
		if o.Kind == dlq.OpRedrive {
			return say{Mark: "waiting", Text: fmt.Sprintf("%s sends: %s of %s arrived.", name, count(o.Delivered), count(o.Items))}
		}
		return say{Mark: "waiting", Text: fmt.Sprintf("%s works: %s of %s are done.", name, count(o.Done), count(o.Items))}
	case dlq.Paused:
		return say{Mark: "held", Text: fmt.Sprintf("%s was halted by a person: %s left.", name, some(waiting, "is", "are")), More: "The operation waits for you: go on, or end it."}
	case dlq.Halted:
		return say{Mark: "held", Text: fmt.Sprintf("%s halted by itself: %s of the %s whose outcome is known failed again.", name, count(o.CameBack), count(known)),
			More: strings.TrimSpace(sentence(text(o.Error)) + fmt.Sprintf(" %s arrived. %s not been sent, and the operation waits for you.", count(o.Delivered), some(waiting, "has", "have")))}
	case dlq.Aborted:
		return sayAborted(o, name)
	}
	if o.Kind == dlq.OpRedrive {
		return sayCompletedRedrive(o, name)
	}
	if o.Done >= o.Items {
		return say{Mark: "fine", Text: fmt.Sprintf("%s is done: %s of %s.", name, count(o.Done), count(o.Items))}
	}
	closed := "closed"
	if o.Kind == dlq.OpPurge {
		closed = "removed"
	}
	were := "were"
	if o.Done == 1 {
		were = "was"
	}
	return say{Mark: "quiet", Text: fmt.Sprintf("%s ended: %s of %s %s %s, %s not.", name, count(o.Done), some(o.Items, "investigation", "investigations"), were, closed, some(o.Items-o.Done, "was", "were")),
		More: "The items say why."}
}

// sayCompletedRedrive is how a redrive stands that has ended by itself. Of some of its messages the outcome may not be known.
func sayCompletedRedrive(o *api.Operation, name string) say {
	if o.Delivered >= o.Items {
		return say{Mark: "fine", Text: fmt.Sprintf("%s is done: all %s arrived.", name, count(o.Items))}
	}
	onTheWay := max(o.Done-o.Delivered-o.CameBack, 0)
	s := say{Mark: "quiet", Text: fmt.Sprintf("%s ended: %s of %s arrived, %s failed again, %s not sent%s.", name, count(o.Delivered), count(o.Items), count(o.CameBack), some(o.Items-o.Done, "was", "were"), unknownYet(onTheWay)),
		More: "The items say what became of each, and why."}
	if o.CameBack > 0 || o.Delivered+onTheWay == 0 {
		s.Mark = "failing"
	}
	if onTheWay > 0 {
		if s.Mark == "quiet" {
			s.Mark = "waiting"
		}
		s.More += " An operation waits an hour for outcomes. What comes later is still counted here."
	}
	return s
}

// unknownYet says of how many messages of an operation that has ended the outcome is not known.
func unknownYet(n int64) string {
	if n == 0 {
		return ""
	}
	return ", " + some(n, "is", "are") + " still on the way"
}

// sayAborted is how an operation stands that a person has ended. It says nothing of the investigations that it left: others may
// have closed them.
func sayAborted(o *api.Operation, name string) say {
	switch {
	case o.StartedAt == nil:
		return say{Mark: "quiet", Text: name + " was ended before it began.", More: "Nothing of it was done."}
	case o.Kind != dlq.OpRedrive:
		return say{Mark: "quiet", Text: fmt.Sprintf("%s was ended: %s of %s were done.", name, count(o.Done), count(o.Items)), More: "What was done stays done."}
	}
	s := say{Mark: "quiet", Text: fmt.Sprintf("%s was ended: of %s, %s sent; %s arrived, %s failed again%s.", name, some(o.Items, "message", "messages"), some(o.Done, "was", "were"),
		count(o.Delivered), count(o.CameBack), unknownYet(max(o.Done-o.Delivered-o.CameBack, 0))), More: "What was sent stays sent."}
	if o.CameBack > 0 {
		s.Mark = "failing"
	}
	return s
}

// operationsView is the list of operations.
type operationsView struct {
	Operations []*operationView
	Open       bool
	Chips      []chip
	Next       string
	Exports    exports
}

func showOperations(v *visit) error {
	view := operationsView{Open: v.param("open") == "true"}
	q := url.Values{}
	for _, name := range []string{"open", "after"} {
		if value := v.param(name); value != "" {
			q.Set(name, value)
		}
	}
	found, err := list[api.List[api.Operation]](v, "/operations", q)
	if err != nil {
		return err
	}
	view.Exports = v.exports("/operations/export", q)
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
	o, err := get[api.OperationDetail](v, "/operations/"+v.id(), nil)
	if err != nil {
		return err
	}
	view := viewOperation(o.Operation)
	view.Happened = happenings(o)
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
	view.Exports = v.exports("/operations/"+v.id()+"/export", q)
	if items.Next != nil {
		view.More = v.with("after", *items.Next)
	}
	for _, state := range append([]string{""}, api.ItemStates()...) {
		name := "All"
		if state != "" {
			name = itemWords(o.Operation, api.OperationItem{State: state}).Word
		}
		view.Tabs = append(view.Tabs, chip{Name: name, Path: v.with("state", state, "outcome", "", "after", ""), On: state == view.Picked && v.param("outcome") == ""})
	}
	if o.Kind == dlq.OpRedrive {
		for _, outcome := range []string{dlq.ItemDelivered, dlq.ItemCameBack} {
			view.Tabs = append(view.Tabs, chip{Name: statusWords(outcome).Word, Path: v.with("state", "", "outcome", outcome, "after", ""), On: outcome == v.param("outcome")})
		}
	}
	if o.Scope.Group != nil {
		if view.Cause, err = v.titleOf(o.Scope.Group.String()); err != nil {
			return err
		}
	}
	v.frame.Actions = needs(o.Kind)
	if err := cmp.Or(v.skipped(view), v.warnTooLarge(view)); err != nil {
		return err
	}
	v.frame.under(crumb{"Operations", "/operations"}, clip(o.Name, 80))
	v.frame.View = view
	return nil
}

// itemWords are the mark and the word of an item. An item whose turn never comes does not wait.
func itemWords(o api.Operation, i api.OperationItem) stateWords {
	switch {
	case i.Outcome != nil:
		return statusWords(*i.Outcome)
	case i.State == dlq.ItemWaiting && o.State.Ended():
		return stateWords{"quiet", "quiet", "Left out"}
	}
	return statusWords(i.State)
}

// happening is a line of what happened to an operation. Who is empty where no person did it; Why is what the person said.
type happening struct {
	At             time.Time
	Who, What, Why string
}

// happenings are what people did with an operation and what it did itself, the newest first.
func happenings(o api.OperationDetail) []happening {
	var out []happening
	said := map[string]string{"plan": "planned it", "start": "started it", "pause": "halted it", "resume": "let it go on", "abort": "ended it"}
	for _, c := range o.Commands {
		what := cmp.Or(said[c.Command], c.Command)
		if c.Halted != nil {
			what += ", after it had halted by itself: " + *c.Halted
		}
		out = append(out, happening{c.At, c.Actor, what, text(c.Reason)})
	}
	if o.FinishedAt != nil && o.State != dlq.Aborted {
		out = append(out, happening{At: *o.FinishedAt, What: "It ended"})
	}
	if o.State == dlq.Halted {
		out = append(out, happening{At: o.UpdatedAt, What: "It halted by itself: " + text(o.Error)})
	}
	if o.TreatedAt != nil {
		out = append(out, happening{At: *o.TreatedAt, What: "The last item was processed"})
	}
	slices.SortStableFunc(out, func(a, b happening) int { return b.At.Compare(a.At) })
	return out
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
		v.say("%s", map[string]string{"start": "It is started.", "pause": "It is halted.", "resume": "It goes on.", "abort": "It is ended. What it had not done stays as it was."}[verb])
	}
	return back, err
}
