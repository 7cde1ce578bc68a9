package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

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
	return s.Access.Look(ctx, "payload.reveal", "task", id.String(), access.Sources{dlq.MainSource}, map[string]any{"reason": why})
}

// revealTask shows what a task carries. Who looked is in the audit log before it is shown.
func (s *Services) revealTask(ctx context.Context, r *Request) (any, error) {
	id, why, err := revealing(r)
	if err != nil {
		return nil, err
	}
	whole, err := s.Tasks.Whole(ctx, id)
	if err != nil {
		return s.elsewhere(ctx, id, "/payload", err)
	}
	return api.WholeTaskOf(whole), s.lookedAt(ctx, id, why)
}

// revealArchivedTask is revealTask, of one in the archive.
func (s *Services) revealArchivedTask(ctx context.Context, r *Request) (any, error) {
	id, why, err := revealing(r)
	if err != nil {
		return nil, err
	}
	whole, err := ledger.ReadArchived(ctx, s.Archive, id)
	if err != nil {
		return nil, err
	}
	return api.WholeTaskOf(whole), s.lookedAt(ctx, id, why)
}
