package postgres

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dlq"
)

// enqueue writes the others as new events. What the outbox refuses for what is in it is found by writing each alone.
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
	err := enqueueAll(ctx, tx, fresh, req)
	if !isRefused(err) {
		return err
	}
	for _, w := range fresh {
		switch err := enqueueAll(ctx, tx, []*wanted{w}, req); {
		case isRefused(err):
			w.skip = dlq.Refused
		case err != nil:
			return err
		}
	}
	return nil
}

// enqueueAll writes new events in their order, all or none.
func enqueueAll(ctx context.Context, tx pgx.Tx, fresh []*wanted, req dlq.RedriveRequest) error {
	payload, edited := replacement(req)
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		rows, err := tx.Query(ctx, redriveEnqueue,
			column(fresh, func(w *wanted) string { return *w.letter }),
			column(fresh, func(w *wanted) uuid.UUID { return w.newEvent }),
			column(fresh, func(w *wanted) string { return w.target }),
			column(fresh, func(*wanted) bool { return edited }),
			column(fresh, func(*wanted) []byte { return payload }),
			column(fresh, func(w *wanted) *string { return w.headers }))
		if err != nil {
			return err
		}
		var place int
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&place, &id}, func() error {
			switch id {
			case 0:
				fresh[place-1].skip = dlq.PayloadGone
			case -1:
				fresh[place-1].skip = dlq.PayloadTooLarge
			default:
				fresh[place-1].newID = id
			}
			return nil
		})
		return err
	})
	return translate("enqueue redriven messages", err)
}
