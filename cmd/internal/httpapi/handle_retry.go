package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// retryTasks puts tasks back to their beginning: the named ones, or a portion of the tasks of a cause or of a filter.
func (s *Services) retryTasks(ctx context.Context, r *Request) (any, error) {
	began := time.Now()
	var b retryTasksBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	if err := r.saysWhich("group", "filter"); err != nil {
		return nil, err
	}
	switch {
	case !api.ExactlyOne(b.IDs != nil, b.Group != nil, b.Filter != nil):
		return nil, refuse(Validation, "give one of ids, group and filter")
	case b.Filter != nil && *b.Filter == (api.TaskFilter{}):
		return nil, refuse(Validation, "filter is empty; it must say which failed tasks are retried")
	case b.IDs != nil && b.After != "":
		return nil, refuse(Validation, "after goes with group or filter, not with ids")
	}
	ids, next, err := s.tasksToRetry(ctx, &b)
	if err != nil {
		return nil, err
	}
	done, err := s.Tasks.RetryMany(ctx, ids, r.Actor.Name, b.DryRun)
	if err != nil && len(done.Tasks) == 0 {
		return nil, err
	}
	if err != nil { // what was done stays done, and is not retryable any more when the same tasks are asked for again
		next = b.After
		s.log.Error("the retry of many tasks was cut short", "err", err, "request_id", r.Actor.RequestID)
	}
	s.say("task.retry", began, "retried", len(done.Tasks), "skipped", len(done.Skipped), "dry_run", b.DryRun, "actor", r.Actor.Name, "request_id", r.Actor.RequestID)
	return api.NewRetriedTasks(done, b.DryRun, err != nil, next), nil
}

// tasksToRetry finds the tasks of a request, and where the next request goes on; empty where that is all.
func (s *Services) tasksToRetry(ctx context.Context, b *retryTasksBody) (ids []uuid.UUID, next string, err error) {
	switch {
	case b.IDs != nil:
		ids, err = distinctIDs(b.IDs, s.RequeueLimit)
		return ids, "", err
	case b.Group != nil:
		if err := dlq.CheckSeen(ctx, s.Investigations, dlq.AGroup, *b.Group); err != nil {
			return nil, "", err
		}
		page, err := s.Investigations.GroupTasks(ctx, dlq.GroupTasks{Group: *b.Group, After: b.After, Limit: s.RequeueLimit})
		return page.Tasks, page.Next, err
	}
	f, err := b.Filter.Parse()
	if err != nil {
		return nil, "", refuseField("filter.", err)
	}
	if b.After != "" {
		if f.After, err = parseID("after", b.After); err != nil {
			return nil, "", err
		}
	}
	f.Limit = s.RequeueLimit
	ids, more, err := s.Tasks.Ledger().Retryable(ctx, f)
	if more {
		next = ids[len(ids)-1].String()
	}
	return ids, next, err
}
