package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// enqueueByHalves writes new events in their order. An event that the outbox refuses for its content is found by halves:
// all but a few of the others go in with one statement, and each event after the events before it.
func enqueueByHalves(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan, fresh []*dlq.Candidate) error {
	err := enqueue(ctx, tx, p, fresh)
	if !isRefused(err) {
		return err
	}
	if len(fresh) == 1 {
		fresh[0].Skip = dlq.Refused
		return nil
	}
	half := len(fresh) / 2
	if err := enqueueByHalves(ctx, tx, p, fresh[:half]); err != nil {
		return err
	}
	return enqueueByHalves(ctx, tx, p, fresh[half:])
}

// enqueue writes new events in their order with one statement, all or none.
func enqueue(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan, fresh []*dlq.Candidate) error {
	payload, edited := p.Request.Edit.Replacement()
	byEvent := make(map[uuid.UUID]*dlq.Candidate, len(fresh))
	for _, c := range fresh {
		byEvent[c.NewEvent] = c
	}
	type C = *dlq.Candidate
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		rows, err := tx.Query(ctx, redriveEnqueue,
			column(fresh, func(c C) string { return c.Letter }),
			column(fresh, func(c C) uuid.UUID { return c.NewEvent }),
			column(fresh, func(c C) string { return c.Target }),
			column(fresh, headersJSON), edited, payload, traceparentOf(ctx))
		if err != nil {
			return err
		}
		var event uuid.UUID
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&event, &id}, func() error {
			c := byEvent[event]
			if c.Skip = refusalOf(id); c.Skip == "" {
				c.NewID = id
			}
			return nil
		})
		return err
	})
	return translate("enqueue redriven messages", err)
}

// insertRedrives records the redrives of a plan.
func insertRedrives(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan) error {
	sent := p.SentHere()
	if len(sent) == 0 {
		return nil
	}
	type C = *dlq.Candidate
	_, err := tx.Exec(ctx, redriveNote, nullUUID(p.Request.Operation), p.Request.Actor,
		column(sent, func(c C) uuid.UUID { return c.Entry }),
		column(sent, func(c C) string { return c.Letter }),
		column(sent, func(c C) int64 { return c.NewID }),
		column(sent, func(c C) uuid.UUID { return c.NewEvent }),
		column(sent, func(c C) bool { return c.InPlace }),
		column(sent, func(c C) int32 { return c.Episode }),
		column(sent, func(c C) string { return c.Target }),
		column(sent, p.Edited))
	return translate("note redrives", err)
}
