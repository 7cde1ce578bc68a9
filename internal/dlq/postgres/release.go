package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// Release implements dlq.Redriver.
func (r *Redriver) Release(ctx context.Context, req dlq.ReleaseRequest) (dlq.Requeued, error) {
	if err := req.Check(); err != nil {
		return dlq.Requeued{}, err
	}
	waiting := ctx
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var done dlq.Requeued
	var commands []uuid.UUID
	var sources []string
	err := transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		locked, err := lockEntries(ctx, tx, redriveLock, req.Entries)
		if err != nil {
			return err
		}
		if err := allThere(req.Entries, locked); err != nil {
			return err
		}
		candidates, err := readCandidates(ctx, tx, req.Entries)
		if err != nil {
			return err
		}
		plan := dlq.PlanRelease(req, candidates)
		events, err := r.releaseHere(ctx, tx, plan)
		if err != nil {
			return err
		}
		if commands, err = askToRelease(ctx, tx, plan); err != nil {
			return err
		}
		done, sources = plan.Result(), plan.Sources()
		done.Reaches = nil // nothing is sent
		if len(done.Entries) == 0 {
			return nil
		}
		id := ""
		if len(done.Entries) == 1 {
			id = done.Entries[0].String()
		}
		return r.audit.Audit(ctx, tx, req.Actor, "outbox.release", "entry", id, sources,
			auditEvents(map[string]any{"entries": done.Entries, "skipped": len(done.Skipped)}, events))
	})
	if err != nil {
		return dlq.Requeued{}, err
	}
	r.awaitCommands(waiting, req.Wait, sources, commands, &done)
	return done, nil
}

// releaseHere lets the keys go that the desk's own outbox halts, and returns their events.
func (r *Redriver) releaseHere(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan) ([]int64, error) {
	here := p.SentHere()
	if len(here) == 0 {
		return nil, nil
	}
	halting, err := haltingEvents(ctx, tx, r.exceptions, column(here, func(c *dlq.Candidate) uuid.UUID { return c.Entry }))
	if err != nil {
		return nil, err
	}
	entries := slices.Collect(maps.Values(halting))
	for _, c := range here {
		if !slices.Contains(entries, c.Entry) {
			c.Skip = dlq.NoKey
		}
	}
	events := slices.Sorted(maps.Keys(halting))
	if len(events) == 0 {
		return nil, nil
	}
	return events, r.exceptions.ReleaseKeys(ctx, tx, events)
}

// askToRelease asks the sources of the others, and returns the commands.
func askToRelease(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan) ([]uuid.UUID, error) {
	const doing = "ask sources to let keys go"
	if err := skipAway(ctx, tx, p); err != nil {
		return nil, err
	}
	asked := p.OfSources()
	if len(asked) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, sourceRelease, p.Request.Actor,
		column(asked, func(c *dlq.Candidate) uuid.UUID { return c.Entry }),
		column(asked, func(c *dlq.Candidate) string { return c.Letter }))
	if err != nil {
		return nil, translate(doing, err)
	}
	commands, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return commands, translate(doing, err)
}
