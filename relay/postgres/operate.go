package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// Errors of what somebody asks for by hand. Those returned wrap one of these.
var (
	// ErrNotFound: there is no such hold or event.
	ErrNotFound = errors.New("not found")
	// ErrRefused: it is there, and in no state for this.
	ErrRefused = errors.New("refused")
)

// Released says what a hold was that somebody released.
type Released struct {
	Scope relay.Scope `json:"scope"`
	Topic string      `json:"topic"`
	Key   string      `json:"key,omitempty"`
	Cause relay.Cause `json:"cause"`
	// Draining says that all that waited comes back; otherwise one event is let through as a probe.
	Draining bool `json:"draining"`
}

// Release ends the wait of a hold. A halted key and a stopped storm let all go that waits behind them, in
// order; the event that halted the key stays dead-lettered. Any other hold is probed at once.
func (s *Store) Release(ctx context.Context, holdID int64) (Released, error) {
	var r Released
	var key []byte
	err := s.pool.QueryRow(ctx, holdForRelease, holdID).Scan(&r.Scope, &r.Topic, &key, &r.Cause, &r.Draining)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, fmt.Errorf("hold %d: %w: it may have ended by itself", holdID, ErrNotFound)
	}
	r.Key = text(string(key))
	return r, err
}

// target is an event that somebody wants to be treated by hand, its shard locked.
type target struct {
	id    int64
	shard int16
	state outbox.State
	topic string
	key   []byte
	hold  *int64 // on its key
	cause relay.Cause
	// draining says that what waited behind the hold comes back, about that the hold comes from this event.
	draining, about bool
}

func (e *target) find(ctx context.Context, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, id int64) error {
	err := q.QueryRow(ctx, findEvent, id).Scan(&e.id, &e.shard, &e.state, &e.topic, &e.key, &e.hold, &e.cause, &e.draining, &e.about)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("event %d: %w", id, ErrNotFound)
	}
	return err
}

// onEvent runs f with the event, under the lock of its shard.
func (s *Store) onEvent(ctx context.Context, id int64, f func(pgx.Tx, *target) error) error {
	var e target
	if err := e.find(ctx, s.pool, id); err != nil {
		return err
	}
	err := s.inShard(ctx, e.shard, func(tx pgx.Tx) error {
		if err := e.find(ctx, tx, id); err != nil { // what the last owner of the shard made of it
			return err
		}
		return f(tx, &e)
	})
	if errors.Is(err, errBusy) {
		return fmt.Errorf("event %d: %w: its shard is in work, try again", id, ErrRefused)
	}
	return err
}

// Skip gives up an event that waits, by hand: it goes to the dead-letter topic with the reason, and the
// later ones of its key go on.
func (s *Store) Skip(ctx context.Context, id int64, reason string) error {
	return s.onEvent(ctx, id, func(tx pgx.Tx, e *target) error {
		switch e.state {
		case outbox.Pending, outbox.Parked, outbox.Scheduled:
		default:
			return fmt.Errorf("event %d: %w: it is %s, only one that waits can be skipped", id, ErrRefused, e.state)
		}
		if _, err := tx.Exec(ctx, skipEvent, id, text("skipped by hand: "+reason)); err != nil {
			return err
		}
		if e.hold == nil || !e.about {
			return nil
		}
		query := probeHoldNow // the next one of the key need not wait for the retry of this one
		if e.cause == relay.CauseRedrive {
			query = holdForRelease // it waited for this event alone
		}
		_, err := tx.Exec(ctx, query, *e.hold)
		return err
	})
}

// Redrive puts a dead-lettered event that halted its key back in its place: it is sent next, and the key
// goes on when it is acknowledged.
func (s *Store) Redrive(ctx context.Context, id int64) error {
	return s.onEvent(ctx, id, func(tx pgx.Tx, e *target) error { return putBack(ctx, tx, e) })
}

func putBack(ctx context.Context, tx pgx.Tx, e *target) error {
	switch {
	case e.state == outbox.Exhausted:
		return fmt.Errorf("event %d: %w: its dead letter is on its way; redrive it when that has arrived", e.id, ErrRefused)
	case e.state != outbox.DeadLettered:
		return fmt.Errorf("event %d: %w: it is %s, only a dead-lettered one can be put back", e.id, ErrRefused, e.state)
	case e.hold == nil || e.cause != relay.CauseHalted || e.draining:
		return fmt.Errorf("event %d: %w: it does not halt its key, so later events of the key may have gone; "+
			"send its content as a new event instead", e.id, ErrRefused)
	}
	var halting int64
	var draining bool
	switch err := tx.QueryRow(ctx, haltingEvent, *e.hold).Scan(&halting, &draining); {
	case err != nil:
		return err
	case draining: // somebody released it just now
		return fmt.Errorf("event %d: %w: its key was released, later events of the key are on their way", e.id, ErrRefused)
	case halting != e.id:
		return fmt.Errorf("event %d: %w: its key is halted by event %d, which alone can be put back; "+
			"send the content of this one as a new event instead", e.id, ErrRefused, halting)
	}
	if _, err := tx.Exec(ctx, putBackEvent, e.id); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, lowerWater, e.shard, e.id); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, letRedrivenThrough, *e.hold, e.shard, e.id)
	return err
}

// ErrBusy: the relay has the key in work; ask again.
var ErrBusy = errors.New("the relay has its key in work")

// Halting returns those of the dead-lettered events that halt their key, and those whose key is halted by
// another, both in ascending order.
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

// PutBack is Redrive in the transaction of the caller. Where the relay keeps the shard for more than a second,
// and where the key was released meanwhile, the error wraps ErrBusy, and the transaction is as it was.
func (s *Store) PutBack(ctx context.Context, tx pgx.Tx, id int64) error {
	err := asBusy(pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		if _, err := tx.Exec(ctx, "set local lock_timeout = '1s'"); err != nil {
			return err
		}
		var e target
		if err := e.find(ctx, tx, id); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, lockShard, e.shard); err != nil {
			return err
		}
		if err := e.find(ctx, tx, id); err != nil { // what the last owner of the shard made of it
			return err
		}
		return putBack(ctx, tx, &e)
	}))
	if errors.Is(err, errBusy) || errors.Is(err, ErrRefused) {
		return fmt.Errorf("event %d: %w: %w", id, ErrBusy, err)
	}
	return err
}

// ReleaseKeys lets the keys go that these events halt, in the transaction of the caller. The events stay
// dead-lettered.
func (s *Store) ReleaseKeys(ctx context.Context, tx pgx.Tx, ids []int64) error {
	_, err := tx.Exec(ctx, releaseKeys, ids)
	return err
}
