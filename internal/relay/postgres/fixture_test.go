package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// fixture is a store on a database of its own, and a pool beside it to look and to interfere with.
type fixture struct {
	*testing.T
	db    *pgtest.DB
	pool  *pgxpool.Pool
	relay *pgxpool.Pool
	store *Store
	term  *leadership
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, db: pgtest.New(t)}
	f.pool = f.db.Pool(t)
	f.store, f.relay = f.open(Options{}, StoreOptions{})
	return f
}

// open opens another store on the same database, as another relay would.
func (f *fixture) open(o Options, so StoreOptions) (*Store, *pgxpool.Pool) {
	f.Helper()
	pool, err := NewPool(f.Context(), f.db.URL, o)
	f.done(err)
	f.Cleanup(func() {
		if f.Failed() { // it may have left a transaction, which the pool would wait for
			return
		}
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(3 * time.Minute):
			f.Error("the pool does not close: the test has left a connection")
		}
	})
	return NewStore(pool, so), pool
}

func (f *fixture) done(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// fails checks that an error is one that a test wants.
func (f *fixture) fails(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("the error is %v, want one that is %v", err, want)
	}
}

// violates checks the SQLSTATE of an error, and the constraint that it names.
func (f *fixture) violates(err error, code, constraint string) {
	f.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != code || pg.ConstraintName != constraint {
		f.Errorf("the error is %v, want %s of %s", err, code, constraint)
	}
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	pgtest.Exec(f, f.pool, sql, args...)
}

// try executes a statement that may fail.
func (f *fixture) try(sql string, args ...any) error {
	_, err := f.pool.Exec(f.Context(), sql, args...)
	return err
}

// value reads one value; the rest of its row is ignored.
func value[T any](f *fixture, sql string, args ...any) T {
	f.Helper()
	return pgtest.Value[T](f, f.pool, sql, args...)
}

// waitFor looks until a query is true.
func (f *fixture) waitFor(sql string, args ...any) {
	f.Helper()
	pgtest.WaitFor(f, f.pool, sql, args...)
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

// many writes n events in one transaction.
func (f *fixture) many(n int) {
	f.Helper()
	f.exec(`insert into postrider.outbox_event (topic, key, payload) select 't', convert_to((i % 50)::text, 'UTF8'), 'p' from generate_series(1, $1::int) i`, n)
}

// lead begins a term, which ends with the test.
func (f *fixture) lead() *leadership { return f.leadBy(f.store, "host:1:aaaa") }

func (f *fixture) leadBy(s *Store, worker string) *leadership {
	f.Helper()
	l, err := s.Lead(f.Context(), worker)
	f.done(err)
	if l == nil {
		f.Fatal("another leads")
	}
	d := l.(*leadership)
	f.Cleanup(func() { f.letGo(d) })
	return d
}

// letGo ends a term without handing over.
func (f *fixture) letGo(d *leadership) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d.End(ctx)
}

// leader is the term that the helpers below use.
func (f *fixture) leader() *leadership {
	f.Helper()
	if f.term == nil {
		f.term = f.lead()
	}
	return f.term
}

// read reads the events in gaps and behind a position.
func (f *fixture) read(d *leadership, gaps relay.Ranges, position int64) relay.Page {
	f.Helper()
	page, err := d.Read(f.Context(), relay.Question{Gaps: gaps, Position: position, Events: 10_000, Bytes: 1 << 30})
	f.done(err)
	return page
}

func idsOf(p relay.Page) []int64 {
	var ids []int64
	for i := range p.Events {
		ids = append(ids, p.Events[i].ID)
	}
	return ids
}

func (f *fixture) settle(d *leadership, rs ...*relay.Receipt) {
	f.Helper()
	f.done(d.Settle(f.Context(), rs))
}

// pass reads all that is behind the position and settles it with what a receipt says of some of it.
func (f *fixture) pass(r relay.Receipt) []relay.Event {
	f.Helper()
	d := f.leader()
	page := f.read(d, nil, d.position)
	ids := idsOf(page)
	r.Events, r.Gaps, r.Sent = relay.RangesOf(ids), relay.Ranges{}, len(ids)-len(r.Exceptions)
	if len(ids) > 0 {
		r.Position = ids[len(ids)-1]
	}
	for i := range r.Exceptions {
		for _, e := range page.Events {
			if x := &r.Exceptions[i]; x.ID == e.ID {
				x.EventID, x.Topic, x.TaskUUID = e.EventID, e.Topic, e.TaskUUID
			}
		}
	}
	f.settle(d, &r)
	return page.Events
}

// change settles a receipt that is no batch of the log.
func (f *fixture) change(r relay.Receipt) {
	f.Helper()
	f.settle(f.leader(), &r)
}

// take takes parked events of holds, from their beginning.
func (f *fixture) take(n int, holds ...int64) []int64 {
	f.Helper()
	taking := relay.Taking{Bytes: 1 << 30}
	for _, h := range holds {
		taking.Holds = append(taking.Holds, relay.TakingHold{ID: h, Events: n})
	}
	if len(holds) == 0 {
		taking.Scheduled = n
	}
	taken, err := f.leader().Take(f.Context(), taking)
	f.done(err)
	return takenIDs(taken)
}

func takenIDs(taken []relay.Taken) []int64 {
	var ids []int64
	for i := range taken {
		ids = append(ids, taken[i].Event.ID)
	}
	return ids
}

// equal compares ids.
func (f *fixture) equal(what string, got []int64, want ...int64) {
	f.Helper()
	if !slices.Equal(got, want) {
		f.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (f *fixture) holdID() int64 {
	f.Helper()
	ids, err := f.leader().HoldIDs(f.Context(), 1)
	f.done(err)
	return ids[0]
}

// keyHold is a new hold of a key.
func (f *fixture) keyHold(key string, probeIn time.Duration) relay.HoldChange {
	f.Helper()
	return relay.HoldChange{ID: f.holdID(), New: true, Scope: relay.ScopeKey, Topic: "t", Key: []byte(key), Cause: relay.CauseRetry, Code: "X", Error: "why",
		EventID: uuid.New(), Probes: 1, ProbeIn: probeIn}
}

// topicHold is a new hold of a topic.
func (f *fixture) topicHold(topic string, probeIn time.Duration) relay.HoldChange {
	f.Helper()
	return relay.HoldChange{ID: f.holdID(), New: true, Scope: relay.ScopeTopic, Topic: topic, Cause: relay.CauseInfrastructure, Code: "X", Error: "why",
		EventID: uuid.New(), Probes: 1, ProbeIn: probeIn}
}

func parked(hold int64, ids ...int64) (xs []relay.Exception) {
	for _, id := range ids {
		xs = append(xs, relay.Exception{ID: id, State: relay.Parked, Hold: hold})
	}
	return xs
}

// exhausted are events that were given up, after five attempts.
func exhausted(ids ...int64) (xs []relay.Exception) {
	for _, id := range ids {
		xs = append(xs, relay.Exception{ID: id, State: relay.Exhausted, Attempts: 5, MaxAttempts: 5,
			Failure: relay.Failure{Class: relay.Record, Code: "X", Error: "why\x00"}})
	}
	return xs
}

// states writes all events in the order of ids as id:state, with the attempts of events that failed.
func (f *fixture) states() string {
	f.Helper()
	return strings.Join(pgtest.Column[string](f, f.pool, `
		select id || ':' || state || case when attempts > 0 then '(' || attempts || ')' else '' end from postrider.v_outbox_event order by id`), " ")
}

// wantStates checks the states of all events.
func (f *fixture) wantStates(format string, args ...any) {
	f.Helper()
	if got, want := f.states(), fmt.Sprintf(format, args...); got != want {
		f.Errorf("the events are\n%s\nwant\n%s", got, want)
	}
}

// progress is what the receipts say: number, term, position, gaps.
func (f *fixture) progress() string {
	f.Helper()
	return value[string](f, `select concat_ws(' ', number, term, position, gaps) from postrider.outbox_progress`)
}

func (f *fixture) holds() int {
	f.Helper()
	return value[int](f, `select count(*) from postrider.outbox_hold`)
}

// due makes every hold due for its probe that has a time for one.
func (f *fixture) due() {
	f.Helper()
	f.exec(`update postrider.outbox_hold set next_probe_at = now() where next_probe_at <> 'infinity'`)
}

func eventID(f *fixture, id int64) uuid.UUID {
	f.Helper()
	return value[uuid.UUID](f, `select event_id from postrider.v_outbox_event where id = $1`, id)
}

// locking runs a statement in another session's transaction, which the returned function ends.
func (f *fixture) locking(sql string, args ...any) (end func(how string)) {
	f.Helper()
	conn := f.db.Conn(f.T)
	pgtest.Exec(f, conn, "begin")
	pgtest.Exec(f, conn, sql, args...)
	return func(how string) {
		f.Helper()
		pgtest.Exec(f, conn, how)
	}
}
