package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

// wholeTask is a task with all that it has, unredacted.
type wholeTask[Task, Step, Transition, StepTransition any] struct {
	Task            Task             `json:"task"`
	Steps           []Step           `json:"workflow_steps"`
	Transitions     []Transition     `json:"transitions"`
	StepTransitions []StepTransition `json:"step_transitions"`
}

// reader reads the parts of a task that are asked for; the first error stays.
type reader struct {
	ctx context.Context
	id  uuid.UUID
	err error
}

func readAll[T any](r *reader, read func(context.Context, uuid.UUID) ([]T, error)) []T {
	if r.err != nil {
		return nil
	}
	var all []T
	all, r.err = read(r.ctx, r.id)
	return notNull(all)
}

// revealing is the task of a request that wants to see it whole, and why.
func revealing(r *Request) (id uuid.UUID, why string, err error) {
	if id, err = r.id("id"); err != nil {
		return id, "", err
	}
	if why, err = r.text("why"); err != nil {
		return id, "", err
	}
	return id, why, r.unread()
}

// lookedAt writes into the audit log who is about to see a task whole.
func (s *Services) lookedAt(ctx context.Context, id uuid.UUID, why string) error {
	return s.Access.Look(ctx, "payload.reveal", "task", id.String(), map[string]any{"reason": why})
}

// revealTask shows what a task carries. Who looked is in the audit log before it is shown.
func (s *Services) revealTask(ctx context.Context, r *Request) (any, error) {
	id, why, err := revealing(r)
	if err != nil {
		return nil, err
	}
	l := s.Tasks.Ledger()
	t, err := l.Task(ctx, id)
	if err != nil {
		return s.elsewhere(ctx, id, "/payload", err)
	}
	of := reader{ctx: ctx, id: id}
	whole := wholeTask[ledger.Task, ledger.Step, ledger.Transition, ledger.StepTransition]{
		t, readAll(&of, l.Steps), readAll(&of, l.Transitions), readAll(&of, l.StepTransitions),
	}
	if of.err != nil {
		return nil, of.err
	}
	return whole, s.lookedAt(ctx, id, why)
}

// revealArchivedTask is revealTask, of one in the archive.
func (s *Services) revealArchivedTask(ctx context.Context, r *Request) (any, error) {
	id, why, err := revealing(r)
	if err != nil {
		return nil, err
	}
	t, err := s.Archive.Task(ctx, id)
	of := reader{ctx: ctx, id: id, err: err}
	whole := wholeTask[ledger.ArchivedTask, ledger.ArchivedStep, ledger.ArchivedTransition, ledger.ArchivedStepTransition]{
		t, readAll(&of, s.Archive.Steps), readAll(&of, s.Archive.Transitions), readAll(&of, s.Archive.StepTransitions),
	}
	if of.err != nil {
		return nil, of.err
	}
	return whole, s.lookedAt(ctx, id, why)
}
