package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

func (s *Services) listArchive(ctx context.Context, r *Request) (any, error) {
	p, err := s.page(r)
	if err != nil {
		return nil, err
	}
	byNumber, err := r.text("page")
	if err != nil {
		return nil, err
	}
	f := ledger.ArchiveFilter{Limit: p.Size, Offset: p.Offset}
	if f.Namespace, err = r.text("namespace"); err != nil {
		return nil, err
	}
	if f.Name, err = r.text("name"); err != nil {
		return nil, err
	}
	if f.FinalState, err = oneOf(r, "final_state", "", ledger.FinalStates()...); err != nil {
		return nil, err
	}
	if f.Before, err = r.archivePlace("after"); err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	if f.Name != "" && f.Namespace == "" {
		return nil, refuse(Validation, "name goes with namespace")
	}
	if f.Before != nil && p.Offset > 0 {
		return nil, refuse(Validation, "give after, or page or offset, not both")
	}
	tasks, more, err := s.Archive.List(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.NewArchivedTaskList(hidden(s.hideTask, tasks), more)
	if byNumber != "" {
		out.Page, out.PageSize = &p.Page, &p.Size
	}
	return out, nil
}

// archivePlace reads where a page of the archive begins: the next of the page before.
func (r *Request) archivePlace(name string) (*ledger.TaskPlace, error) {
	text, err := r.text(name)
	if err != nil || text == "" {
		return nil, err
	}
	place, err := ledger.ParseTaskPlace(text)
	if err != nil {
		return nil, notAPlace(name, text)
	}
	return &place, nil
}

func (s *Services) archiveStatistics(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	stats, err := s.Archive.Statistics(ctx)
	return api.All(api.ArchiveStatisticsOf, stats), err
}

func (s *Services) archivedTask(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	t, err := s.Archive.Task(ctx, id)
	s.hideTask(&t)
	return api.TaskOf(t), err
}

func (s *Services) archivedStep(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	step, err := r.id("step")
	if err != nil {
		return nil, err
	}
	found, err := s.Archive.Step(ctx, id, step)
	s.hideStep(&found)
	return api.StepOf(found), err
}

func ofArchived[T any](ctx context.Context, r *Request, read func(context.Context, *Request) (uuid.UUID, api.List[T], error)) (any, error) {
	_, found, err := read(ctx, r)
	return found, err
}

func (s *Services) archivedSteps(ctx context.Context, r *Request) (any, error) {
	return ofArchived(ctx, r, reading(s.hideStep, api.StepOf, s.Archive.Steps))
}

func (s *Services) archivedTransitions(ctx context.Context, r *Request) (any, error) {
	return ofArchived(ctx, r, readingPage(s, s.hideTransition, api.TransitionOf, s.Archive.Transitions))
}

func (s *Services) archivedStepTransitions(ctx context.Context, r *Request) (any, error) {
	return ofArchived(ctx, r, readingPage(s, s.hideStepTransition, api.StepTransitionOf, s.Archive.StepTransitions))
}
