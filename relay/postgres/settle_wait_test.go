package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// TestOnlyDeliveriesDoNotWaitForTheDisk: a settlement that says no more than that a few events were acknowledged is
// committed without waiting for the disk, and every other one waits. A trigger that runs with the commit notes
// which it is.
func TestOnlyDeliveriesDoNotWaitForTheDisk(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`create table committed (how text)`)
	f.exec(`create function note() returns trigger language plpgsql as $$
		begin insert into committed values (current_setting('synchronous_commit')); return null; end $$`)
	f.exec(`create constraint trigger note after update or delete on postrider.outbox_event
		deferrable initially deferred for each row execute function note()`)
	f.exec(`do $$ begin execute format('alter database %I set synchronous_commit = local', current_database()); end $$`)
	marks, _ := f.open(Options{}, StoreOptions{})
	deletes, _ := f.open(Options{}, StoreOptions{DeletePublished: true})
	failed := func(c relay.Claim) *relay.Failure { return failure(claimed(c)[0], 1) }
	for name, c := range map[string]struct {
		store  *Store
		events int
		what   func(c relay.Claim) *relay.Settlement
		want   string
	}{
		"marked":  {marks, 2, func(c relay.Claim) *relay.Settlement { return &relay.Settlement{Delivered: claimed(c)} }, "off"},
		"deleted": {deletes, 2, func(c relay.Claim) *relay.Settlement { return &relay.Settlement{Delivered: claimed(c)} }, "off"},
		"few":     {marks, durableFrom - 1, func(c relay.Claim) *relay.Settlement { return &relay.Settlement{Delivered: claimed(c)} }, "off"},
		"many":    {marks, durableFrom, func(c relay.Claim) *relay.Settlement { return &relay.Settlement{Delivered: claimed(c)} }, "local"},
		"given up": {marks, 2, func(c relay.Claim) *relay.Settlement {
			return &relay.Settlement{Delivered: claimed(c)[1:], Exhausted: []relay.Failure{*failed(c)}}
		}, "local"},
		"scheduled": {marks, 2, func(c relay.Claim) *relay.Settlement {
			return &relay.Settlement{Delivered: claimed(c)[1:], Scheduled: []relay.Schedule{{ID: claimed(c)[0], In: time.Hour, Failure: failed(c)}}}
		}, "local"},
		"parked": {marks, 2, func(c relay.Claim) *relay.Settlement { return parkAll(c, keyHold("a", time.Hour)) }, "local"},
		"crowd": {marks, 2, func(c relay.Claim) *relay.Settlement {
			e := c.Batch().Events[0]
			return &relay.Settlement{Delivered: claimed(c), Crowds: []relay.Crowd{{Shard: e.Shard, Topic: e.Topic, Key: e.Key, After: claimed(c)[1]}}}
		}, "local"},
		"proven": {marks, 2, func(c relay.Claim) *relay.Settlement {
			return &relay.Settlement{Delivered: claimed(c), Proven: []int64{1 << 40}}
		}, "local"},
		"tried alone": {marks, 2, func(c relay.Claim) *relay.Settlement {
			return &relay.Settlement{Delivered: claimed(c)[:1], TriedThrough: claimed(c)[0]}
		}, "local"},
	} {
		f.exec(`truncate postrider.outbox_event, postrider.outbox_hold, postrider.outbox_hold_shard, postrider.outbox_batch, committed`)
		f.insert(slices.Repeat([]string{"a"}, c.events)...)
		claim := f.claimBy(c.store, relay.Limits{})
		if err := claim.Mark(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.settle(claim, c.what(claim))
		if got := value[string](f, `select coalesce(string_agg(distinct how, ' '), 'nothing') from committed`); got != c.want {
			t.Errorf("%s: committed with synchronous_commit %s, want %s", name, got, c.want)
		}
		// The connection is what it was.
		if got := value[string](&fixture{T: t, pool: c.store.pool.Pool}, `show synchronous_commit`); got != "local" {
			t.Errorf("%s: afterwards the session has synchronous_commit %s", name, got)
		}
	}
}
