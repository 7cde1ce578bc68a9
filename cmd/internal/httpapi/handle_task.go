package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

func (s *Services) listTasks(ctx context.Context, r *Request) (any, error) {
	p, err := s.page(r)
	if err != nil {
		return nil, err
	}
	byNumber, err := r.text("page")
	if err != nil {
		return nil, err
	}
	var asked api.TaskFilter
	if err := r.texts(api.Fields(&asked)); err != nil {
		return nil, err
	}
	f, err := asked.Parse()
	if err != nil {
		return nil, refuseField("parameter ", err)
	}
	f.Limit, f.Offset = p.Size, p.Offset
	if f.After, err = r.uuid("after"); err != nil {
		return nil, err
	}
	flagged, err := oneOf(r, "flagged", "", "true", "false")
	if err != nil {
		return nil, err
	}
	nearStale, err := oneOf(r, "near_stale", "", "true", "false")
	if err != nil {
		return nil, err
	}
	f.Flagged, f.NearStale = flagged == "true", nearStale == "true"
	if err := r.unread(); err != nil {
		return nil, err
	}
	if f.After != uuid.Nil && p.Offset > 0 {
		return nil, refuse(Validation, "give after, or page or offset, not both")
	}
	tasks, more, err := s.Tasks.Ledger().List(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.NewTaskList(hidden(s.hideTask, tasks), more)
	if byNumber != "" {
		out.Page, out.PageSize = &p.Page, &p.Size
	}
	return out, nil
}

func (s *Services) createTask(ctx context.Context, r *Request) (any, error) {
	var b createTaskBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	switch {
	case b.Namespace == "" || b.Name == "":
		return nil, refuse(Validation, "namespace_name and task_name are required; GET %s/templates lists them", r.Prefix)
	case b.Priority < -1<<31 || b.Priority > 1<<31-1:
		return nil, refuse(Validation, "priority is %d; it must be a 32-bit number", b.Priority)
	}
	n := ledger.NewTask{Namespace: b.Namespace, Name: b.Name, Version: b.Version, Context: unlessNull(b.Context), Priority: b.Priority,
		Steps: unlessNull(b.Steps), IdempotencyKey: b.IdempotencyKey, Actor: r.Actor.Name}
	if b.UUID != nil {
		n.UUID = *b.UUID
	}
	id, err := s.Tasks.Create(ctx, n)
	if err != nil {
		return nil, err
	}
	t, err := s.shownTask(ctx, id)
	return Created{t}, err
}

// createdTask answers for a task that was created under an Idempotency-Key when the answer was lost.
func (s *Services) createdTask(ctx context.Context, _ *Request, lost *access.LostError) (any, error) {
	id, err := uuid.Parse(lost.TargetID)
	if err != nil {
		return nil, refuse(Conflict, "%s", lost)
	}
	t, err := s.shownTask(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) { // archived since
		return nil, refuse(Conflict, "%s", lost)
	}
	return Created{t}, err
}

// unlessNull is nothing for a JSON null.
func unlessNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// elsewhere says where a task is that the ledger does not have: in the archive, or nowhere.
func (s *Services) elsewhere(ctx context.Context, id uuid.UUID, rest string, err error) (any, error) {
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	archived, err := s.Archive.Contains(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case archived:
		return Moved{To: "/archive/tasks/" + id.String() + rest}, nil
	}
	return nil, refuse(NotFound, "there is no task %s", id)
}

func (s *Services) getTask(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	l := s.Tasks.Ledger()
	if _, err := l.ArchiveOnRead(ctx, id); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	t, err := s.shownTask(ctx, id)
	if err != nil {
		return s.elsewhere(ctx, id, "", err)
	}
	return t, nil
}

// ofTask answers with what a task has. None may mean that there is no task.
func ofTask[T any](ctx context.Context, s *Services, r *Request, rest string, read func(context.Context, *Request) (uuid.UUID, api.List[T], error)) (any, error) {
	id, found, err := read(ctx, r)
	if err != nil && id == uuid.Nil {
		return nil, err
	}
	if err == nil && len(found.Items) == 0 {
		_, err = s.Tasks.Ledger().Task(ctx, id)
	}
	if err != nil {
		return s.elsewhere(ctx, id, rest, err)
	}
	return found, nil
}

func (s *Services) taskSteps(ctx context.Context, r *Request) (any, error) {
	return ofTask(ctx, s, r, "/workflow_steps", reading(s.hideStep, api.StepOf, s.Tasks.Ledger().Steps))
}

func (s *Services) taskTransitions(ctx context.Context, r *Request) (any, error) {
	return ofTask(ctx, s, r, "/transitions", readingPage(s, s.hideTransition, api.TransitionOf, s.Tasks.Ledger().Transitions))
}

func (s *Services) taskStepTransitions(ctx context.Context, r *Request) (any, error) {
	return ofTask(ctx, s, r, "/step_transitions", readingPage(s, s.hideStepTransition, api.StepTransitionOf, s.Tasks.Ledger().StepTransitions))
}

func (s *Services) taskStep(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	step, err := r.id("step")
	if err != nil {
		return nil, err
	}
	found, err := s.shownStep(ctx, id, step)
	if err != nil {
		return s.elsewhere(ctx, id, "/workflow_steps/"+step.String(), err)
	}
	return found, nil
}

// shownStep reads a step as it may be shown.
func (s *Services) shownStep(ctx context.Context, id, step uuid.UUID) (ledger.Step, error) {
	steps, err := s.Tasks.Ledger().Steps(ctx, id)
	if err == nil && len(steps) == 0 {
		_, err = s.Tasks.Ledger().Task(ctx, id)
	}
	if err != nil {
		return ledger.Step{}, err
	}
	for _, one := range steps {
		if one.UUID == step {
			s.hideStep(&one)
			return api.StepOf(one), nil
		}
	}
	return ledger.Step{}, refuse(NotFound, "task %s has no step %s", id, step)
}

func (s *Services) actOnStep(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	step, err := r.id("step")
	if err != nil {
		return nil, err
	}
	var b actOnStepBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	a := ledger.StepAction{Action: ledger.Action(strings.ReplaceAll(b.Action, "-", "_")), Notes: b.Notes, Actor: r.Actor.Name, Results: unlessNull(b.Results)}
	switch a.Action {
	case ledger.ActionRetry, ledger.ActionResetRetryCount, ledger.ActionCancel, ledger.ActionCompleteManually:
	default:
		return nil, refuse(Validation, "action is %q; it must be retry, reset_retry_count, cancel or complete_manually", shown(b.Action))
	}
	if _, err := s.Tasks.ActOnStep(ctx, id, step, a); err != nil {
		return nil, err
	}
	t, err := s.shownTask(ctx, id)
	if err != nil {
		return nil, err
	}
	now, err := s.shownStep(ctx, id, step)
	return api.TreatedStep{Step: now, TaskState: t.State}, err
}

func (s *Services) retryTask(ctx context.Context, r *Request) (any, error) {
	id, err := r.bare("id")
	if err != nil {
		return nil, err
	}
	retried, err := s.Tasks.Retry(ctx, id, r.Actor.Name)
	if err != nil {
		return nil, err
	}
	return api.NewRetriedTask(id, retried), nil
}

func (s *Services) cancelTask(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b cancelTaskBody
	if err := r.optional(&b); err != nil {
		return nil, err
	}
	cancelled, err := s.Tasks.Cancel(ctx, id, r.Actor.Name, b.Notes)
	if err != nil {
		return nil, err
	}
	t, err := s.shownTask(ctx, id)
	return api.CancelledTask{Cancelled: cancelled, Task: t}, err
}

func (s *Services) deadLetterTask(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b deadLetterTaskBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	letter, err := s.Tasks.DeadLetter(ctx, id, b.Reason, r.Actor.Name)
	if err != nil {
		return nil, err
	}
	return api.DeadLetteredTask{TaskUUID: id, EventID: letter}, nil
}

func (s *Services) unflagTask(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b unflagTaskBody
	if err := r.optional(&b); err != nil {
		return nil, err
	}
	unflagged, err := s.Tasks.Unflag(ctx, id, r.Actor.Name, b.Notes)
	if err != nil {
		return nil, err
	}
	t, err := s.shownTask(ctx, id)
	return api.UnflaggedTask{Unflagged: unflagged, Task: t}, err
}
