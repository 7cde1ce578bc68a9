package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/relay"
)

// The database itself does what operators ask for by hand, in functions with the owner's rights: so the operators' role
// needs no right to change exceptions or holds. A change by a login with the rights of postrider_operator is only
// committed with a row of postrider.access_audit. So each request runs in a transaction of the caller, which also writes
// this row, and there in a savepoint: a refusal leaves the transaction as it was.

// Errors of requests by hand. A returned error wraps one of these.
var (
	// ErrNotFound: no hold or event has this id.
	ErrNotFound = errors.New("not found")
	// ErrRefused: the hold or event exists, but its state does not allow the request.
	ErrRefused = errors.New("refused")
)

// Released describes a hold that an operator released.
type Released struct {
	// Scope is what it held.
	Scope relay.Scope `json:"scope"`
	// Topic is the topic that it was about.
	Topic string `json:"topic"`
	// Key is the key of a hold of a key; left out for others.
	Key string `json:"key,omitempty"`
	// Cause is why it existed.
	Cause relay.Cause `json:"cause"`
	// Draining says that all that waited comes back; otherwise one event is let through as a probe.
	Draining bool `json:"draining"`
}

// Release ends the wait of a hold. A halted key and an open circuit breaker let all go that waits behind them, in
// order; the event that halted the key stays dead-lettered. Any other hold is probed at once.
func (s *Store) Release(ctx context.Context, tx pgx.Tx, holdID int64) (r Released, err error) {
	var key []byte
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, releaseHold, holdID).Scan(&r.Scope, &r.Topic, &key, &r.Cause, &r.Draining)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return r, fmt.Errorf("hold %d: %w: it may have ended by itself", holdID, ErrNotFound)
	}
	r.Key = text(string(key))
	return r, err
}

// Skip gives up an event that waits, by hand: it goes to the dead-letter topic with the reason, and the
// later ones of its key go on.
func (s *Store) Skip(ctx context.Context, tx pgx.Tx, id int64, reason string) error {
	return onEvent(ctx, tx, id, skipEvent, text(reason))
}

// Redrive puts a dead-lettered event that halted its key back in its place: it is sent next, and the key
// goes on when it is acknowledged.
func (s *Store) Redrive(ctx context.Context, tx pgx.Tx, id int64) error {
	return onEvent(ctx, tx, id, redriveEvent)
}

// GaveUp describes a hold whose events an operator gave up.
type GaveUp struct {
	// Scope is what it held.
	Scope relay.Scope `json:"scope"`
	// Topic is the topic that it was about.
	Topic string `json:"topic"`
	// Cause is why it existed.
	Cause relay.Cause `json:"cause"`
	// Events is how many waited behind it.
	Events int64 `json:"events"`
}

// GiveUp gives up all that a circuit breaker keeps, or that waits for a topic: each event becomes a dead letter.
func (s *Store) GiveUp(ctx context.Context, tx pgx.Tx, holdID int64) (g GaveUp, err error) {
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, giveUpHold, holdID).Scan(&g.Scope, &g.Topic, &g.Cause, &g.Events)
	})
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return g, fmt.Errorf("hold %d: %w: it may have ended by itself", holdID, ErrNotFound)
	case errors.As(err, &pg) && pg.Code == "55000":
		return g, fmt.Errorf("hold %d: %w: %s", holdID, ErrRefused, pg.Detail)
	}
	return g, err
}

// onEvent runs one of the functions that treat an event.
func onEvent(ctx context.Context, tx pgx.Tx, id int64, query string, args ...any) error {
	return refusal(id, asBusy(pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, query, append([]any{id}, args...)...)
		return err
	})))
}

// PurgeDelivered removes events that were acknowledged long enough ago, whatever retention says: of l it takes Keep and
// Rows.
func (s *Store) PurgeDelivered(ctx context.Context, tx pgx.Tx, l relay.PurgeLimits) (got relay.Purged, err error) {
	l.Kind = relay.PurgePublished
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		got, err = purge(ctx, tx, l)
		return err
	})
	var pg *pgconn.PgError
	switch {
	case errors.Is(asBusy(err), errBusy):
		return relay.Purged{Busy: true}, nil
	case errors.As(err, &pg) && pg.Code == codeMiscounted:
		return relay.Purged{}, fmt.Errorf("%w: %w; %s", relay.ErrMiscounted, err, pg.Hint)
	}
	return got, err
}

// errBusy: another session held a lock for longer than it was waited for.
var errBusy = errors.New("locked by another session")

// asBusy is errBusy for an error that says so.
func asBusy(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" { // lock_not_available
		return errBusy
	}
	return err
}

// refusal turns an error of one of the functions into the error that an operator sees.
func refusal(id int64, err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, errBusy):
		return fmt.Errorf("event %d: %w: the relay has it in hand, try again", id, ErrRefused)
	case !errors.As(err, &pg):
		return err
	case pg.Code == "P0002": // no_data_found
		return fmt.Errorf("event %d: %w", id, ErrNotFound)
	case pg.Code == "55000": // object_not_in_prerequisite_state
		return fmt.Errorf("event %d: %w: %s", id, ErrRefused, pg.Detail)
	}
	return err
}

// ErrBusy: the relay has the key in work; ask again.
var ErrBusy = errors.New("the relay has its key in work")

// Halting returns which of the dead-lettered events halt their key, and which have a key that another event
// halts, both in ascending order.
func (s *Store) Halting(ctx context.Context, tx pgx.Tx, ids []int64) (halting, behind []int64, err error) {
	rows, err := tx.Query(ctx, findHalting, ids)
	if err != nil {
		return nil, nil, err
	}
	var id int64
	var by bool
	_, err = pgx.ForEachRow(rows, []any{&id, &by}, func() error {
		if by {
			halting = append(halting, id)
		} else {
			behind = append(behind, id)
		}
		return nil
	})
	return halting, behind, err
}

// RedriveInPlace is Redrive for a transaction that goes on without it. If the relay has the event in hand for more than a
// second, or if the key was released meanwhile, the error wraps ErrBusy, and the transaction is as it was.
func (s *Store) RedriveInPlace(ctx context.Context, tx pgx.Tx, id int64) error {
	err := asBusy(pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		_, err := tx.Exec(ctx, redriveEvent, id)
		return err
	}))
	var pg *pgconn.PgError
	if errors.Is(err, errBusy) || errors.As(err, &pg) && pg.Code == "55000" {
		return fmt.Errorf("event %d: %w: %w", id, ErrBusy, err)
	}
	return err
}

// ReleaseKeys lets the keys go that these events halt. The events stay dead-lettered.
func (s *Store) ReleaseKeys(ctx context.Context, tx pgx.Tx, ids []int64) error {
	_, err := tx.Exec(ctx, releaseKeys, ids)
	return err
}
