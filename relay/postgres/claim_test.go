package postgres

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

func TestClaimReadsEventsAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := uuid.New()
	f.exec(`insert into postrider.outbox_event (topic, key, payload, headers, max_attempts, task_uuid, attempts, episode,
		first_error_at, last_error_at, last_error_class, last_error_code, last_error, available_at, created_at)
		values ('orders', '\x00ff', '\x00', '{"a":"b"}', 9, $1, 2, 1, '2026-01-02', '2026-01-03', 'record', 'X', 'why', '2026-01-04', '2026-01-01')`, task)
	f.exec(`insert into postrider.outbox_event (topic) values ('t'), ('t')`)
	f.exec(`insert into postrider.outbox_event (topic, key, payload, available_at) values ('t', '', '', now() + interval '1 hour')`)
	c := f.claim()
	defer c.Abandon()
	events := slices.SortedFunc(slices.Values(c.Batch().Events), func(a, b outbox.Event) int { return int(a.ID - b.ID) })
	if len(events) != 4 {
		t.Fatalf("claimed %d events, want 4", len(events))
	}
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	e := events[0]
	if e.Topic != "orders" || !bytes.Equal(e.Key, []byte{0, 255}) || !bytes.Equal(e.Payload, []byte{0}) || string(e.Headers) != `{"a": "b"}` ||
		e.MaxAttempts != 9 || e.TaskUUID != task || e.Attempts != 2 || e.Episode != 1 || e.State != outbox.Pending || e.Delayed ||
		e.LastErrorClass != "record" || e.LastErrorCode != "X" || e.LastError != "why" || e.EventID == uuid.Nil {
		t.Errorf("read %+v", e)
	}
	if !e.FirstErrorAt.Equal(day(2)) || !e.LastErrorAt.Equal(day(3)) || !e.CreatedAt.Equal(day(1)) {
		t.Errorf("times %v, %v, %v", e.FirstErrorAt, e.LastErrorAt, e.CreatedAt)
	}
	e = events[1]
	if e.Key != nil || e.Payload != nil || e.MaxAttempts != 0 || e.TaskUUID != uuid.Nil || !e.FirstErrorAt.IsZero() || !e.LastErrorAt.IsZero() ||
		e.LastErrorClass+e.LastErrorCode+e.LastError != "" || int64(e.Shard) != e.ID%outbox.Shards || e.Delayed {
		t.Errorf("read %+v", e)
	}
	if e = events[3]; e.Key == nil || e.Payload == nil || len(e.Key)+len(e.Payload) != 0 || !e.Delayed {
		t.Errorf("read %+v", e)
	}
}

func TestClaimTakesPendingEventsOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.nothing()
	f.insert("a", "b", "c", "d", "e")
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 'x', 'route', now())`)
	f.exec(`update postrider.outbox_event set state = 'published' where id = 1`)
	f.exec(`update postrider.outbox_event set state = 'parked', hold_id = 1 where id = 2`)
	f.exec(`update postrider.outbox_event set state = 'scheduled', next_attempt_at = now() where id = 3`)
	f.exec(`update postrider.outbox_event set state = 'exhausted' where id = 4`)
	f.exec(`update postrider.outbox_event set state = 'dead_lettered' where id = 5`)
	f.nothing()
	f.insert("f")
	c := f.claim()
	defer c.Abandon()
	if got := claimed(c); !slices.Equal(got, []int64{6}) {
		t.Errorf("claimed %v", got)
	}
}

func TestClaimIsInOrderAndShared(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		for k := range 40 {
			f.insert(fmt.Sprint("key ", k))
		}
	}
	shards := value[int](f, `select count(distinct shard) from postrider.outbox_event`)
	c := f.claim()
	last, seen := map[int16]int64{}, map[int16]bool{}
	previous := int16(-1)
	for _, e := range c.Batch().Events {
		if e.ID < last[e.Shard] {
			t.Errorf("event %d of shard %d comes after %d", e.ID, e.Shard, last[e.Shard])
		}
		if e.Shard != previous && seen[e.Shard] {
			t.Errorf("shard %d is not read in one go", e.Shard)
		}
		last[e.Shard], seen[e.Shard], previous = e.ID, true, e.Shard
	}
	if len(claimed(c)) != 120 || len(seen) != shards {
		t.Errorf("claimed %d events of %d shards, want 120 of %d", len(claimed(c)), len(seen), shards)
	}
	c.Abandon()

	// A bound is shared evenly, and reaches every locked shard, however small it is.
	for _, l := range []relay.Limits{{Events: 1}, {Events: shards}, {Events: 2 * shards}, {Shards: 3, Events: 4}} {
		c := f.claimBy(f.store, l)
		count := map[int16]int{}
		for _, e := range c.Batch().Events {
			count[e.Shard]++
		}
		locked := shards
		if l.Shards > 0 {
			locked = l.Shards
		}
		if len(count) != locked {
			t.Errorf("%+v: %d shards are claimed, want %d", l, len(count), locked)
		}
		for shard, n := range count {
			if n > max(1, l.Events/locked) {
				t.Errorf("%+v: %d events of shard %d", l, n, shard)
			}
		}
		c.Abandon()
	}
}

// TestClaimIsBoundedInBytes: large events come a few at a time, and one that is larger than the bound alone.
// What is claimed is the front of every shard, none takes more than its share and one event, and of all that
// fits something is there.
func TestClaimIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sizes := map[int64]int64{}
	for i, size := range []int{100, 400, 600, 100, 100_000, 100} {
		sizes[int64(i+1)] = int64(size)
		f.exec(`insert into postrider.outbox_event (topic, key, payload) values ('t', 'a', $1)`, make([]byte, size-1))
	}
	f.insert("b", "-") // of other shards, and small
	for _, bytes := range []int64{1, 100, 600, 1500, 3000, 90_000, 300_000, 1 << 30, 0} {
		c, err := f.store.Claim(t.Context(), relay.Limits{Worker: "w/0", Shards: outbox.Shards, Events: 64_000, Bytes: bytes})
		if err != nil {
			t.Fatal(err)
		}
		ids := claimed(c)
		total, ofA := int64(0), int64(0)
		next := int64(1)
		for _, e := range c.Batch().Events {
			size := int64(len(e.Key) + len(e.Payload))
			if want := sizes[e.ID]; want > 0 && size != want {
				t.Errorf("within %d bytes: event %d has %d bytes, want %d", bytes, e.ID, size, want)
			}
			total += size
			if string(e.Key) == "a" {
				if e.ID != next {
					t.Errorf("within %d bytes: claimed %v, not the front of the shard", bytes, ids)
				}
				next++
				if bytes > 0 && ofA >= bytes/3+1 {
					t.Errorf("within %d bytes: claimed %v, a shard has more than its share and one event", bytes, ids)
				}
				ofA += size
			}
		}
		switch {
		case len(ids) == 0, bytes > 0 && total > bytes && len(ids) > 1:
			t.Errorf("within %d bytes: claimed %v of %d bytes", bytes, ids, total)
		case (bytes == 0 || bytes > 1_000_000) && len(ids) != 8:
			t.Errorf("within %d bytes: claimed %v, want all", bytes, ids)
		case bytes == 600 && len(ids) < 3:
			t.Errorf("within %d bytes: claimed only %v", bytes, ids)
		}
		c.Abandon()
	}
}

func TestClaimBeginsAtTheGivenShard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 2 * outbox.Shards {
		f.insert("-") // spread over all shards by id
	}
	for _, first := range []int{0, 1, 31, 63} {
		c := f.claimBy(f.store, relay.Limits{First: first, Shards: 3})
		for _, e := range c.Batch().Events {
			if distance := (int(e.Shard) - first + 64) % 64; distance > 2 {
				t.Errorf("from shard %d: claimed shard %d", first, e.Shard)
			}
		}
		c.Abandon()
	}
}

func TestAbandonedClaimIsFree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	c := f.claim()
	f.nothing()
	if err := c.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Abandon()
	if n := value[int](f, `select count(*) from postrider.outbox_batch`); n != 0 {
		t.Errorf("%d markers stay", n)
	}
	c = f.claim()
	c.Abandon()
	f.wantStates("1:pending")
}

// TestConcurrentClaimsShareNoShard lets eight relays claim and settle as fast as they can.
func TestConcurrentClaimsShareNoShard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic, key) select 't', ('key ' || i % 200)::bytea from generate_series(1, 4000) i`)
	var mu sync.Mutex
	owner := map[int16]int{}
	sent := map[int64]int{}
	var wg sync.WaitGroup
	for n := range 8 {
		store, _ := f.open(Options{MaxConns: 3}, StoreOptions{})
		wg.Go(func() {
			for {
				c, err := store.Claim(t.Context(), relay.Limits{Worker: fmt.Sprintf("w%d/0", n), First: n * 8, Shards: 16, Events: 160})
				if err != nil {
					t.Error(err)
					return
				}
				if c == nil { // all is done, or the others have it
					var done bool
					err := f.pool.QueryRow(t.Context(), `select not exists (select from postrider.outbox_event where state = 'pending')`).Scan(&done)
					if err != nil || done {
						return
					}
					continue
				}
				mine := map[int16]bool{}
				mu.Lock()
				for _, e := range c.Batch().Events {
					if by, taken := owner[e.Shard]; taken && by != n {
						t.Errorf("shard %d is claimed by %d and %d", e.Shard, by, n)
					}
					owner[e.Shard] = n
					mine[e.Shard] = true
					sent[e.ID]++
				}
				mu.Unlock()
				s := &relay.Settlement{Delivered: claimed(c)}
				mu.Lock()
				for shard := range mine {
					delete(owner, shard)
				}
				mu.Unlock()
				if err := c.Settle(t.Context(), s); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for id, times := range sent {
		if times != 1 {
			t.Errorf("event %d was claimed %d times", id, times)
		}
	}
	if len(sent) != 4000 {
		t.Errorf("%d events were claimed, want 4000", len(sent))
	}
}

// TestClaimedBytes: null and empty stay apart, in whatever order they are read, and a key that is longer than
// what is read with its event comes whole.
func TestClaimedBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := strings.Repeat("k", 3<<20)
	values := []*string{nil, new(string), &[]string{"a"}[0], &long}
	want := map[int64][2]*string{}
	for _, key := range values {
		for _, payload := range values {
			want[int64(len(want)+1)] = [2]*string{key, payload}
			f.exec(`insert into postrider.outbox_event (topic, key, payload) values ('t', convert_to($1::text, 'UTF8'), convert_to($2::text, 'UTF8'))`, key, payload)
		}
	}
	show := func(b []byte) string {
		switch {
		case b == nil:
			return "null"
		case len(b) > 10:
			return fmt.Sprintf("%d bytes", len(b))
		}
		return fmt.Sprintf("%q", b)
	}
	wanted := func(s *string) []byte {
		if s == nil {
			return nil
		}
		return []byte(*s)
	}
	c := f.claim()
	if n := len(c.Batch().Events); n != len(want) {
		t.Errorf("claimed %d events, want %d", n, len(want))
	}
	for _, e := range c.Batch().Events {
		for i, got := range [][]byte{e.Key, e.Payload} {
			if w := wanted(want[e.ID][i]); show(got) != show(w) || !bytes.Equal(got, w) {
				t.Errorf("event %d, part %d: %s, want %s", e.ID, i, show(got), show(w))
			}
		}
	}
	c.Abandon()
}
