package postgres

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// enqueue writes the messages that were neither skipped nor redriven in place as new events.
func enqueue(ctx context.Context, tx pgx.Tx, ws []*wanted, req dlq.RedriveRequest) error {
	var fresh []*wanted
	for _, w := range ws {
		if w.skip != "" || w.inPlace {
			continue
		}
		if w.hops >= cmp.Or(req.MaxHops, dlq.DefaultMaxHops) {
			w.skip = dlq.TooManyHops
		} else {
			w.newEvent, w.episode = newUUID(), 0
			fresh = append(fresh, w)
		}
	}
	for _, portion := range portions(fresh, statementBytes, (*wanted).size) {
		if err := enqueueByHalves(ctx, tx, portion, req); err != nil {
			return err
		}
	}
	return nil
}

// size is about how much of the server a message takes; nothing where it is not sent.
func (w *wanted) size() int {
	if w.skip != "" {
		return 0
	}
	return 1024 + int(w.bytes)
}

const (
	// operationBytes bounds what an operation sends in one transaction, which has its investigations locked until all of
	// that is in the log: a thousand messages of the largest size would never be written within the time that a call has.
	operationBytes = 4 * statementBytes

	// later is why an operation leaves an item for its next batch. It is not reported: the item still waits.
	later dlq.SkipReason = "later"
)

// putOff leaves the messages beyond operationBytes for later, in the order in which messages were written.
func putOff(ws []*wanted) {
	for i, portion := range portions(ws, operationBytes, (*wanted).size) {
		for _, w := range portion {
			if i > 0 {
				w.skip = later
			}
		}
	}
}

// enqueueByHalves writes new events in their order. An event that the outbox refuses for its content is found by halves:
// all but a few of the others go in with one statement, and each event after the events before it.
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
