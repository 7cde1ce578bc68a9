package postgres

import (
	"regexp"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// named are the topics of the holds, in order.
func (f *fixture) named() string {
	f.Helper()
	return value[string](f, `select coalesce(string_agg(topic, ' ' order by topic), '') from postrider.outbox_hold`)
}

// heldFor puts holds in place that are probed after these waits, one topic each and nothing behind them: what is
// due ends.
func (f *fixture) heldFor(holds string) {
	f.Helper()
	f.exec(`insert into postrider.outbox_hold (topic, scope, cause, next_probe_at) select t, scope, cause, now() + wait::interval
		from (values ` + holds + `) as h(t, scope, cause, wait)`)
}

// TestClockPutBackUnderHolds: a hold whose probe is further ahead than any pause of its cause is due.
func TestClockPutBackUnderHolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const far = `('infrastructure', 'topic', 'infrastructure', '59 minutes'), ('route', 'topic', 'route', '59 minutes'),
		('storm', 'topic', 'storm', '59 minutes'), ('retry', 'topic', 'retry', '49 hours'), ('fence', 'topic', 'commit_order', '59 minutes')`
	f.heldFor(far)
	f.heldFor(`('in time 1', 'topic', 'infrastructure', '80 seconds'), ('in time 2', 'topic', 'route', '110 seconds'),
		('in time 3', 'topic', 'storm', '350 seconds'), ('in time 4', 'topic', 'retry', '48 hours'),
		('letters', 'dead_letter', 'route', '59 minutes')`)
	f.exec(`insert into postrider.outbox_hold (topic, scope, cause, next_probe_at) values ('never 1', 'topic', 'halted', 'infinity'), ('never 2', 'topic', 'redrive', 'infinity')`)
	if got := f.turn(1000); got != (relay.Returned{Holds: 5}) {
		t.Errorf("%+v, want five ends", got)
	}
	const left = "in time 1 in time 2 in time 3 in time 4 letters never 1 never 2"
	if got := f.named(); got != left {
		t.Errorf("the holds are %s, want %s", got, left)
	}
	if due := value[string](f, `select string_agg(topic, ' ') from postrider.outbox_hold where next_probe_at <= clock_timestamp()`); due != "letters" {
		t.Errorf("due are %s, want the letters", due)
	}

	// Later it is noticed at once that the clock was put back.
	f.heldFor(far)
	if got := f.turn(1000); got != (relay.Returned{}) {
		t.Fatalf("%+v before anybody looked again", got)
	}
	c := &f.store.clock
	c.mu.Lock()
	c.said = c.said.Add(time.Hour)
	c.mu.Unlock()
	f.turn(1000) // notices
	if got := f.turn(1000); got != (relay.Returned{Holds: 5}) {
		t.Errorf("%+v, want five ends", got)
	}
	if got := f.named(); got != left {
		t.Errorf("the holds are %s, want %s", got, left)
	}
}

// TestClockThatRunsOn is no reason to look, and neither is one that jumps ahead or is put back by a little.
func TestClockThatRunsOn(t *testing.T) {
	t.Parallel()
	var c clock
	said, heard := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Now()
	for _, s := range []struct {
		passed, shown time.Duration
		back          bool
	}{{0, 0, false}, {time.Hour, time.Hour, false}, {time.Second, time.Hour, false}, {12 * time.Second, 3 * time.Second, false}, {time.Second, -10 * time.Second, true}} {
		c.back = false
		said, heard = said.Add(s.shown), heard.Add(s.passed)
		c.hear(said, heard)
		if c.back != s.back {
			t.Errorf("after %v the clock shows %v more: put back is %v", s.passed, s.shown, c.back)
		}
	}
}

// TestClockPutBackUnderRetries: an event that waits for a retry further ahead than any delay is due; one that
// waits for the time that its writer named waits for it.
func TestClockPutBackUnderRetries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.insert("a", "b", "c", "d")
	f.exec(`update postrider.outbox_event set available_at = now() + interval '60 hours' where id = 3`)
	f.settle(f.claim(), &relay.Settlement{
		Scheduled: []relay.Schedule{{ID: 1, In: time.Hour, Failure: failure(1, 1)}, {ID: 2, In: time.Hour}, {ID: 3}, {ID: 4, In: time.Hour, Failure: failure(4, 1)}},
	})
	f.exec(`update postrider.outbox_event set next_attempt_at = now() + interval '49 hours' where id in (1, 2)`)
	shards := value[[]int16](f, `select array_agg(shard order by id) from postrider.outbox_event`)
	if shards[0] == shards[1] {
		t.Fatalf("events %v are in the shards %v: the first two must be apart", ids, shards)
	}
	tx := f.busy(shards[1])
	if got := f.turn(1000); got != (relay.Returned{Events: 1}) {
		t.Errorf("%+v, want the retry of the free shard", got)
	}
	f.wantStates("1:pending(1) 2:scheduled 3:scheduled 4:scheduled(1)")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.turn(1000); got != (relay.Returned{Events: 1}) {
		t.Errorf("%+v, want the other one", got)
	}
	f.wantStates("1:pending(1) 2:pending 3:scheduled 4:scheduled(1)")
	if stamped := value[bool](f, `select bool_and(updated_at is not null) from postrider.outbox_event`); !stamped {
		t.Error("a change is not stamped")
	}

	f.exec(`update postrider.outbox_event set next_attempt_at = now() + interval '49 hours' where id = 4`)
	f.turn(1000)
	f.wantStates("1:pending(1) 2:pending 3:scheduled 4:scheduled(1)")
	c := &f.store.clock
	c.mu.Lock()
	c.said = c.said.Add(time.Hour)
	c.mu.Unlock()
	f.turn(1000) // notices
	if got := f.turn(1000); got != (relay.Returned{Events: 1}) {
		t.Errorf("%+v after the clock was put back, want the last retry", got)
	}
	f.wantStates("1:pending(1) 2:pending 3:scheduled 4:pending(1)")
}

// TestClockPutBackUnderLetters: a letter that was refused waits a minute, and not a day more because the clock
// was put back; those in hand elsewhere are left to whoever has them.
func TestClockPutBackUnderLetters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b", "c", "d")
	f.exec(`update postrider.outbox_event set topic = 'u' where id > 2`)
	f.exec(`update postrider.outbox_event set state = 'exhausted', episode = 1, updated_at = now()`)
	l := f.letters(32)
	f.done(l.Settle(t.Context(), &relay.LetterSettlement{Postponed: letterIDs(l), PostponeFor: time.Minute}))
	putBack := func(ids ...int64) {
		f.exec(`update postrider.outbox_event set next_attempt_at = next_attempt_at + interval '1 day' where id = any ($1)`, ids)
	}
	waiting := func() string {
		return value[string](f, `select coalesce(string_agg(id::text, ' ' order by id), '') from postrider.outbox_event where next_attempt_at > clock_timestamp()`)
	}
	putBack(1, 3)
	f.turn(1000) // the first look of this store
	if got := waiting(); got != "2 4" {
		t.Errorf("the letters that still wait are %q, want those in time", got)
	}
	f.turn(1000) // there are no more

	// Later it is noticed at once, and a thousand at a time are no bound.
	f.exec(`insert into postrider.outbox_event (topic, state, next_attempt_at, updated_at)
		select 'u', 'exhausted', now() + interval '1 day', now() from generate_series(1, 2 * $1 + 1)`, pullLettersAtOnce)
	putBack(2, 4)
	tx, err := f.db.Conn(t).Begin(t.Context())
	f.done(err)
	_, err = tx.Exec(t.Context(), `select from postrider.outbox_event where id = 2 for update`)
	f.done(err)
	f.turn(1000)
	if got := value[int](f, `select count(*) from postrider.outbox_event where next_attempt_at > clock_timestamp()`); got != 2*pullLettersAtOnce+3 {
		t.Errorf("%d letters wait before anybody looked again", got)
	}
	c := &f.store.clock
	c.mu.Lock()
	c.said = c.said.Add(time.Hour)
	c.mu.Unlock()
	for range 5 { // notices, three times as many as go at once, and finds no more
		f.turn(1000)
	}
	if got := waiting(); got != "2" {
		t.Errorf("the letters that still wait are %.100q, want the one in hand", got)
	}
	f.done(tx.Rollback(t.Context()))
	l = f.letters(5000)
	defer l.Abandon()
	if got := letterIDs(l); len(got) != 2*pullLettersAtOnce+4 {
		t.Errorf("%d letters can be sent", len(got))
	}
}

// TestLongestRetry: who says how long retries wait has the clock's victims back sooner.
func TestLongestRetry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.heldFor(`('far', 'topic', 'retry', '59 minutes'), ('in time', 'topic', 'retry', '110 seconds')`)
	f.insert("a")
	f.settle(f.claim(), &relay.Settlement{Scheduled: []relay.Schedule{{ID: 1, In: time.Hour, Failure: failure(1, 1)}}})
	store, _ := f.open(Options{}, StoreOptions{LongestRetry: time.Minute})
	if got, err := store.Return(t.Context(), 1000, time.Second); err != nil || got != (relay.Returned{Events: 1, Holds: 1}) {
		t.Errorf("%+v, %v, want the event and the end of one hold", got, err)
	}
	if got := f.named(); got != "in time" {
		t.Errorf("the holds are on %s", got)
	}
}

// TestClockPutBackUnderBacklog: what was due when it was written is not delayed because the clock shows an
// earlier time now; later events of its key would overtake it.
func TestClockPutBackUnderBacklog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a")
	f.exec(`update postrider.outbox_event set created_at = created_at + interval '1 hour', available_at = available_at + interval '1 hour'`)
	f.exec(`update postrider.outbox_event set available_at = available_at + interval '1 second' where id = 2`) // by its writer
	c := f.claim()
	defer c.Abandon()
	for _, e := range c.Batch().Events {
		if e.Delayed != (e.ID == 2) {
			t.Errorf("event %d is delayed: %v", e.ID, e.Delayed)
		}
	}
}

// TestTimesAreConditionsOfIndexes: a time that is compared with the clock must end the walk along an index.
// Otherwise every turn looks at everything that waits for a later time.
func TestTimesAreConditionsOfIndexes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	load(f)
	for name, q := range map[string]struct{ args, condition string }{
		"due_shards":         {"", `Index Cond: \(.*next_attempt_at <= `},
		"return_scheduled":   {"1000", `Index Cond: \(.*next_attempt_at <= `},
		"find_far_scheduled": {"1000", `Index Cond: \(.*next_attempt_at > `},
		"pull_scheduled":     {"1000", `Index Cond: \(.*next_attempt_at > `},
		"due_holds":          {"null, 0, 500, null", `Index Cond: \(.*next_probe_at <= `},
		"pull_letters":       {"1000, 1000", `Index Cond: \(.*next_attempt_at.* > `},
		"pull_probes":        {"'{retry,route}'::text[], '{1,2}'::bigint[]", `Index Cond: \(.*next_probe_at > `},
	} {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			if plan := explain(f, name, q.args, mode); !regexp.MustCompile(q.condition).MatchString(plan) {
				t.Errorf("%s, %s: want %s in\n%s", name, mode, q.condition, plan)
			}
		}
	}
}
