package console

import (
	"fmt"
	"maps"
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
	// All are the newest operations of the group, 50 at least where it has so many, the newest first.
	All []api.Operation
}

// roadStep is a step of it. State is done, now, ended or empty. Held says that it was halted, Failed that messages failed again in it.
type roadStep struct {
	Number       int
	Name, Fact   string
	State        string
	Held, Failed bool
}

// roadSteps are the steps of an operation; without one, the first is next.
func roadSteps(o *api.Operation) []roadStep {
	steps := []roadStep{{Name: "Fix", Fact: "mend the cause first"}, {Name: "Plan", Fact: "what will be sent, where and how fast"}, {Name: "Canary", Fact: "a few go first"},
		{Name: "Send", Fact: "the others"}, {Name: "Confirmed", Fact: "each investigation closes when its message arrives"}}
	if o == nil {
		return numbered(steps, 0, false)
	}
	canary := int64(o.Options.Canary)
	waiting := max(o.Items-o.Done-o.Skipped-o.Failed, 0)
	begun, ended, behind := o.StartedAt != nil, o.State.Ended(), o.Done > canary
	if o.Options.Repair() != nil {
		steps[0].Fact = "headers that cannot be read are replaced"
	} else {
		steps[0].Fact = "sent as they are"
	}
	steps[1].Fact = some(o.Plan.Items, "message", "messages")
	if o.Plan.Keys > 0 {
		steps[1].Fact += ", " + some(o.Plan.Keys, "key", "keys")
	}
	steps[4].Fact = fmt.Sprintf("%s of %s arrived", count(o.Delivered), count(o.Items))
	var at int
	switch {
	case !begun:
		at = 1
	case canary > 0 && (ended && o.Done == 0 || waiting > 0 && !behind && o.State != dlq.Running):
		at = 2
	case waiting > 0 || ended && o.Done == 0:
		at = 3
	case o.State == dlq.Completed && o.Items == o.Delivered:
		at = 5
	default:
		at = 4
	}
	switch {
	case canary == 0:
		steps[2].Fact = "none was asked for"
	case at < 2:
		steps[2].Fact = fmt.Sprintf("%d go first", canary)
	case !behind && o.CameBack > 0:
		steps[2].Fact = fmt.Sprintf("%s of %d arrived, %s failed again", count(o.Delivered), canary, count(o.CameBack))
	case !behind || o.CameBack == 0:
		steps[2].Fact = fmt.Sprintf("%s of %d arrived", count(min(o.Delivered, canary)), canary)
	default: // which of them failed is not counted apart from the others
		steps[2].Fact = fmt.Sprintf("%d were sent first", canary)
	}
	switch sent := max(o.Done-canary, 0); {
	case at < 3 && !ended:
		steps[3].Fact = some(min(waiting, max(o.Items-canary, 0)), "waits", "wait") // the canary is counted in its own step
	case at == 3 && !ended:
		steps[3].Fact = fmt.Sprintf("%s sent, %s", count(sent), some(waiting, "waits", "wait"))
	default:
		steps[3].Fact = fmt.Sprintf("%s sent", count(sent))
	}
	steps = numbered(steps, at, o.State == dlq.Halted || o.State == dlq.Paused || sendsNothing(o))
	if o.Options.Repair() == nil {
		steps[0].State = "" // to send a message as it is mends nothing
	}
	if at < 5 && ended {
		steps[at].State = "ended"
	}
	if at < 5 && (o.State == dlq.Halted || ended) {
		steps[at].Failed = o.CameBack > 0
	}
	if canary > 0 && at > 2 && o.Delivered == 0 && o.CameBack > 0 {
		steps[2].Failed = true
	}
	return steps
}

// numbered gives steps their numbers and states: steps before at are done, and the step at is now.
func numbered(steps []roadStep, at int, held bool) []roadStep {
	for i := range steps {
		steps[i].Number = i + 1
		switch {
		case i < at:
			steps[i].State = "done"
		case i == at:
			steps[i].State, steps[i].Held = "now", held
		}
	}
	return steps
}

// roadOf is the road of a group. Its operation is the newest one of the rank that roadRank puts first.
func (v *visit) roadOf(g api.Group) (road, error) {
	var of []api.Operation
	var first *api.Operation
	best := 0
	q := url.Values{"group": {g.UUID.String()}, "page_size": {"50"}}
	for more := true; more && best < 2; { // plans that were never started may be newer than the one that did the work
		found, err := get[api.List[api.Operation]](v, "/operations", q)
		if err != nil {
			return road{}, err
		}
		for i := range found.Items {
			if rank := roadRank(&found.Items[i], g.Pending); rank > best {
				first, best = &found.Items[i], rank
			}
		}
		of = append(of, found.Items...)
		if more = found.Next != nil; more {
			q.Set("after", *found.Next)
		}
	}
	if first == nil {
		return road{Steps: roadSteps(nil), All: of}, nil
	}
	view := viewOperation(*first)
	if first.State == dlq.Planned && isTooLarge(g.Parts.ErrorCode) {
		view.Say.foretell(tooLargeText(first.Items, "", text(g.Topic), first.Options.Target))
	}
	if first.State.Ended() && g.Pending > 0 {
		return road{Steps: roadSteps(nil), Operation: view, All: of}, nil // what is still open has the road before it
	}
	return road{Steps: view.Road, Operation: view, All: of}, nil
}

// roadRank says how well an operation tells where the redrive of a group stands: the one that is under way, then the plan that
// can be started, then the one that has just done something. A plan of a group without anything open has nothing to tell. What was
// sent of such a group stays: it is the proof that its messages arrived. 0 is never shown.
func roadRank(o *api.Operation, pending int64) int {
	lately := o.FinishedAt != nil && time.Since(*o.FinishedAt) < 10*time.Minute
	switch {
	case o.Kind != dlq.OpRedrive:
		return 0
	case !o.State.Ended() && o.StartedAt != nil:
		return 4
	case !o.State.Ended() && pending > 0 && !sendsNothing(o):
		return 3
	case o.State.Ended() && o.Done > 0 && (lately || pending == 0):
		return 2
	case pending > 0 && (!o.State.Ended() || lately):
		return 1
	}
	return 0
}

// sendsNothing reports whether a planned redrive would skip all its messages: as the plan foresaw, or because it has no headers
// for them.
func sendsNothing(o *api.Operation) bool {
	return o.Kind == dlq.OpRedrive && o.State == dlq.Planned && o.Items > 0 && (o.Plan.SkipsAll() || o.Options.Repair() == nil && o.Plan.Unreadable >= o.Items)
}

// unreadable is how many messages a plan skips because of their headers. Where it did not look at each one, it is how many have
// headers that cannot be read.
func unreadable(o *api.Operation) int64 {
	if o.Plan.Foreseen < o.Items {
		return o.Plan.Unreadable
	}
	return o.Plan.LeftOut[dlq.UnreadableHeaders]
}

// sayNothing is how a plan stands that would send nothing, with the reasons; that all of it is closed comes before its headers.
func sayNothing(o *api.Operation, name string) say {
	because := func(why, more string) say {
		return say{Mark: "held", Text: fmt.Sprintf("%s would send nothing: %s.", name, why), More: more}
	}
	switch {
	case o.Plan.LeftOut[dlq.NotPending] >= o.Items:
		return because(some(o.Items, "investigation, and it is closed", "investigations, and all are closed"), "What is closed is not sent again.")
	case unreadable(o) >= o.Items:
		return because(fmt.Sprintf("the headers of all %s cannot be read", count(o.Items)), "Plan again, and say which headers they are sent with.")
	}
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(o.Plan.LeftOut)) {
		why = append(why, count(o.Plan.LeftOut[reason])+": "+whySkipped(reason))
	}
	return because(fmt.Sprintf("all %s would be skipped", count(o.Items)), strings.Join(why, " "))
}

// again is the address of the form for a new plan of the same group, with what this one had. A plan that has not been started
// ends when the new one is made.
func again(o *api.Operation) string {
	if o.Kind != dlq.OpRedrive || o.Scope.Group == nil {
		return ""
	}
	q := url.Values{"kind": {string(o.Kind)}, "group": {o.Scope.Group.String()}, "why": {text(o.Reason)}, "target": {o.Options.Target},
		"canary": {strconv.Itoa(o.Options.Canary)}, "rate": {strconv.FormatFloat(o.Options.Rate, 'f', -1, 64)}}
	if o.State == dlq.Planned {
		q.Set("instead", o.UUID.String())
	}
	return "/plan?" + q.Encode()
}

// endInstead ends the plan that a new one stands in for. One that was started meanwhile goes on, and the person hears who has
// done what.
func (v *visit) endInstead(id string) error {
	path := "/operations/" + url.PathEscape(id)
	ended, err := ask[api.Operation](v, http.MethodPost, path+"/abort", nil, map[string]any{"reason": "planned again", "only_planned": true})
	if err == nil {
		v.say("The plan %s is ended: this one stands in for it.", quoted(ended.Name))
		return nil
	}
	if told(err).Code != httpapi.Conflict {
		return err
	}
	now, failed := get[api.OperationDetail](v, path, nil)
	if failed != nil {
		return err
	}
	return &httpapi.Error{Code: httpapi.Conflict, Message: fmt.Sprintf("This plan is made beside %s, which was to end: %s.", quoted(now.Name), lastDone(now))}
}

// lastDone says what was done with an operation last, and by whom.
func lastDone(o api.OperationDetail) string {
	done := happenings(o)
	if len(done) == 0 {
		return "it is " + strings.ToLower(statusWords(o.State).Word)
	}
	return strings.TrimSpace(oneLine(done[0].Who, 100)+" "+oneLine(done[0].What, 300)) + " at " + done[0].At.UTC().Format("15:04:05 UTC")
}
