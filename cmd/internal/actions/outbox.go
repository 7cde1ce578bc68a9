package actions

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// Outbox treats the events and holds of the outbox by hand. Errors wrap ErrNotFound and ErrRefused of package
// internal/relay/postgres.
type Outbox struct {
	cfg   Config
	store *postgres.Store
}

// NewOutbox checks the configuration.
func NewOutbox(cfg Config) (*Outbox, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	return &Outbox{cfg, postgres.NewStore(cfg.Pool, postgres.StoreOptions{LetterTopic: cfg.LetterTopic})}, nil
}

// Store reads the outbox.
func (o *Outbox) Store() *postgres.Store { return o.store }

func (o *Outbox) change(ctx context.Context, actor, action, kind string, id int64, f func(context.Context, pgx.Tx) (details map[string]any, err error)) error {
	if err := named(actor); err != nil {
		return err
	}
	return o.cfg.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		details, err := f(ctx, tx)
		if err != nil {
			return err
		}
		target := ""
		if id != 0 {
			target = strconv.FormatInt(id, 10)
		}
		return o.cfg.Auditor.Audit(ctx, tx, actor, action, kind, target, own, details)
	})
}

// Release ends the wait of a hold; see postgres.Store.Release.
func (o *Outbox) Release(ctx context.Context, actor string, hold int64) (r postgres.Released, err error) {
	err = o.change(ctx, actor, "outbox.release", "hold", hold, func(ctx context.Context, tx pgx.Tx) (map[string]any, error) {
		r, err = o.store.Release(ctx, tx, hold)
		return map[string]any{"scope": r.Scope, "topic": r.Topic, "cause": r.Cause, "draining": r.Draining}, err
	})
	return r, err
}

// GiveUp gives up all that a circuit breaker keeps, or that waits for a topic; see postgres.Store.GiveUp.
func (o *Outbox) GiveUp(ctx context.Context, actor string, hold int64) (g postgres.GaveUp, err error) {
	err = o.change(ctx, actor, "outbox.give_up", "hold", hold, func(ctx context.Context, tx pgx.Tx) (map[string]any, error) {
		g, err = o.store.GiveUp(ctx, tx, hold)
		return map[string]any{"scope": g.Scope, "topic": g.Topic, "cause": g.Cause, "events": g.Events}, err
	})
	return g, err
}

// Skip gives up an event that waits: it becomes a dead letter with the reason.
func (o *Outbox) Skip(ctx context.Context, actor string, event int64, reason string) error {
	return o.change(ctx, actor, "outbox.skip", "event", event, func(ctx context.Context, tx pgx.Tx) (map[string]any, error) {
		return map[string]any{"reason": reason}, o.store.Skip(ctx, tx, event, reason)
	})
}

// Redrive puts a dead-lettered event that halts its key back in its place.
func (o *Outbox) Redrive(ctx context.Context, actor string, event int64) error {
	return o.change(ctx, actor, "outbox.redrive", "event", event, func(ctx context.Context, tx pgx.Tx) (map[string]any, error) {
		return map[string]any{"in_place": true}, o.store.Redrive(ctx, tx, event)
	})
}

// PurgeDelivered asks for delivered events to be removed.
type PurgeDelivered struct {
	// OlderThan is before when they must have been acknowledged. Required, and in the past.
	OlderThan time.Time
	// Rows is how many to look at in this call, 1 to 100000. Defaults to 10000.
	Rows int
}

// Purge looks at the next delivered events, and removes the events that are older, whatever retention says.
func (o *Outbox) Purge(ctx context.Context, actor string, p PurgeDelivered) (done relay.Purged, err error) {
	keep := time.Since(p.OlderThan)
	switch {
	case p.OlderThan.IsZero() || keep < 0:
		return done, fmt.Errorf("%w: older_than must be a time in the past", ErrRequest)
	case p.Rows < 0 || p.Rows > 100_000:
		return done, fmt.Errorf("%w: %d rows are to be looked at; it must be 1 to 100000", ErrRequest, p.Rows)
	case p.Rows == 0:
		p.Rows = 10_000
	}
	err = o.change(ctx, actor, "outbox.purge", "event", 0, func(ctx context.Context, tx pgx.Tx) (map[string]any, error) {
		done, err = o.store.PurgeDelivered(ctx, tx, relay.PurgeLimits{Keep: min(keep, 200*365*relay.Day), Rows: p.Rows})
		if err == nil && done.Busy {
			err = ErrBusy
		}
		return map[string]any{"purged": done.Rows, "older_than": p.OlderThan}, err
	})
	return done, err
}
