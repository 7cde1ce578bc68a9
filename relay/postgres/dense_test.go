package postgres

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// deep writes n events of many keys, which lie side by side as they would in a deep backlog, and makes known
// that all of them are final.
func (f *fixture) deep(n int) {
	f.Helper()
	f.exec(`alter table postrider.outbox_event set (autovacuum_enabled = off)`)
	f.deeper(n)
	f.raise()
	if final := f.store.water.final.Load(); final < int64(n) {
		f.Fatalf("ids up to %d are final, want all %d", final, n)
	}
}

func (f *fixture) deeper(n int) {
	f.Helper()
	f.exec(`insert into postrider.outbox_event (topic, key, payload) select 't', ('key ' || i % 500)::bytea, 'p' from generate_series(1, $1::int) i`, n)
}

// half are the limits of one of two workers with batches of 2000.
var half = relay.Limits{Events: 2000, Shards: outbox.Shards / 2}

// densely claims, and checks that it read along the primary key.
func (f *fixture) densely(l relay.Limits) *claim {
	f.Helper()
	f.store.dense.on = true
	c := f.claimBy(f.store, l).(*claim)
	if !c.dense.tried {
		f.Fatal("the claim walked along each shard")
	}
	f.wantFront(c)
	return c
}

// wantFront checks that a claim has, of each of its shards, everything up to the last event it has of it, in
// order.
func (f *fixture) wantFront(c relay.Claim) {
	f.Helper()
	has := map[int16][]int64{}
	for _, e := range c.Batch().Events {
		has[e.Shard] = append(has[e.Shard], e.ID)
	}
	for shard, ids := range has {
		want := value[[]int64](f, `select array_agg(id order by id) from postrider.outbox_event where shard = $1 and state = 'pending' and id <= $2`, shard, ids[len(ids)-1])
		if !slices.Equal(ids, want) {
			f.Errorf("of shard %d claimed %v, want its front %v", shard, ids, want)
		}
	}
}

// TestDenseBatch: it is the front of half of the shards, and settled as a range it leaves nothing of it.
func TestDenseBatch(t *testing.T) {
	t.Parallel()
	for name, deletes := range map[string]bool{"marked": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if deletes {
				f.store, _ = f.open(Options{}, StoreOptions{DeletePublished: true})
			}
			f.deep(10_000)
			c := f.densely(half)
			ids := claimed(c)
			if len(ids) != 2000 || c.dense.high != ids[1999] {
				t.Fatalf("claimed %d events, all up to %d; want 2000, up to the last, %d", len(ids), c.dense.high, ids[1999])
			}
			ranges := f.store.dense.ranges
			f.settle(c, &relay.Settlement{Delivered: ids})
			if f.store.dense.ranges != ranges+1 {
				t.Error("the batch was not settled as a range")
			}
			if n := value[int](f, `select count(*) from postrider.outbox_event where id = any ($1) and (state, sent_at is null, updated_at is null) = ('published', false, false)`, ids); n != 2000 && !deletes || n != 0 && deletes {
				t.Errorf("%d events of the batch are published", n)
			}
			if n := value[int](f, `select count(*) from postrider.outbox_event where state = 'pending'`); n != 8000 {
				t.Errorf("%d events are pending, want 8000", n)
			}
			// What was claimed has its marks where reading came to, whether a shard had an event there or not.
			if n := value[int](f, `select count(*) from postrider.outbox_shard where low_water = $1`, c.dense.high); n != 32 {
				t.Errorf("%d marks are at %d, want 32", n, c.dense.high)
			}
			f.wantNoneSunken()
		})
	}
}

// wantNoneSunken checks that no mark has passed a pending event.
func (f *fixture) wantNoneSunken() {
	f.Helper()
	if n := value[int](f, `select count(*) from postrider.outbox_event e join postrider.outbox_shard s using (shard) where e.state = 'pending' and e.id <= s.low_water`); n != 0 {
		f.Errorf("the marks have passed %d pending events", n)
	}
}

// TestDenseSettlesWhatItRead: whatever happens to events of the range between claim and settle, what was
// acknowledged is settled and nothing else is.
func TestDenseSettlesWhatItRead(t *testing.T) {
	t.Parallel()
	const at, free = 999, 1000
	for name, c := range map[string]struct {
		meanwhile string // done to event 999, which the batch has; there is no 1000
		others    int    // that are left in the range
	}{
		"changed by hand": {`update postrider.outbox_event set state = 'scheduled', next_attempt_at = now(), updated_at = now() where id = 999`, 0},
		"deleted by hand": {`delete from postrider.outbox_event where id = 999`, 0},
		"a late one": {`insert into postrider.outbox_event (id, topic, key) overriding system value
			select 1000, topic, key from postrider.outbox_event where id = 999`, 1},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.store, _ = f.open(Options{}, StoreOptions{DeletePublished: true})
			f.deep(4000)
			f.exec(`delete from postrider.outbox_event where id = $1`, free)
			claim := f.densely(relay.Limits{Events: 2000})
			ids := claimed(claim)
			if !slices.Contains(ids, at) || claim.dense.high <= free || claim.final < claim.dense.high {
				t.Fatalf("read up to %d, final up to %d, and event %d: %v", claim.dense.high, claim.final, at, slices.Contains(ids, at))
			}
			f.exec(c.meanwhile)
			f.settle(claim, &relay.Settlement{Delivered: ids})
			if n := value[int](f, `select count(*) from postrider.outbox_event where id = any ($1)`, ids); n != 0 {
				t.Errorf("%d events of the batch are left", n)
			}
			if n := value[int](f, `select count(*) from postrider.outbox_event where id <= $1 and state = 'pending'`, claim.dense.high); n != c.others {
				t.Errorf("%d others of the range are left, want %d", n, c.others)
			}
			if f.store.dense.ranges != 0 || f.store.dense.on {
				t.Error("it was settled as a range, or the next claim would read densely")
			}
		})
	}
}

// TestDenseBesideAnOpenTransaction: while somebody may commit an event into the range, it is settled by ids, and
// the late event goes next.
func TestDenseBesideAnOpenTransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.deeper(500)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var late int64
	if err := tx.QueryRow(t.Context(), `insert into postrider.outbox_event (topic, key) values ('t', 'key 7') returning id`).Scan(&late); err != nil {
		t.Fatal(err)
	}
	f.deeper(5000)
	for range 3 {
		f.raise()
	}
	c := f.densely(relay.Limits{Events: 2000})
	if c.dense.high <= late || c.final >= c.dense.high || slices.Contains(claimed(c), late) {
		t.Fatalf("read up to %d, final up to %d, with an uncommitted event %d", c.dense.high, c.final, late)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.settle(c, &relay.Settlement{Delivered: claimed(c)})
	if f.store.dense.ranges != 0 {
		t.Error("it was settled as a range")
	}
	if got := value[string](f, `select state::text from postrider.outbox_event where id = $1`, late); got != "pending" {
		t.Fatalf("the late event is %s", got)
	}
	f.wantNoneSunken()
	next := f.densely(relay.Limits{Events: 2000})
	if !slices.Contains(claimed(next), late) {
		t.Error("the next claim does not have the late event")
	}
	next.Abandon()
}

// TestDenseFindsTooLittle: then the claim walks along each shard, at once, and the next ones do for a while.
func TestDenseFindsTooLittle(t *testing.T) {
	t.Parallel()
	skip := func(f *fixture) { f.exec(`select setval('postrider.outbox_event_id_seq', 1000000)`) }
	for name, c := range map[string]struct {
		write  func(f *fixture)
		limits relay.Limits
	}{
		"a small backlog":          {func(f *fixture) { f.deep(700) }, relay.Limits{Events: 5000}},
		"a gap in the ids":         {func(f *fixture) { f.deep(50); skip(f); f.deep(8000) }, relay.Limits{Events: 2000}},
		"a shard that lags behind": {func(f *fixture) { f.insert("key 1"); skip(f); f.deep(8000) }, relay.Limits{Events: 2000}},
		"a key that writes most": {func(f *fixture) {
			f.exec(`insert into postrider.outbox_event (topic, key) select 't', (case when i % 10 = 0 then 'key ' || i else 'hot' end)::bytea from generate_series(1, 8000) i`)
		}, relay.Limits{Events: 2000}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			c.write(f)
			f.store.dense.on = true
			claim := f.claimBy(f.store, c.limits).(*claim)
			if claim.dense.tried || claim.dense.high != 0 || f.store.dense.on {
				t.Errorf("read densely up to %d, and the next claim would: %v", claim.dense.high, f.store.dense.on)
			}
			f.wantFront(claim)
			count, ids := map[int16]int{}, claimed(claim)
			for _, e := range claim.Batch().Events {
				count[e.Shard]++
			}
			for shard, n := range count {
				if n > claim.Batch().PerShard {
					t.Errorf("%d events of shard %d, more than its share of %d", n, shard, claim.Batch().PerShard)
				}
			}
			walk := f.sameByWalking(claim, c.limits)
			if !slices.Equal(ids, walk) {
				t.Errorf("claimed %d events, want %d, as by walking", len(ids), len(walk))
			}
		})
	}
}

// TestDenseTakesEnoughShards: a worker whose share of the shards is small takes more of them where reading densely
// pays, and finds that out by a walk of its share.
func TestDenseTakesEnoughShards(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.deep(20_000)
	eighth := relay.Limits{Events: 2000, Shards: outbox.Shards / 8}
	first := f.claimBy(f.store, eighth).(*claim)
	if first.dense.tried || first.dense.locked != 8 || !f.store.dense.on {
		t.Fatalf("the first claim locked %d shards; the next would read densely: %v", first.dense.locked, f.store.dense.on)
	}
	first.Abandon()
	var all []*claim
	for range outbox.Shards / denseShards {
		c := f.claimBy(f.store, eighth).(*claim)
		if !c.dense.tried || c.dense.locked != denseShards || c.dense.high == 0 {
			t.Errorf("locked %d shards and read densely up to %d", c.dense.locked, c.dense.high)
		}
		f.wantFront(c)
		all = append(all, c)
	}
	// The fifth finds none, which is no reason to stop.
	for range 20 {
		f.nothing()
	}
	if !f.store.dense.on {
		t.Error("reading densely stopped because others have the shards")
	}
	for _, c := range all {
		f.settle(c, &relay.Settlement{Delivered: free(c)})
	}
}

// TestDenseWithoutEnoughShards: where others keep most shards, claims wait a few times for more to become free, and
// then walk along what there is.
func TestDenseWithoutEnoughShards(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.deep(8000)
	f.busy(numbers(denseShards-1, outbox.Shards)...)
	f.store.dense.on = true
	for range 3 {
		if c, err := f.store.Claim(t.Context(), half); c != nil || err != nil {
			t.Fatalf("claimed %v with %d shards free: %v", c, denseShards-1, err)
		}
		f.store.dense.lack = time.Now().Add(time.Hour) // however long the next one takes
	}
	f.store.dense.lack = time.Now().Add(-denseShort)
	c := f.claimBy(f.store, half).(*claim)
	defer c.Abandon()
	if c.dense.tried || c.dense.high != 0 || c.dense.locked != denseShards-1 || f.store.dense.on {
		t.Errorf("locked %d shards, read %d events, densely up to %d; the next reads densely: %v", c.dense.locked, len(c.Batch().Events), c.dense.high, f.store.dense.on)
	}
	f.wantFront(c)
}

func numbers(from, to int) (all []int16) {
	for n := from; n < to; n++ {
		all = append(all, int16(n))
	}
	return all
}

// sameByWalking gives a claim back and claims the same shards by walking.
func (f *fixture) sameByWalking(c *claim, l relay.Limits) []int64 {
	f.Helper()
	c.Abandon()
	f.store.dense.on = false
	again := f.claimBy(f.store, l)
	defer again.Abandon()
	return claimed(again)
}

// TestDenseRests: each time in a row that too little is found it rests for longer, and not forever.
func TestDenseRests(t *testing.T) {
	t.Parallel()
	var d dense
	var rests []int
	for range 9 {
		d.on = true
		d.failed()
		n := 0
		for d.walked(true); !d.on; d.walked(true) {
			n++
		}
		rests = append(rests, n)
	}
	if want := []int{0, 1, 2, 4, 8, 16, 32, 64, 64}; !slices.Equal(rests, want) {
		t.Errorf("it rested for %v walks, want %v", rests, want)
	}
	d.paid()
	d.failed()
	if d.walked(true); !d.on {
		t.Error("after it paid it rests as before")
	}
	if d.walked(false); d.on {
		t.Error("it goes on where walks say that it would not pay")
	}
	d.on = true
	if d.due(denseFrom - 1) {
		t.Error("small batches are read densely")
	}
}

// TestDenseIsBoundedInBytes, and takes the front of each shard of what does not fit.
func TestDenseIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.deep(4000)
	f.exec(`update postrider.outbox_event set payload = decode(repeat('ab', 20000), 'hex') where id % 100 = 0`)
	for _, bytes := range []int64{20_000, 200_000, 1 << 30} {
		c := f.densely(relay.Limits{Events: 2000, Bytes: bytes})
		total := int64(0)
		for _, e := range c.Batch().Events {
			total += int64(len(e.Key) + len(e.Payload))
			if want := 1; e.ID%100 == 0 && len(e.Payload) != 20000 || e.ID%100 != 0 && len(e.Payload) != want {
				t.Errorf("event %d has a payload of %d bytes", e.ID, len(e.Payload))
			}
		}
		if total > bytes {
			t.Errorf("claimed %d bytes, want at most %d", total, bytes)
		}
		if whole := len(c.Batch().Events) == 2000; whole != (bytes == 1<<30) || whole != (c.dense.high > 0) {
			t.Errorf("within %d bytes: %d events, all up to %d", bytes, len(c.Batch().Events), c.dense.high)
		}
		c.Abandon()
	}
}

// TestDenseDrain lets two relays empty a backlog with holes, late ids and events that do not go, settling as
// it comes: every event goes once, in the order of its key, and most by ranges.
func TestDenseDrain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	random := rand.New(rand.NewPCG(1, 2))
	f.exec(`alter table postrider.outbox_event set (autovacuum_enabled = off)`)
	for range 12 {
		f.deeper(2000)
		f.exec(`select setval('postrider.outbox_event_id_seq', nextval('postrider.outbox_event_id_seq') + $1)`, random.IntN(3000))
	}
	f.exec(`delete from postrider.outbox_event where id % 7 = 0`)
	want := value[int](f, `select count(*) from postrider.outbox_event`)
	other, _ := f.open(Options{}, StoreOptions{})
	stores := []*Store{f.store, other}
	f.raise()
	other.water.final.Store(f.store.water.final.Load())
	sent, last := map[int64]bool{}, map[string]int64{}
	var open []relay.Claim
	settleFirst := func() {
		c := open[0]
		open = open[1:]
		s := &relay.Settlement{}
		held := map[int16]bool{}
		for _, e := range c.Batch().Events {
			if held[e.Shard] = held[e.Shard] || random.IntN(20_000) == 0; held[e.Shard] {
				continue // it stays pending, with what follows
			}
			if sent[e.ID] || e.ID < last[string(e.Key)] {
				t.Errorf("event %d goes again, or after %d of its key", e.ID, last[string(e.Key)])
			}
			sent[e.ID], last[string(e.Key)] = true, e.ID
			s.Delivered = append(s.Delivered, e.ID)
		}
		f.settle(c, s)
	}
	for n := 0; ; n++ {
		c, err := stores[n%2].Claim(t.Context(), relay.Limits{Worker: fmt.Sprintf("host:1:aaaa/%d", n), First: random.IntN(64), Shards: 32, Events: 1200})
		if err != nil {
			t.Fatal(err)
		}
		if c != nil {
			open = append(open, c)
		}
		if len(open) == 0 {
			break
		}
		if c == nil || len(open) == 2 {
			settleFirst()
		}
		if n > 1000 {
			t.Fatal("it does not end")
		}
	}
	if len(sent) != want {
		t.Errorf("%d events went, want %d", len(sent), want)
	}
	if n := value[int](f, `select count(*) from postrider.outbox_event where state <> 'published'`); n != 0 {
		t.Errorf("%d events are not published", n)
	}
	if ranges := f.store.dense.ranges + other.dense.ranges; ranges < 10 {
		t.Errorf("%d batches were settled as ranges, want most", ranges)
	}
	f.wantNoneSunken()
}

// TestFinalIsKnownBeforeTheFirstLargeClaim, where nobody writes, and soon after where somebody does.
func TestFinalIsKnownBeforeTheFirstLargeClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.deeper(5000)
	c := f.claimBy(f.store, half).(*claim)
	if c.final != 5000 {
		t.Errorf("ids up to %d are final, want 5000", c.final)
	}
	f.settle(c, &relay.Settlement{Delivered: claimed(c)})
	// Within what is final nobody asks.
	looked := f.store.water.looked
	c = f.claimBy(f.store, half).(*claim)
	if f.store.water.looked != looked {
		t.Error("a claim looked at the marks for nothing")
	}
	c.Abandon()
	other, _ := f.open(Options{}, StoreOptions{})
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `insert into postrider.outbox_event (topic) values ('t')`); err != nil {
		t.Fatal(err)
	}
	c = f.claimBy(other, half).(*claim)
	c.Abandon()
	if c.final != 0 {
		t.Errorf("beside an open transaction ids up to %d are final", c.final)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.water.looked = other.water.looked.Add(-hurryFirst)
	c = f.claimBy(other, half).(*claim)
	c.Abandon()
	if c.final != 5001 {
		t.Errorf("after it ended, ids up to %d are final, want 5001", c.final)
	}
}

// TestDensePlans: see TestPlansWithStaleStatistics.
func TestDensePlans(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*fixture){
		"stale statistics": func(*fixture) {},
		"misleading statistics": func(f *fixture) {
			f.exec(`insert into postrider.outbox_event (topic, key, payload) select 'orders', 'a', 'x' from generate_series(1, 20000)`)
			f.exec(`analyze postrider.outbox_event`)
		},
		"partitions": func(f *fixture) { f.partition(20_000) },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			prepare(f)
			if name == "partitions" {
				f.deeper(50_000)
			} else {
				load(f)
			}
			wantPlan(f, "claim_dense", "5000, 6710, 4, 8"+someMarks, "outbox_event_pkey")
			for _, query := range []string{"settle_dense_deleted", "settle_dense_published"} {
				wantPlan(f, query, fmt.Sprintf("700, %d", int64(math.MaxInt64)), "outbox_event_pkey")
				wantPlan(f, query, "700, 1000", "outbox_event_pkey")
			}
		})
	}
}
