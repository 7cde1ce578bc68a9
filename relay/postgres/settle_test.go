package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/relay"
)

func TestSettleDelivered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b", "a")
	f.exec(`update postrider.outbox_event set attempts = 2, next_attempt_at = now() where id = 1`)
	f.settle(f.claim(), &relay.Settlement{Delivered: []int64{1, 2}})
	f.wantStates("1:published(2) 2:published 3:pending")
	if !value[bool](f, `select sent_at is not null and next_attempt_at is null from postrider.outbox_event where id = 1`) {
		t.Error("a published event has no time of sending, or is still to be tried")
	}
	f.settle(f.claim(), &relay.Settlement{Delivered: []int64{3}})
	f.nothing()
}

func TestSettleDeliveredByDeleting(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store, _ := f.open(Options{}, StoreOptions{DeletePublished: true})
	f.insert("a", "b")
	f.settle(f.claimBy(store, relay.Limits{}), &relay.Settlement{Delivered: []int64{1}})
	f.wantStates("2:pending")
}

func TestSettleExhausted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b")
	f.exec(`update postrider.outbox_event set first_error_at = '2026-01-02', episode = 3 where id = 2`)
	f.settle(f.claim(), &relay.Settlement{Exhausted: []relay.Failure{
		{ID: 1, Attempts: 1, Class: relay.Permanent, Code: "MESSAGE_TOO_LARGE", Error: "too large"},
		{ID: 2, Attempts: 5, Class: relay.Record, Code: "X", Error: "no"},
	}})
	f.wantStates("1:exhausted(1) 2:exhausted(5)")
	for id, want := range map[int]string{1: "1 permanent MESSAGE_TOO_LARGE too large true", 2: "4 record X no false"} {
		got := value[string](f, `select concat_ws(' ', episode, last_error_class, last_error_code, last_error, case when first_error_at = last_error_at
			or first_error_at > now() - interval '1 minute' then 'true' else 'false' end) from postrider.outbox_event where id = $1`, id)
		if got != want {
			t.Errorf("event %d: %s, want %s", id, got, want)
		}
	}
}

func TestSettleScheduled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("-", "-", "-")
	f.exec(`update postrider.outbox_event set available_at = now() + interval '1 hour' where id = 1`)
	f.settle(f.claim(), &relay.Settlement{Scheduled: []relay.Schedule{
		{ID: 1}, {ID: 2, In: 10 * time.Minute, Failure: failure(2, 3)}, {ID: 3, In: 1},
	}})
	f.wantStates("1:scheduled 2:scheduled(3) 3:scheduled")
	for id, want := range map[int]time.Duration{1: time.Hour, 2: 10 * time.Minute, 3: 0} {
		if got := value[float64](f, `select extract(epoch from next_attempt_at - now())::float8 from postrider.outbox_event where id = $1`, id); got > want.Seconds()+1 || got < want.Seconds()-30 {
			t.Errorf("event %d comes back in %v s, want %v", id, got, want)
		}
	}
	if got := value[string](f, `select concat_ws(' ', last_error_class, last_error_code, last_error, first_error_at = last_error_at) from postrider.outbox_event where id = 2`); got != "record X why t" {
		t.Errorf("event 2 failed with %s", got)
	}
	if !value[bool](f, `select last_error is null and first_error_at is null and attempts = 0 from postrider.outbox_event where id = 1`) {
		t.Error("a delayed event looks like a failed one")
	}
}

func TestSettleParked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "b")
	c := f.claim()
	s := parkAll(c, topicHold("t", time.Minute))
	s.Holds = append(s.Holds, keyHold("a", time.Hour))
	for i := range s.Parked {
		if s.Parked[i].ID <= 2 {
			s.Parked[i].Hold = 1
		}
		if s.Parked[i].ID == 1 {
			s.Parked[i].Failure = failure(1, 4)
		}
	}
	f.settle(c, s)
	f.wantStates("1:parked(4) 2:parked 3:parked")
	for id, want := range map[int]string{1: "key", 2: "key", 3: "topic"} {
		if got := value[string](f, `select scope from postrider.outbox_event join postrider.outbox_hold using (hold_id) where id = $1`, id); got != want {
			t.Errorf("event %d waits for a hold of a %s", id, got)
		}
	}
	got := value[string](f, `select concat_ws(' ', topic, convert_from(key, 'UTF8'), cause, error_code, error, event_id, probes, draining) from postrider.outbox_hold where scope = 'key'`)
	if want := fmt.Sprintf("t a retry X why %s 1 f", s.Holds[1].EventID); got != want {
		t.Errorf("the hold is %s, want %s", got, want)
	}
	f.nothing()
}

func TestSettleNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	f.settle(f.claim(), &relay.Settlement{})
	f.wantStates("1:pending")
	f.settle(f.claim(), &relay.Settlement{Delivered: []int64{1}})
}

// TestSettleLeavesAloneWhatIsNotItsOwn: only pending events are given up, parked or scheduled.
func TestSettleLeavesAloneWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "a")
	c := f.claim()
	f.exec(`update postrider.outbox_event set state = 'published'`) // by somebody who broke the rules
	s := parkAll(c, keyHold("a", 0))
	s.Parked = s.Parked[:1]
	s.Exhausted = []relay.Failure{*failure(2, 1)}
	s.Scheduled = []relay.Schedule{{ID: 3, In: 1}}
	f.settle(c, s)
	f.wantStates("1:published 2:published 3:published")
}

func TestSettleFailsWithItsConnection(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	c := f.claim()
	if err := c.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.kill(c)
	var pg *pgconn.PgError
	err := c.Settle(t.Context(), parkAll(c, keyHold("a", 0)))
	if err == nil || errors.As(err, &pg) && pg.Code != "57P01" {
		t.Errorf("settle on a dead connection: %v", err)
	}
	f.wantStates("1:pending")
	c = f.claim() // the pool lives on
	f.settle(c, &relay.Settlement{Delivered: []int64{1}})
	f.wantStates("1:published")
}

// kill ends the database session of a claim.
func (f *fixture) kill(c relay.Claim) {
	f.Helper()
	pid := c.(*claim).conn.Conn().PgConn().PID()
	f.exec(`select pg_terminate_backend($1)`, pid)
	f.waitFor(`select not exists (select from pg_stat_activity where pid = $1)`, pid)
}

// TestSettleTakesAnyText: what a broker writes into an error must not keep a batch from being settled.
func TestSettleTakesAnyText(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, text := range map[string]string{
		"NUL": "a\x00b", "broken UTF-8": "\xff\xfea\xc3", "long": strings.Repeat("ü", 1<<20), "cut inside a character": strings.Repeat("a", maxTextBytes-1) + "ü",
		"only NUL": strings.Repeat("\x00", 1<<16), "quotes": `'"\{},(;--`, "empty": "",
	} {
		ids := f.insert("a", "b", "-")
		fail := relay.Failure{ID: ids[0], Attempts: 1, Class: relay.Record, Code: text, Error: text}
		parked, scheduled := fail, fail
		parked.ID, scheduled.ID = ids[1], ids[2]
		c := f.claim()
		h := keyHold("b"+text, 0)
		h.Code, h.Error = text, text
		var shard int16
		for _, e := range c.Batch().Events {
			if e.ID == ids[1] {
				shard = e.Shard
			}
		}
		f.settle(c, &relay.Settlement{
			Exhausted: []relay.Failure{fail},
			Holds:     []relay.HoldChange{h},
			Parked:    []relay.Park{{ID: ids[1], Shard: shard, Failure: &parked}},
			Scheduled: []relay.Schedule{{ID: ids[2], In: time.Hour, Failure: &scheduled}},
		})
		for _, id := range ids {
			got := value[string](f, `select last_error from postrider.outbox_event where id = $1`, id)
			if !utf8.ValidString(got) || len(got) > 3*maxTextBytes || len(got) == 0 != (len(text) == 0) {
				t.Errorf("%s: event %d has %d bytes of error", name, id, len(got))
			}
		}
	}
}

func TestSettleTakesAnyKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keys := [][]byte{{}, {0}, bytes.Repeat([]byte{0xff}, 3<<10), bytes.Repeat([]byte("k"), 100<<10), append(bytes.Repeat([]byte("k"), 100<<10), 'x')}
	var s relay.Settlement
	for i, key := range keys {
		f.exec(`insert into postrider.outbox_event (topic, key) values ('t', $1), ('t', $1)`, key)
		s.Holds = append(s.Holds, relay.HoldChange{Scope: relay.ScopeKey, Topic: "t", Key: key, Cause: relay.CauseRetry, EventID: uuid.New(), Probes: i})
	}
	c := f.claim()
	for _, e := range c.Batch().Events {
		i := slices.IndexFunc(keys, func(k []byte) bool { return bytes.Equal(k, e.Key) })
		s.Parked = append(s.Parked, relay.Park{ID: e.ID, Shard: e.Shard, Hold: i})
	}
	f.settle(c, &s)
	rows, err := f.pool.Query(t.Context(), `select key, probes, (select count(*) from postrider.outbox_event e where e.hold_id = h.hold_id and e.key = h.key) from postrider.outbox_hold h`)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var key []byte
	var probes, parked int
	_, err = pgx.ForEachRow(rows, []any{&key, &probes, &parked}, func() error {
		n++
		if !bytes.Equal(key, keys[probes]) || parked != 2 {
			t.Errorf("the hold of key %d has %d bytes of key and %d events of it", probes, len(key), parked)
		}
		return nil
	})
	if err != nil || n != len(keys) {
		t.Errorf("%d holds, %v", n, err)
	}
	f.due()
	f.turn(1000)
	c = f.claim()
	defer c.Abandon()
	if got := free(c); len(got) != len(keys) {
		t.Errorf("%v may go, want the first of each key", got)
	}
}

// TestFaultStaysAboveAWaitForOrder: a worker that has not seen the hold that another one has put in place for a fault
// puts its events behind it, and leaves it as it is. A fault takes the place of a wait.
func TestFaultStaysAboveAWaitForOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const look = `select concat_ws(' ', cause, error_code, probes, draining, next_probe_at > clock_timestamp()) from postrider.outbox_hold`
	wait := topicHold("t", 0)
	wait.Cause, wait.Code, wait.Draining, wait.Probes = relay.CauseCommitOrder, "OPEN_TRANSACTION", true, 0
	for n, c := range []struct {
		hold relay.HoldChange
		want string
	}{
		{wait, "commit_order OPEN_TRANSACTION 0 t f"},
		{wait, "commit_order OPEN_TRANSACTION 0 t f"},
		{topicHold("t", time.Hour), "infrastructure X 1 f t"},
		{wait, "infrastructure X 1 f t"},
	} {
		f.insert("a")
		claim := f.claim()
		f.settle(claim, parkAll(claim, c.hold))
		if got := value[string](f, look); got != c.want {
			t.Errorf("change %d: the hold is %s, want %s", n, got, c.want)
		}
	}
	f.wantStates("1:parked 2:parked 3:parked 4:parked")
}
