package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// fixture is a store on a database of its own, and a pool beside it to look and to interfere with.
type fixture struct {
	*testing.T
	db    *pgtest.DB
	pool  *pgxpool.Pool
	relay *pgxpool.Pool
	store *Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, db: pgtest.New(t)}
	f.pool = f.db.Pool(t)
	f.store, f.relay = f.open(Options{}, StoreOptions{})
	if strings.HasPrefix(t.Name(), onPartitions) {
		f.partition(3)
	}
	return f
}

// open opens another store on the same database, as another relay would.
func (f *fixture) open(o Options, so StoreOptions) (*Store, *pgxpool.Pool) {
	f.Helper()
	pool, err := NewPool(f.Context(), f.db.URL, o)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if f.Failed() { // it may have left a claim, which the pool would wait for
			return
		}
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(time.Minute):
			f.Error("the pool does not close: the test has left a claim that is neither settled nor abandoned")
		}
	})
	return NewStore(pool, so), pool
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	pgtest.Exec(f, f.pool, sql, args...)
}

// value reads one value; the rest of its row is ignored.
func value[T any](f *fixture, sql string, args ...any) T {
	f.Helper()
	return pgtest.Value[T](f, f.pool, sql, args...)
}

// insert writes events of topic t with these keys, "-" being none, and returns their ids.
func (f *fixture) insert(keys ...string) []int64 {
	f.Helper()
	return f.insertInto("t", keys...)
}

func (f *fixture) insertInto(topic string, keys ...string) []int64 {
	f.Helper()
	var ids []int64
	for _, k := range keys {
		var key []byte
		if k != "-" {
			key = []byte(k)
		}
		ids = append(ids, value[int64](f, `insert into postrider.outbox_event (topic, key, payload) values ($1, $2, 'p') returning id`, topic, key))
	}
	return ids
}

// claim claims everything there is.
func (f *fixture) claim() relay.Claim {
	f.Helper()
	return f.claimBy(f.store, relay.Limits{})
}

func (f *fixture) claimBy(s *Store, l relay.Limits) relay.Claim {
	f.Helper()
	if l.Worker == "" {
		l.Worker = "host:1:aaaa/0"
	}
	if l.Shards == 0 {
		l.Shards = outbox.Shards
	}
	if l.Events == 0 {
		l.Events = 64_000
	}
	if l.Bytes == 0 {
		l.Bytes = 1 << 30
	}
	c, err := s.Claim(f.Context(), l)
	if err != nil {
		f.Fatalf("claim: %v", err)
	}
	if c == nil {
		f.Fatal("there is nothing to claim")
	}
	return c
}

// nothing checks that there is nothing to claim.
func (f *fixture) nothing() {
	f.Helper()
	c, err := f.store.Claim(f.Context(), relay.Limits{Worker: "host:1:aaaa/0", Shards: outbox.Shards, Events: 64_000, Bytes: 1 << 30})
	if err != nil {
		f.Fatalf("claim: %v", err)
	}
	if c != nil {
		f.Errorf("claimed %v, want nothing", claimed(c))
		c.Abandon()
	}
}

func claimed(c relay.Claim) []int64 {
	var ids []int64
	for _, e := range c.Batch().Events {
		ids = append(ids, e.ID)
	}
	slices.Sort(ids)
	return ids
}

func (f *fixture) settle(c relay.Claim, s *relay.Settlement) {
	f.Helper()
	if err := c.Settle(f.Context(), s); err != nil {
		f.Fatalf("settle: %v", err)
	}
}

// turn brings back what is due and returns what that did.
func (f *fixture) turn(limit int) relay.Returned {
	f.Helper()
	got, err := f.store.Return(f.Context(), limit, 25*time.Second)
	if err != nil {
		f.Fatalf("return: %v", err)
	}
	got.Next = 0 // see TestNextDue
	return got
}

// due makes every hold due for its probe that has a time for one.
func (f *fixture) due() {
	f.exec(`update postrider.outbox_hold set next_probe_at = now() where next_probe_at <> 'infinity'`)
}

// states writes the events in id order as id:state, with what is behind it for those that failed.
func (f *fixture) states() string {
	f.Helper()
	got, err := f.pool.Query(f.Context(), `
		select id || ':' || state || case when attempts > 0 then '(' || attempts || ')' else '' end from postrider.outbox_event order by id`)
	if err != nil {
		f.Fatal(err)
	}
	all, err := pgx.CollectRows(got, pgx.RowTo[string])
	if err != nil {
		f.Fatal(err)
	}
	return strings.Join(all, " ")
}

// wantStates checks the states of all events.
func (f *fixture) wantStates(format string, args ...any) {
	f.Helper()
	if got, want := f.states(), fmt.Sprintf(format, args...); got != want {
		f.Errorf("the events are\n%s\nwant\n%s", got, want)
	}
}

func topicHold(topic string, probeIn time.Duration) relay.HoldChange {
	return relay.HoldChange{Scope: relay.ScopeTopic, Topic: topic, Cause: relay.CauseInfrastructure, Code: "X", Error: "why",
		EventID: uuid.New(), Probes: 1, ProbeIn: probeIn}
}

func keyHold(key string, probeIn time.Duration) relay.HoldChange {
	return relay.HoldChange{Scope: relay.ScopeKey, Topic: "t", Key: []byte(key), Cause: relay.CauseRetry, Code: "X", Error: "why",
		EventID: uuid.New(), Probes: 1, ProbeIn: probeIn}
}

func failure(id int64, attempts int) *relay.Failure {
	return &relay.Failure{ID: id, Attempts: attempts, Class: relay.Record, Code: "X", Error: "why"}
}

// parkAll parks events of a claim under one new hold of a settlement.
func parkAll(c relay.Claim, h relay.HoldChange) *relay.Settlement {
	s := &relay.Settlement{Holds: []relay.HoldChange{h}}
	for _, e := range c.Batch().Events {
		s.Parked = append(s.Parked, relay.Park{ID: e.ID, Shard: e.Shard})
	}
	return s
}

// heldBy is what keeps an event back. All keys are on partition 0 here.
func heldBy(b *relay.Batch, e *outbox.Event) *relay.Hold {
	return b.Holds.WaitsFor(e, func([]byte, int32) int32 { return 0 })
}

// returning lets a store return events meanwhile, and hands over what came back when that has ended.
func (f *fixture) returning(s *Store, patience time.Duration) <-chan relay.Returned {
	returned := make(chan relay.Returned, 1)
	go func() {
		got, err := s.Return(f.Context(), 1000, patience)
		if err != nil {
			f.Error(err)
		}
		returned <- got
	}()
	return returned
}

// settling settles a claim meanwhile, and hands over how that ended.
func (f *fixture) settling(c relay.Claim, s *relay.Settlement) <-chan error {
	settled := make(chan error, 1)
	go func() { settled <- c.Settle(f.Context(), s) }()
	return settled
}

// free are the ids of a claim's events that no hold keeps back.
func free(c relay.Claim) []int64 {
	b := c.Batch()
	var ids []int64
	for i := range b.Events {
		if heldBy(b, &b.Events[i]) == nil {
			ids = append(ids, b.Events[i].ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// waitFor looks until a query is true.
func (f *fixture) waitFor(sql string, args ...any) {
	f.Helper()
	pgtest.WaitFor(f, f.pool, sql, args...)
}
