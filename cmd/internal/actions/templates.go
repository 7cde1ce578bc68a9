package actions

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/tasks/task"
)

// AppliedTemplate is what became of a template that was put into the database.
type AppliedTemplate struct {
	// UUID is the id of this version of the template.
	UUID uuid.UUID `json:"named_task_uuid"`
	// Template is namespace/name@version.
	Template string `json:"template"`
	// Outcome is new, changed or same.
	Outcome ledger.Applied `json:"outcome"`
}

// ApplyTemplates puts templates into the database, with their namespaces: all of them or none.
func (t *Tasks) ApplyTemplates(ctx context.Context, actor string, all ...*task.Template) (done []AppliedTemplate, err error) {
	if err := named(actor); err != nil {
		return nil, err
	}
	err = t.cfg.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		done = make([]AppliedTemplate, 0, len(all))
		for _, n := range all {
			id, outcome, err := postgres.On(tx).ApplyTemplate(ctx, n)
			if err != nil {
				return fmt.Errorf("apply template %s: %w", n, err)
			}
			done = append(done, AppliedTemplate{id, n.String(), outcome})
			if outcome == ledger.AppliedSame { // nothing was changed
				continue
			}
			if err := t.cfg.Auditor.Audit(ctx, tx, actor, "template.apply", "template", n.String(), own, map[string]any{"outcome": outcome}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// ApplyNamespace says what holds for all templates of a namespace; nil and "" stay as they are.
func (t *Tasks) ApplyNamespace(ctx context.Context, actor, name string, lifecycle *task.Lifecycle, description string) error {
	return t.change(ctx, actor, "namespace.apply", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		_, err := l.ApplyNamespace(ctx, name, lifecycle, description)
		return target{"namespace", name}, map[string]any{"lifecycle": lifecycle != nil, "description": description != ""}, err
	})
}

// PauseEngine pauses the engines of a kind of all processes. p.By is the name that their status shows.
func (t *Tasks) PauseEngine(ctx context.Context, actor string, e ledger.Engine, p ledger.Pause) error {
	return t.change(ctx, actor, string(e)+".pause", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		return target{kind: string(e)}, map[string]any{"by": p.By, "reason": p.Reason, "for_seconds": p.For.Seconds()}, l.PauseEngine(ctx, e, p)
	})
}

// ResumeEngine ends a pause of the engines of a kind; false means that there was none.
func (t *Tasks) ResumeEngine(ctx context.Context, actor string, e ledger.Engine) (was bool, err error) {
	err = t.change(ctx, actor, string(e)+".resume", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		if was, err = l.ResumeEngine(ctx, e); err != nil || !was {
			return target{}, nil, err
		}
		return target{kind: string(e)}, map[string]any{}, nil
	})
	return was, err
}

// DetectStale does once what the detector does, at most a batch of d. With d.DryRun nothing is changed, and nothing
// audited.
func (t *Tasks) DetectStale(ctx context.Context, actor string, d ledger.Detection) (found []ledger.StaleTask, err error) {
	if d.DryRun {
		return t.Ledger().DetectStale(ctx, d)
	}
	err = t.change(ctx, actor, "task.detect_stale", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		if found, err = l.DetectStale(ctx, d); err != nil || len(found) == 0 {
			return target{}, nil, err
		}
		moved := 0
		for _, s := range found {
			if s.TransitionSuccess {
				moved++
			}
		}
		return target{kind: "task"}, map[string]any{"found": len(found), "moved": moved, "batch_size": d.BatchSize}, nil
	})
	return found, err
}

// ArchiveBatch moves one batch of ended tasks to the archive. With s.DryRun nothing is moved, and nothing audited; nor
// where nothing was found to move.
func (t *Tasks) ArchiveBatch(ctx context.Context, actor string, s ledger.ArchiveStep) (done ledger.ArchivedBatch, err error) {
	if s.DryRun {
		return t.Ledger().ArchiveBatch(ctx, s)
	}
	err = t.change(ctx, actor, "archive.run", func(ctx context.Context, l postgres.Ledger) (target, map[string]any, error) {
		if done, err = l.ArchiveBatch(ctx, s); err != nil || done.Tasks == 0 {
			return target{}, nil, err
		}
		return target{kind: "task"}, map[string]any{"result": done.Archived}, nil
	})
	return done, err
}
