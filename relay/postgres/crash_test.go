package postgres

import (
	"testing"

	"github.com/postrider/postrider/relay"
)

// claimAs claims as a worker of a process and marks the batch.
func (f *fixture) claimAs(worker string) relay.Claim {
	f.Helper()
	c := f.claimBy(f.store, relay.Limits{Worker: worker})
	if err := c.Mark(f.Context()); err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *fixture) wantCrashes(c relay.Claim, n int, first, last int64) {
	f.Helper()
	if b := c.Batch(); b.Crashes != n || b.SuspectFirst != first || b.SuspectLast != last {
		f.Errorf("the claim knows of %d deaths over events %d to %d, want %d over %d to %d", b.Crashes, b.SuspectFirst, b.SuspectLast, n, first, last)
	}
}

// die ends the session of a claim as the death of its process would.
func (f *fixture) die(c relay.Claim) {
	f.Helper()
	f.kill(c)
	c.(*claim).rollback() // gives the connection back to the pool of this process, which lives
}

func TestDeathsOverABatchAreCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b", "c")
	c := f.claimAs("host:1:aaaa/0")
	f.wantCrashes(c, 0, 0, 0)
	f.nothing()
	f.die(c)

	c = f.claimAs("host:2:bbbb/0")
	f.wantCrashes(c, 1, 1, 3)
	f.die(c)
	f.insert("d") // comes later: it killed nobody
	c = f.claimAs("host:3:cccc/3")
	f.wantCrashes(c, 2, 1, 3)
	if n := value[int](f, `select count(*) from postrider.outbox_batch`); n != 1 {
		t.Errorf("there are %d markers, want that of the living", n)
	}
	f.die(c)
	c = f.claimAs("host:4:dddd/0")
	f.wantCrashes(c, 3, 1, 3)
	f.settle(c, &relay.Settlement{Delivered: []int64{1, 2}})

	c = f.claimAs("host:4:dddd/0") // a batch that was settled is no suspect any more
	f.wantCrashes(c, 0, 0, 0)
	c.Abandon()
	if n := value[int](f, `select count(*) from postrider.outbox_batch`); n != 0 {
		t.Errorf("%d markers stay", n)
	}
}

// TestDeathsOverWhatIsGoneAreForgotten: when the events that killed are settled, later deaths over others
// count from the beginning, over those. Otherwise an event that kills after them is never tried alone.
func TestDeathsOverWhatIsGoneAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a")
	for _, worker := range []string{"host:1:aaaa/0", "host:2:bbbb/0", "host:3:cccc/0"} {
		f.die(f.claimAs(worker))
	}
	f.exec(`update postrider.outbox_event set state = 'exhausted'`)
	f.insert("a", "a")
	c := f.claimAs("host:4:dddd/0")
	f.wantCrashes(c, 0, 0, 0)
	f.die(c)
	c = f.claimAs("host:5:eeee/0")
	f.wantCrashes(c, 1, 3, 4)
	c.Abandon()
}

// TestSuspectsStayUntilTheyWereTried: as long as they are tried one at a time, the marker stays for the
// rest, with its count.
func TestSuspectsStayUntilTheyWereTried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a")
	for _, worker := range []string{"host:1:aaaa/0", "host:2:bbbb/0", "host:3:cccc/0"} {
		f.die(f.claimAs(worker))
	}
	c := f.claimAs("host:4:dddd/0")
	f.wantCrashes(c, 3, 1, 3)
	f.settle(c, &relay.Settlement{Delivered: []int64{1}, TriedThrough: 1})
	c = f.claimAs("host:4:dddd/1")
	f.wantCrashes(c, 3, 2, 3)
	f.die(c) // its own connection only
	c = f.claimAs("host:4:dddd/0")
	f.wantCrashes(c, 3, 2, 3)
	f.settle(c, &relay.Settlement{Exhausted: []relay.Failure{*failure(2, 5)}, TriedThrough: 2})
	c = f.claimAs("host:5:eeee/0")
	f.wantCrashes(c, 4, 3, 3)
	f.settle(c, &relay.Settlement{TriedThrough: 3})
	c = f.claimAs("host:5:eeee/0")
	f.wantCrashes(c, 0, 0, 0)
	c.Abandon()
}

// TestDeathsAreCountedPerShard: who takes over some shards of a dead worker says nothing about the others.
func TestDeathsAreCountedPerShard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b")
	if value[int](f, `select count(distinct shard) from postrider.outbox_event`) != 2 {
		t.Fatal("the keys of this test are in one shard")
	}
	f.die(f.claimAs("host:1:aaaa/0"))
	for range 2 {
		c := f.claimBy(f.store, relay.Limits{Worker: "host:2:bbbb/0", Shards: 1})
		if n := c.Batch().Crashes; n != 1 {
			t.Errorf("the claim of %v knows of %d deaths", claimed(c), n)
		}
		if err := c.Mark(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.settle(c, &relay.Settlement{Delivered: claimed(c)})
	}
	if n := value[int](f, `select count(*) from postrider.outbox_batch`); n != 0 {
		t.Errorf("%d markers stay", n)
	}
}

// TestOwnLostConnectionIsNoDeath: a process that only lost its connection claims again.
func TestOwnLostConnectionIsNoDeath(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	for range 4 {
		c := f.claimAs("host:1:aaaa/0")
		f.wantCrashes(c, 0, 0, 0)
		f.die(c)
		c = f.claimAs("host:1:aaaa/1") // another worker of the same process
		if got := c.Batch().Crashes; got != 0 {
			t.Errorf("%d deaths are counted", got)
		}
		c.Abandon()
	}
	c := f.claimAs("host:1:aaaab/0") // whose name only begins like ours
	f.wantCrashes(c, 0, 0, 0)
	f.die(c)
	c = f.claimAs("host:1:aaaa/0")
	f.wantCrashes(c, 1, 1, 1)
	c.Abandon()
}

// TestDeathBeforeTheMarkIsNoDeath: nothing was sent yet.
func TestDeathBeforeTheMarkIsNoDeath(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	c := f.claimBy(f.store, relay.Limits{Worker: "host:1:aaaa/0"})
	f.die(c)
	c = f.claimAs("host:2:bbbb/0")
	f.wantCrashes(c, 0, 0, 0)
	c.Abandon()
}

func TestMarkIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b", "-")
	c := f.claimAs("host:1:aaaa/2")
	got := value[string](f, `select concat_ws(' ', worker, cardinality(shards), first_id, last_id, events, crashes, claimed_at > now() - interval '1 minute') from postrider.outbox_batch`)
	if got != "host:1:aaaa/2 3 1 3 3 0 t" {
		t.Errorf("the marker says %s", got)
	}
	if got := value[string](f, `select string_agg(concat_ws(' ', status, locked_by), ', ' order by id) from postrider.v_outbox_event`); got != "processing host:1:aaaa/2, processing host:1:aaaa/2, processing host:1:aaaa/2" {
		t.Errorf("the view says %s", got)
	}
	f.settle(c, &relay.Settlement{Delivered: []int64{1, 2, 3}})
	if n := value[int](f, `select count(*) from postrider.outbox_batch`); n != 0 {
		t.Errorf("%d markers stay", n)
	}
}

func TestFailedMark(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	f.exec(`create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$`)
	f.exec(`create trigger refuse before insert on postrider.outbox_batch execute function refuse()`)
	c := f.claim()
	if err := c.Mark(t.Context()); err == nil {
		t.Error("marked although it was refused")
	}
	c.Abandon()
	f.exec(`drop trigger refuse on postrider.outbox_batch`)
	f.settle(f.claimAs("host:1:aaaa/0"), &relay.Settlement{Delivered: []int64{1}})
}

// TestAttemptsAreCountedBesideTheClaim: the count must survive what the attempt may do to this process.
func TestAttemptsAreCountedBesideTheClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	c := f.claimAs("host:1:aaaa/0")
	for want := 1; want <= 3; want++ {
		if n, err := c.CountAttempt(t.Context(), 1); n != want || err != nil {
			t.Errorf("CountAttempt() = %d, %v, want %d", n, err, want)
		}
	}
	f.die(c)
	f.wantStates("1:pending(3)")
	c = f.claimAs("host:2:bbbb/0")
	defer c.Abandon()
	if n, err := c.CountAttempt(t.Context(), 99); err == nil {
		t.Errorf("counted %d attempts of an event that is not there", n)
	}
}

func TestProcessOf(t *testing.T) {
	t.Parallel()
	for worker, want := range map[string]string{"host:1:aaaa/0": "host:1:aaaa/", "a/b/12": "a/b/", "alone": "alone", "": ""} {
		if got := processOf(worker); got != want {
			t.Errorf("processOf(%q) = %q, want %q", worker, got, want)
		}
	}
}

// TestAbandonKeepsWhatIsKnownOfDeaths: a batch that is given back, because no broker answers, is as suspect as before,
// to this process and to others, and giving it back is no death. Nobody is said to work on it meanwhile.
func TestAbandonKeepsWhatIsKnownOfDeaths(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b", "c")
	for _, worker := range []string{"host:1:aaaa/0", "host:2:bbbb/0", "host:3:cccc/0"} {
		f.die(f.claimAs(worker))
	}
	for _, worker := range []string{"host:4:dddd/0", "host:4:dddd/1", "host:5:eeee/0"} {
		c := f.claimAs(worker)
		f.wantCrashes(c, 3, 1, 3)
		if n := value[int](f, `select count(*) from postrider.v_outbox_event where locked_by = $1`, worker); n != 3 {
			t.Errorf("%d events are with %s, want all", n, worker)
		}
		c.Abandon()
		if n := value[int](f, `select count(*) from postrider.v_outbox_event where status <> 'pending' or locked_by is not null`); n != 0 {
			t.Errorf("%d events are with somebody after %s gave them back", n, worker)
		}
	}
}

// TestAttemptsAreTakenBack when what was counted in case it killed turned out to be an outage: by the settlement, and
// by giving the claim back. Otherwise three outages would be three deaths.
func TestAttemptsAreTakenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b")
	f.exec(`update postrider.outbox_event set attempts = 2, updated_at = now() where id = 1`)
	attempts := func(want int) {
		t.Helper()
		if n := value[int](f, `select attempts from postrider.outbox_event where id = 1`); n != want {
			t.Errorf("%d attempts, want %d", n, want)
		}
	}
	count := func() relay.Claim {
		t.Helper()
		c := f.claimAs("host:1:aaaa/0")
		if n, err := c.CountAttempt(t.Context(), 1); n != 3 || err != nil {
			t.Fatalf("CountAttempt() = %d, %v", n, err)
		}
		attempts(3)
		return c
	}
	f.die(count()) // a death is not taken back
	attempts(3)
	f.exec(`update postrider.outbox_event set attempts = 2 where id = 1`)

	count().Abandon()
	attempts(2)
	c := count()
	s := parkAll(c, topicHold("t", 0))
	s.Uncounted, s.TriedThrough = 1, 1
	f.settle(c, s)
	attempts(2)
	f.wantStates("1:parked(2) 2:parked")
}
