package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/relay"
)

// as returns a store whose sessions have the rights of a role.
func (f *fixture) as(role string) *Store {
	f.Helper()
	f.done(migrations.ApplyRoles(f.Context(), f.db.Conn(f.T)))
	cfg, err := pgxpool.ParseConfig(f.db.URL)
	f.done(err)
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set role "+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(f.Context(), cfg)
	f.done(err)
	f.Cleanup(pool.Close)
	return NewStore(pool, StoreOptions{})
}

// TestOperatorMayTreatWhatWaits: release, skip, redrive and looking run with the rights of the operator, with
// everything that they touch; carrying events does not.
func TestOperatorMayTreatWhatWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	operator := f.as("postrider_operator")
	f.insert("a", "a", "a", "b")
	f.halt("a")
	f.buried(1)
	f.exec(`update postrider.outbox_shard set low_water = 3`)
	f.done(operator.Redrive(t.Context(), 1))
	f.done(operator.Skip(t.Context(), 1, "not needed")) // releases its hold, too
	f.done(operator.Skip(t.Context(), 2, "not needed"))
	f.done(operator.Skip(t.Context(), 4, "not needed"))
	if r, err := operator.Release(t.Context(), 1); err != nil || r.Cause != relay.CauseRedrive {
		t.Errorf("release: %+v, %v", r, err)
	}
	f.wantStates("1:exhausted 2:exhausted 3:parked 4:exhausted")
	if _, err := operator.Status(t.Context()); err != nil {
		t.Errorf("status: %v", err)
	}
	if holds, err := operator.Holds(t.Context(), HoldFilter{}); err != nil || len(holds) != 1 {
		t.Errorf("holds: %v, %v", holds, err)
	}
	h := keyHold("b", 0)
	f.insert("b")
	c := f.claim()
	f.settle(c, parkAll(c, h))
	f.done(operator.Skip(t.Context(), 5, "not needed")) // behind a retry

	// Carrying events is not theirs.
	f.insert("c")
	var refused *pgconn.PgError
	if _, err := operator.Claim(t.Context(), relay.Limits{Worker: "w/0", Shards: 64, Events: 10}); !errors.As(err, &refused) || refused.Code != "42501" {
		t.Errorf("an operator's claim: %v", err)
	}
}

// TestRelayMayDoAllOfIt: the rights of the relay are enough for everything that it does with holds.
func TestRelayMayDoAllOfIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store = f.as("postrider_relay")
	f.insert("a", "a", "a", neighbour("a"), "b", "b")
	f.halt("b")
	f.buried(5)
	c := f.claimBy(f.store, relay.Limits{Events: 1, CommitOrder: true})
	f.settle(c, &relay.Settlement{Delivered: []int64{1}, Crowds: []relay.Crowd{{Shard: shardOf("t", "a"), Topic: "t", Key: []byte("a"), After: 1}}})
	f.turn(1000)
	f.delivers(nil, 2, 3, 4)
	f.insert("c")
	c = f.claim()
	s := parkAll(c, partitionHold(1, 4, 0))
	f.settle(c, s)
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at, draining) values ('topic', 'o', 'commit_order', now(), true)`)
	f.turn(1000)
	f.raise()
	f.done(f.store.Redrive(t.Context(), 5))
	f.done(f.store.Skip(t.Context(), 5, "not needed"))
	if _, err := f.store.Release(t.Context(), value[int64](f, `select hold_id from postrider.outbox_hold where cause = 'redrive'`)); err != nil {
		t.Error(err)
	}
	f.turn(1000)
	c = f.claim()
	f.settle(c, &relay.Settlement{Delivered: claimed(c)})
	f.wantStates("1:published 2:published 3:published 4:published 5:exhausted 6:published 7:published")
}
