package httpapi

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// Data that people put into tasks is shown as the rules of redaction say, in investigations and here alike: the context, the
// inputs and results of steps, and metadata. revealTask shows it whole.

// hide hides the parts of a value that a rule names, from the value as root or from the object that has it as member name.
func (s *Services) hide(name string, value *json.RawMessage) {
	if s.Redactor == nil || len(*value) == 0 {
		return
	}
	whole := json.RawMessage(`{"` + name + `":` + string(*value) + `}`)
	var shown map[string]json.RawMessage
	if json.Unmarshal(s.Redactor.JSON(whole, name), &shown) != nil { // it could not be searched
		shown = map[string]json.RawMessage{name: json.RawMessage(`"` + dlq.Redacted + `"`)}
	}
	*value = shown[name]
}

func (s *Services) hideTask(t *ledger.Task) {
	s.hide("context", &t.Context)
	s.hide("metadata", &t.Metadata)
}

func (s *Services) hideStep(t *ledger.Step) {
	s.hide("inputs", &t.Inputs)
	s.hide("results", &t.Results)
}

func (s *Services) hideTransition(t *ledger.Transition)         { s.hide("metadata", &t.Metadata) }
func (s *Services) hideStepTransition(t *ledger.StepTransition) { s.hide("metadata", &t.Metadata) }

// hidden is what was read, each as it may be shown.
func hidden[T any](hide func(*T), all []T) []T {
	for i := range all {
		hide(&all[i])
	}
	return all
}

// reading lists what a task has, as it may be shown. The id is that of the task; uuid.Nil where the request is refused.
func reading[T any](hide func(*T), show func(T) T, read func(context.Context, uuid.UUID) ([]T, error)) func(context.Context, *Request) (uuid.UUID, api.List[T], error) {
	return func(ctx context.Context, r *Request) (id uuid.UUID, list api.List[T], err error) {
		if id, err = r.only("id"); err != nil {
			return uuid.Nil, list, err
		}
		all, err := read(ctx, id)
		return id, api.All(show, hidden(hide, all)), err
	}
}

// readingPage is reading, of a page of a history.
func readingPage[T any](s *Services, hide func(*T), show func(T) T, read func(context.Context, uuid.UUID, ledger.HistoryPage) ([]T, string, error)) func(context.Context, *Request) (uuid.UUID, api.List[T], error) {
	return func(ctx context.Context, r *Request) (id uuid.UUID, list api.List[T], err error) {
		var p ledger.HistoryPage
		if p.Limit, err = s.size(r); err == nil {
			p.After, err = r.text("after")
		}
		if err == nil {
			id, err = r.only("id")
		}
		if err != nil {
			return uuid.Nil, list, err
		}
		found, next, err := read(ctx, id, p)
		list = api.All(show, hidden(hide, found))
		list.Next = api.OrNull(next)
		return id, list, err
	}
}

// shownTask reads a task as it may be shown.
func (s *Services) shownTask(ctx context.Context, id uuid.UUID) (ledger.Task, error) {
	t, err := s.Tasks.Ledger().Task(ctx, id)
	s.hideTask(&t)
	return api.TaskOf(t), err
}
