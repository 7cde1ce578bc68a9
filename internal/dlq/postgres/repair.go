package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// toItsDeadLetters refuses a target.
func toItsDeadLetters(target string, n int64, entry uuid.UUID) error {
	return fmt.Errorf("%w: the target %s is the dead-letter topic that %d of the messages came from (investigation %s); sent there, they would come back as dead letters",
		dlq.ErrRequest, target, n, entry)
}

// repair decides which headers are sent instead of the message's own, if any. A message with headers that cannot be read
// is skipped if the request does not say what to send: without these headers it would be another message.
func (w *wanted) repair(req dlq.RedriveRequest) error {
	given := func(hs []message.Header) {
		text := string(message.MarshalHeaders(hs))
		w.headers = &text
	}
	switch {
	case w.skip != "":
	case req.Edit != nil && req.Edit.Headers != nil:
		given(req.Edit.Headers)
	case !w.unreadable:
	case req.Repair == nil || w.readable == "" && !req.Repair.None:
		w.skip = dlq.UnreadableHeaders
	default:
		hs, err := parseHeaders([]byte(cmp.Or(w.readable, "[]")))
		if err != nil {
			return fmt.Errorf("letter %s: %w", *w.letter, err)
		}
		given(req.Repair.Apply(hs))
	}
	return nil
}

// edited reports whether the message that is sent differs from the one that was given up.
func (w *wanted) edited(req dlq.RedriveRequest) bool { return req.Edit != nil || w.headers != nil }

// errNotAmended rolls back the savepoint of redriveAs.
var errNotAmended = errors.New("the event is not changed in its place")

// redriveAs redrives an event in its place, changed where that was asked for; all of it, or nothing.
func (r *Redriver) redriveAs(ctx context.Context, tx pgx.Tx, w *wanted, req dlq.RedriveRequest) error {
	if !w.edited(req) {
		return r.exceptions.RedriveInPlace(ctx, tx, *w.outboxID)
	}
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		if err := r.exceptions.RedriveInPlace(ctx, tx, *w.outboxID); err != nil {
			return err
		}
		payload, edited := replacement(req)
		var done int
		if err := tx.QueryRow(ctx, redriveAmend, *w.letter, edited, payload, w.headers).Scan(&done); err != nil {
			return translate("change an event in its place", err)
		}
		switch done {
		case -1:
			w.skip = dlq.PayloadTooLarge
		case -2:
			w.skip = dlq.OnlyCopy
		default:
			return nil
		}
		return errNotAmended
	})
}

// replacement is the payload that an edit gives, if it gives one.
func replacement(req dlq.RedriveRequest) (payload []byte, given bool) {
	if e := req.Edit; e != nil {
		return e.Payload, e.Payload != nil || e.Tombstone
	}
	return nil, false
}
