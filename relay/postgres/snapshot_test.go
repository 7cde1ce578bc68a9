package postgres

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// paused returns a store whose claims stop between the snapshot of lock_shards and its first lock, as
// long as somebody holds the advisory lock 42: its sessions find an operator & that waits for it.
func (f *fixture) paused() *Store {
	f.Helper()
	f.exec(`create schema pause`)
	f.exec(`create function pause.bit_and(a integer, b integer) returns integer language plpgsql volatile as $$
		begin
			perform pg_catalog.pg_advisory_xact_lock_shared(42);
			return pg_catalog.int4and(a, b);
		end $$`)
	f.exec(`create operator pause.& (leftarg = integer, rightarg = integer, function = pause.bit_and)`)
	cfg, err := pgxpool.ParseConfig(f.db.URL)
	if err != nil {
		f.Fatal(err)
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = "pause, pg_catalog"
	cfg.ConnConfig.RuntimeParams["application_name"] = "paused"
	pool, err := pgxpool.NewWithConfig(f.Context(), cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(pool.Close)
	return NewStore(pool, StoreOptions{})
}

// TestClaimSeesWhatTheLastOwnerSettled forces the interleaving that breaks a claim of one statement: the
// last owner commits after the next one's snapshot was taken, and before that one's locks.
func TestClaimSeesWhatTheLastOwnerSettled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "b", "c")
	f.exec(`update postrider.outbox_event set available_at = now() + interval '1 hour' where key = 'c'`)
	store := f.paused()

	owner := f.claim()
	gate, err := f.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Release()
	if _, err := gate.Exec(t.Context(), `select pg_advisory_lock(42)`); err != nil {
		t.Fatal(err)
	}
	type result struct {
		claim relay.Claim
		err   error
	}
	next := make(chan result, 1)
	go func() {
		c, err := store.Claim(t.Context(), relay.Limits{Worker: "w/0", Shards: outbox.Shards, Events: 1000})
		next <- result{c, err}
	}()
	f.waitFor(`select exists (select from pg_stat_activity where datname = current_database() and application_name = 'paused' and wait_event = 'advisory')`)

	h := keyHold("b", 0)
	f.settle(owner, &relay.Settlement{
		Delivered: []int64{1},
		Holds:     []relay.HoldChange{h},
		Parked:    []relay.Park{{ID: 3, Shard: value[int16](f, `select shard from postrider.outbox_event where id = 3`)}},
		Scheduled: []relay.Schedule{{ID: 4}},
	})
	f.insert("b") // comes while the hold is there
	if _, err := gate.Exec(t.Context(), `select pg_advisory_unlock(42)`); err != nil {
		t.Fatal(err)
	}
	got := <-next
	if got.err != nil || got.claim == nil {
		t.Fatalf("claim: %v, %v", got.claim, got.err)
	}
	defer got.claim.Abandon()
	if ids := claimed(got.claim); !slices.Equal(ids, []int64{2, 5}) {
		t.Errorf("claimed %v, want what was not settled and what came after: 2 and 5", ids)
	}
	if ids := free(got.claim); !slices.Equal(ids, []int64{2}) {
		t.Errorf("free to go are %v, want 2: the hold of key b is there", ids)
	}
}
