package console

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// historyShown is how many changes of a task and its steps a page lists.
const historyShown = 20

// history is a page of the changes of a task and its steps, the newest first. Older and Newest are addresses of other pages;
// empty for none.
type history struct {
	Changes       []change
	Older, Newest string
}

// change is a line of the history of a task.
type change struct {
	At   time.Time
	Mark string
	// What moved where; Why is the reason, Who the actor.
	What, Why, Who string
}

// readHistory reads the page of the history that the address names: it has the place in each of the two lists of the API.
func (v *visit) readHistory(path string) (h history, err error) {
	at, stepAt := v.param("moves"), v.param("step_moves")
	var moves api.List[ledger.Transition]
	var stepMoves api.List[ledger.StepTransition]
	err = together(
		into(&moves, func() (api.List[ledger.Transition], error) {
			return historyPage[ledger.Transition](v, path+"/transitions", at)
		}),
		into(&stepMoves, func() (api.List[ledger.StepTransition], error) {
			return historyPage[ledger.StepTransition](v, path+"/step_transitions", stepAt)
		}),
	)
	if err != nil {
		return h, err
	}
	all, steps := moves.Items, stepMoves.Items
	for len(h.Changes) < historyShown && len(all)+len(steps) > 0 {
		if len(steps) == 0 || len(all) > 0 && !all[0].CreatedAt.Before(steps[0].CreatedAt) {
			m := all[0]
			h.Changes = append(h.Changes, newChange(m.CreatedAt, "The task", m.FromState, m.ToState, m.Metadata))
			at, all = strconv.Itoa(m.SortKey), all[1:]
			continue
		}
		m := steps[0]
		h.Changes = append(h.Changes, newChange(m.CreatedAt, "Step "+clip(m.StepName, 80), m.FromStatus, m.ToStatus, m.Metadata))
		stepAt, steps = m.Place, steps[1:]
	}
	if len(all)+len(steps) > 0 || moves.Next != nil || stepMoves.Next != nil {
		h.Older = v.with("moves", at, "step_moves", stepAt) + "#history"
	}
	if v.param("moves")+v.param("step_moves") != "" {
		h.Newest = v.with("moves", "", "step_moves", "") + "#history"
	}
	return h, nil
}

// historyPage reads as many changes of a list as a page may have, behind a place; empty for the newest.
func historyPage[T any](v *visit, path, after string) (api.List[T], error) {
	q := url.Values{"page_size": {strconv.Itoa(historyShown)}}
	if after != "" {
		q.Set("after", after)
	}
	return get[api.List[T]](v, path, q)
}

func newChange(at time.Time, what string, from *string, to string, metadata json.RawMessage) change {
	var m struct{ Actor, Reason, Notes any }
	_ = json.Unmarshal(metadata, &m) // what callers add may have any shape
	c := change{At: at, What: what + ": " + text(from) + " → " + to}
	if from == nil {
		c.What = what + " begins: " + to
	}
	if why, is := cmp.Or(m.Notes, m.Reason).(string); is {
		c.Why = why
	}
	if who, is := m.Actor.(string); is {
		c.Who = who
	}
	return c
}
