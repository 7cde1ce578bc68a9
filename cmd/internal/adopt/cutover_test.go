package adopt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// move is a table with its publication, and a slot that a test reads as its connector.
type move struct {
	testing.TB
	url  string
	conn *pgx.Conn
	a    *adopt.Adopter
	said *[]string
	sent []int // what the connector has read, in its order
}

func newMove(t *testing.T, publication string) *move {
	t.Helper()
	url := decoding(t)
	m := &move{TB: t, url: url, conn: connect(t, url)}
	pgtest.Exec(t, m.conn, `set search_path = public`)
	pgtest.Exec(t, m.conn, `create table "Out box" (id bigint generated always as identity primary key, aggregatetype text, aggregateid text, type text, payload text, part integer);
		create table ids (id bigint, key text)`)
	pgtest.Exec(t, m.conn, publication)
	pgtest.Exec(t, m.conn, `select pg_create_logical_replication_slot('dbz', 'pgoutput')`)
	m.a, m.said = adopter(connect(t, url))
	return m
}

const theTable = `public."Out box"`

func (m *move) shadow() {
	m.Helper()
	d, err := adopt.Preset("debezium", "")
	if err != nil {
		m.Fatal(err)
	}
	if err := m.a.Adopt(m.Context(), theTable, adopt.Wish{Definition: d, Mode: adopt.ModeShadow, Prefix: "shadow."}); err != nil {
		m.Fatal(err)
	}
}

// write inserts rows, numbered from the last, in one statement.
func (m *move) write(n int) {
	m.Helper()
	pgtest.Exec(m, m.conn, `insert into "Out box" (aggregatetype, aggregateid, payload) select 'Order', 'k', 'p' from generate_series(1, $1)`, n)
}

// send reads the slot to its end, as the connector does when it has sent all of it, and confirms.
func (m *move) send(conn *pgx.Conn) {
	m.Helper()
	// An insert is I, the table, N, the number of columns, and then each: t, its length, its text. The id is the first.
	m.sent = append(m.sent, pgtest.Column[int](m, conn, `select convert_from(substr(data, 14, (get_byte(data, 9) << 24) + (get_byte(data, 10) << 16) + (get_byte(data, 11) << 8) + get_byte(data, 12)), 'UTF8')::int
		from pg_logical_slot_get_binary_changes('dbz', null, null, 'proto_version', '1', 'publication_names', 'dbz') where get_byte(data, 0) = ascii('I') and substr(data, 2, 4) = int4send((select c.oid::int from pg_class c where c.relname in ('Out box', 'Out box_before_postrider') and c.relkind = 'r'))`)...)
}

// forwarded are the ids of the rows that are events of topics that do not begin with the shadow's prefix, in the order of the log.
func (m *move) forwarded() []int {
	return pgtest.Column[int](m, m.conn, `select (headers->0->>1)::int from postrider.outbox_event where topic = 'outbox.event.Order' order by id`)
}

// relay does what a relay does with the events that it finds.
func (m *move) relay(conn *pgx.Conn) {
	m.Helper()
	if ids := pgtest.Column[int64](m, conn, outboxtest.Pending, 0); len(ids) > 0 {
		outboxtest.Settle(m, conn, outboxtest.Published, ids...)
	}
}

func (m *move) mode() adopt.Mode {
	m.Helper()
	f, err := adopt.Read(m.Context(), m.conn, theTable)
	if err != nil {
		m.Fatal(err)
	}
	return f.Mode
}

// writeSome writes one or two rows of a key in a transaction, which may have begun before, delete its rows, or roll back.
func writeSome(conn *pgx.Conn, writer, n int) error {
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if n%3 == 0 { // it has a number before it comes to the table
		if _, err := tx.Exec(ctx, `insert into public.ids select 0, '' where pg_current_xact_id() is null`); err != nil {
			return err
		}
	}
	for range 1 + n%2 {
		var id int64
		if err := tx.QueryRow(ctx, `insert into public."Out box" (aggregatetype, aggregateid, payload) values ('Order', $1, 'p') returning id`, fmt.Sprint(writer)).Scan(&id); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `insert into public.ids values ($1, $2)`, id, fmt.Sprint(writer)); err != nil {
			return err
		}
	}
	if n%5 == 0 {
		if _, err := tx.Exec(ctx, `delete from public."Out box" where aggregateid = $1`, fmt.Sprint(writer)); err != nil {
			return err
		}
	}
	if n%7 == 0 {
		return tx.Rollback(ctx)
	}
	return tx.Commit(ctx)
}

// TestEachRowIsOnOneSide: while writers write, open transactions included, the table moves to Postrider and back, and each row
// is sent by one of both, in the order of its key.
// With a publication of all tables a view takes the rows.
func TestEachRowIsOnOneSide(t *testing.T) {
	t.Parallel()
	for name, publication := range map[string]string{"its tables": `create publication dbz for table "Out box"`, "all tables": `create publication dbz for all tables`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachRowIsOnOneSide(t, publication)
		})
	}
}

func eachRowIsOnOneSide(t *testing.T, publication string) {
	m := newMove(t, publication)
	m.shadow()
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	failures := make(chan error, 10)
	for w := range 4 {
		conn := connect(t, m.url)
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := writeSome(conn, w, n); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	connector := connect(t, m.url)
	const rounds = 3
	for range rounds {
		// The connector reads whenever it is asked to; the cutover must wait for that.
		cut := make(chan error, 1)
		go func() { cut <- m.a.Cutover(ctx, theTable, adopt.Cutover{Poll: time.Millisecond}) }()
		for done := false; !done; {
			select {
			case err := <-cut:
				if err != nil {
					t.Fatal(err)
				}
				done = true
			default:
				m.send(connector)
			}
		}
		back := make(chan error, 1)
		go func() { back <- m.a.Rollback(ctx, theTable, adopt.Rollback{Block: time.Minute}) }()
		for done := false; !done; {
			select {
			case err := <-back:
				if err != nil {
					t.Fatal(err)
				}
				done = true
			default:
				m.relay(connector)
			}
		}
	}
	stop()
	writers.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	m.send(connector)
	committed := pgtest.Column[int](t, m.conn, `select id from ids order by id`)
	all := append(slices.Clone(m.sent), m.forwarded()...)
	slices.Sort(all)
	if !slices.Equal(all, committed) {
		t.Errorf("%d rows were committed, the connector sent %d and Postrider %d", len(committed), len(m.sent), len(m.forwarded()))
	}
	if len(m.sent) == 0 || len(m.forwarded()) == 0 {
		t.Errorf("one side had nothing: the connector %d, Postrider %d", len(m.sent), len(m.forwarded()))
	}
	t.Logf("%d rows, %d of the connector, %d of Postrider", len(committed), len(m.sent), len(m.forwarded()))
}

// TestACutoverThatBreaksOff: events are held, and nothing of them is lost, until the command runs again; they move in their
// order, also when there are many.
func TestACutoverThatBreaksOff(t *testing.T) {
	t.Parallel()
	m := newMove(t, `create publication dbz for table "Out box"`)
	m.shadow()
	m.write(3) // 1 to 3: the connector has not sent them
	ctx, kill := context.WithCancel(t.Context())
	m.a.Say = func(format string, args ...any) {
		*m.said = append(*m.said, fmt.Sprintf(format, args...))
		if strings.Contains(format, "are not confirmed") || strings.Contains(fmt.Sprintf(format, args...), "3 of its rows are not confirmed") {
			kill()
		}
	}
	if err := m.a.Cutover(ctx, theTable, adopt.Cutover{Poll: time.Millisecond}); !errors.Is(err, context.Canceled) {
		t.Fatalf("the cutover ended before the connector: %v, %q", err, *m.said)
	}
	m.a, m.said = adopter(connect(t, m.url))
	const many = 12000
	m.write(many)
	if n := pgtest.Value[int](t, m.conn, `select count(*) from postrider.outbox_held_event`); n != many || m.mode() != adopt.ModeHeld || len(m.forwarded()) > 0 {
		t.Fatalf("%d events are held, the mode is %s", n, m.mode())
	}
	for _, refused := range []error{
		m.a.Remove(t.Context(), theTable),
		m.a.Adopt(t.Context(), theTable, adopt.Wish{Definition: adopt.Definition{ID: "id", Topic: "t", Payload: "payload"}, Mode: adopt.ModeShadow, Prefix: "s", Replace: true}),
	} {
		if refused == nil || !strings.Contains(refused.Error(), "a cutover of") {
			t.Errorf("while a cutover runs: %v", refused)
		}
	}
	m.send(m.conn)
	if !slices.Equal(m.sent, []int{1, 2, 3}) {
		t.Fatalf("the connector read %v", m.sent)
	}
	if err := m.a.Cutover(t.Context(), theTable, adopt.Cutover{}); err != nil {
		t.Fatal(err)
	}
	m.write(2)
	got := m.forwarded()
	if len(got) != many+2 || !slices.IsSorted(got) || got[0] != 4 {
		t.Errorf("%d events, in order %t", len(got), slices.IsSorted(got))
	}
	if n := pgtest.Value[int](t, m.conn, `select count(*) from postrider.outbox_held_event`); n != 0 || m.mode() != adopt.ModeForward {
		t.Errorf("%d events are held still, the mode is %s", n, m.mode())
	}
	if err := m.a.Cutover(t.Context(), theTable, adopt.Cutover{}); err != nil || !strings.Contains((*m.said)[len(*m.said)-1], "nothing was done") {
		t.Errorf("once more: %v, %q", err, *m.said)
	}
}

// TestARollbackWaitsForTheRelay: until the last event was sent the connector gets no row, and writers wait no longer than they
// are told to. A cutover that has not ended is ended first.
func TestARollbackWaitsForTheRelay(t *testing.T) {
	t.Parallel()
	m := newMove(t, `create publication dbz for table "Out box"`)
	m.shadow()
	ctx, kill := context.WithCancel(t.Context())
	kill()
	// The fence is a transaction of its own; here it is all that was done.
	if err := m.a.Cutover(ctx, theTable, adopt.Cutover{}); err == nil {
		t.Fatal("a cutover whose context has ended did something")
	}
	m.a, m.said = adopter(connect(t, m.url))
	m.write(1)
	m.breakOff()
	m.write(2)
	m.send(m.conn)
	m.rollbackWaits("the relay has events to send of the topics outbox.event.Order")
	m.write(1)
	// Something between that is parked keeps it back as well.
	m.a, m.said = adopter(connect(t, m.url))
	ids := pgtest.Column[int64](t, m.conn, outboxtest.Pending, 0)
	outboxtest.Settle(t, m.conn, outboxtest.Published, ids[:len(ids)-1]...) // the first is the shadow's
	outboxtest.Settle(t, m.conn, outboxtest.Scheduled, ids[len(ids)-1])
	m.rollbackWaits(fmt.Sprintf("outbox.event.Order (event %d is scheduled)", ids[len(ids)-1]))
	outboxtest.Settle(t, m.conn, outboxtest.Published, ids[len(ids)-1])
	m.a, m.said = adopter(connect(t, m.url))
	for _, want := range []string{"is in the publication dbz again", "nothing was done"} {
		if err := m.a.Rollback(t.Context(), theTable, adopt.Rollback{}); err != nil || !strings.Contains((*m.said)[len(*m.said)-1], want) {
			t.Fatalf("%v, %q", err, *m.said)
		}
	}
	m.write(1)
	m.send(m.conn)
	if got := m.forwarded(); !slices.Equal(m.sent, []int{1, 5}) || !slices.Equal(got, []int{2, 3, 4}) {
		t.Errorf("the connector sent %v, Postrider %v", m.sent, got)
	}
}

// breakOff begins a cutover and ends it while it waits for the connector.
func (m *move) breakOff() {
	m.Helper()
	ctx, kill := context.WithCancel(m.Context())
	defer kill()
	a, _ := adopter(connect(m, m.url))
	a.Say = func(format string, args ...any) {
		if strings.Contains(fmt.Sprintf(format, args...), "has confirmed") {
			kill()
		}
	}
	if err := a.Cutover(ctx, theTable, adopt.Cutover{Poll: time.Millisecond}); err == nil || m.mode() != adopt.ModeHeld {
		m.Fatalf("the cutover did not break off: %v", err)
	}
}

// rollbackWaits begins a rollback and ends it when it says what it waits for.
func (m *move) rollbackWaits(want string) {
	m.Helper()
	ctx, kill := context.WithCancel(m.Context())
	defer kill()
	a, _ := adopter(connect(m, m.url))
	said := ""
	a.Say = func(format string, args ...any) {
		if said = fmt.Sprintf(format, args...); strings.Contains(said, want) {
			kill()
		}
	}
	if err := a.Rollback(ctx, theTable, adopt.Rollback{}); !errors.Is(err, context.Canceled) || m.mode() != adopt.ModeForward {
		m.Fatalf("the rollback did not wait: %v, mode %s, it said %q", err, m.mode(), said)
	}
}

// TestWhatCannotBeCutOver: each refusal says what to do, and changes nothing.
func TestWhatCannotBeCutOver(t *testing.T) {
	t.Parallel()
	m := newMove(t, `create publication every for all tables; create publication others for table ids; create publication dbz for table "Out box";
		create publication updates for table "Out box" with (publish = 'update')`)
	pgtest.Exec(t, m.conn, `select pg_create_logical_replication_slot('old', 'test_decoding')`)
	refused := func(c adopt.Cutover, want string) {
		t.Helper()
		_, showErr := m.a.ShowCutover(t.Context(), theTable, c)
		for _, err := range []error{m.a.Cutover(t.Context(), theTable, c), showErr} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; it should say %q", err, want)
			}
		}
	}
	cut := func(slot, publication string) adopt.Cutover {
		return adopt.Cutover{Connector: adopt.Connector{Slot: slot, Publication: publication}}
	}
	refused(cut("", ""), "postrider debezium shadow")
	m.shadow()
	refused(cut("", ""), "is in 3 publications (dbz, every, updates)")
	refused(cut("", "updates"), "does not publish inserts")
	refused(cut("", "others"), `is not in the publication others`)
	refused(cut("", "none"), "there is no publication none")
	refused(cut("none", "dbz"), "there is no replication slot none; this database has the slots dbz of pgoutput: give the connector's")
	refused(cut("old", "dbz"), "is not of pgoutput")
	if m.mode() != adopt.ModeShadow {
		t.Errorf("the mode is %s", m.mode())
	}
	if plan, err := m.a.ShowCutover(t.Context(), theTable, cut("dbz", "every")); err != nil || !strings.Contains(plan, `create view public."Out box"`) || !strings.Contains(plan, "ON CONFLICT (column) is refused") {
		t.Errorf("the plan with a publication of all tables: %v\n%s", err, plan)
	}
	if plan, err := m.a.ShowCutover(t.Context(), theTable, cut("dbz", "dbz")); err != nil || !strings.Contains(plan, `alter publication "dbz" drop table public."Out box"`) {
		t.Errorf("the plan: %v\n%s", err, plan)
	}
	pgtest.Exec(t, m.conn, `drop publication every; drop publication updates`)
	// The connector puts the table back, as with publication.autocreate.mode=filtered.
	m.write(1)
	m.breakOff()
	pgtest.Exec(t, m.conn, `alter publication dbz add table "Out box"`)
	if err := m.a.Cutover(t.Context(), theTable, adopt.Cutover{}); err == nil || !strings.Contains(err.Error(), "publication.autocreate.mode") {
		t.Errorf("the table is in the publication again: %v", err)
	}
	// The slot is gone: only a person knows what its connector had sent.
	pgtest.Exec(t, m.conn, `alter publication dbz drop table "Out box"; select pg_drop_replication_slot('dbz')`)
	if err := m.a.Cutover(t.Context(), theTable, adopt.Cutover{}); err == nil || !strings.Contains(err.Error(), "--confirmed") {
		t.Errorf("the slot is gone: %v", err)
	}
	if err := m.a.Cutover(t.Context(), theTable, adopt.Cutover{Confirmed: true}); err != nil || m.mode() != adopt.ModeForward {
		t.Errorf("confirmed by hand: %v, mode %s", err, m.mode())
	}
	if err := m.a.Rollback(t.Context(), theTable, adopt.Rollback{}); err == nil || !strings.Contains(err.Error(), "cannot go back") {
		t.Errorf("a rollback without the slot: %v", err)
	}
}
