package postgres

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dlq"
)

// enqueue writes the others as new events.
func enqueue(ctx context.Context, tx pgx.Tx, ws []*wanted, req dlq.RedriveRequest) error {
	var fresh []*wanted
	for _, w := range ws {
		if w.skip != "" || w.inPlace {
			continue
		}
		if w.hops >= cmp.Or(req.MaxHops, dlq.DefaultMaxHops) {
			w.skip = dlq.TooManyHops
		} else {
			w.newEvent, w.episode = uuid.New(), 0
			fresh = append(fresh, w)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return enqueueByHalves(ctx, tx, fresh, req)
}

// enqueueByHalves writes new events in their order. What the outbox refuses for what is in it is found by halves: all but
// a few of the others go in with one statement, and each after those before it.
func enqueueByHalves(ctx context.Context, tx pgx.Tx, fresh []*wanted, req dlq.RedriveRequest) error {
	err := enqueueAll(ctx, tx, fresh, req)
	if !isRefused(err) {
		return err
	}
	if len(fresh) == 1 {
		fresh[0].skip = dlq.Refused
		return nil
	}
	half := len(fresh) / 2
	if err := enqueueByHalves(ctx, tx, fresh[:half], req); err != nil {
		return err
	}
	return enqueueByHalves(ctx, tx, fresh[half:], req)
}

// enqueueAll writes new events in their order with one statement, all or none.
func enqueueAll(ctx context.Context, tx pgx.Tx, fresh []*wanted, req dlq.RedriveRequest) error {
	payload, edited := replacement(req)
	byEvent := make(map[uuid.UUID]*wanted, len(fresh))
	for _, w := range fresh {
		byEvent[w.newEvent] = w
	}
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		rows, err := tx.Query(ctx, redriveEnqueue,
			column(fresh, func(w *wanted) string { return *w.letter }),
			column(fresh, func(w *wanted) uuid.UUID { return w.newEvent }),
			column(fresh, func(w *wanted) string { return w.target }),
			column(fresh, func(w *wanted) *string { return w.headers }), edited, payload, traceparentOf(ctx))
		if err != nil {
			return err
		}
		var event uuid.UUID
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&event, &id}, func() error {
			switch w := byEvent[event]; id {
			case 0:
				w.skip = dlq.PayloadGone
			case -1:
				w.skip = dlq.PayloadTooLarge
			default:
				w.newID = id
			}
			return nil
		})
		return err
	})
	return translate("enqueue redriven messages", err)
}
