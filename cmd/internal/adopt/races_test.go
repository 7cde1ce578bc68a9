package adopt_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// plain is a table whose name SQL takes without quotes, as most names.
const plain = `public.outbox`

// TestAPlainNameAndAPublicationOfAllTables: a table moves out of a publication of all tables and back, by a login that does not
// own the publication. While it is out, the table cannot get its name back in another way.
func TestAPlainNameAndAPublicationOfAllTables(t *testing.T) {
	t.Parallel()
	m := newMove(t, `create publication dbz for all tables; create role other superuser; alter publication dbz owner to other`)
	pgtest.Exec(t, m.conn, outbox)
	pgtest.Exec(t, m.conn, `create role mover login password 'mover' in role `+pgtest.Value[string](t, m.conn, `select current_user::text`))
	address, err := url.Parse(m.url)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword("mover", "mover")
	m.a, m.said = adopter(connect(t, address.String()))
	if err := m.a.Adopt(t.Context(), plain, adopt.Wish{Definition: debezium(t), Mode: adopt.ModeShadow, Prefix: "shadow."}); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, m.conn, `insert into outbox values `+row(1, "Order", "o"))
	m.a.Say = func(format string, args ...any) { // it may not copy the slot, and waits for the slot itself
		if strings.Contains(fmt.Sprintf(format, args...), "has confirmed") {
			m.send(m.conn)
		}
	}
	if err := m.a.Cutover(t.Context(), plain, adopt.Cutover{Poll: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, m.conn, `insert into outbox values `+row(2, "Order", "o"))
	if got := pgtest.Column[string](t, m.conn, `select topic from postrider.outbox_event order by id`); !slices.Equal(got, []string{"shadow.outbox.event.Order", "outbox.event.Order"}) {
		t.Fatalf("the topics are %q", got)
	}
	for _, script := range []func(context.Context, string) (string, error){m.a.ShowTable, func(ctx context.Context, table string) (string, error) { return "", m.a.AsTable(ctx, table) }} {
		if _, err := script(t.Context(), plain); err == nil || !strings.Contains(err.Error(), "publication has every table") {
			t.Errorf("the table back beside the publication: %v", err)
		}
	}
	outboxtest.Settle(t, m.conn, outboxtest.Published, pgtest.Column[int64](t, m.conn, outboxtest.Pending, 0)...)
	if err := m.a.Rollback(t.Context(), plain, adopt.Rollback{}); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, m.conn, `insert into outbox values `+row(3, "Order", "o"))
	if got := pgtest.Column[string](t, m.conn, `select id::text from outbox order by id`); !slices.Equal(got, []string{id(1), id(3)}) {
		t.Errorf("the table has %q", got)
	}
	if n := pgtest.Value[int](t, m.conn, `select count(*) from postrider.outbox_event`); n != 2 {
		t.Errorf("%d events after the rollback", n)
	}
}

// TestAnotherCallEndsTheCutover: a cutover that another call ended meanwhile ends as well.
func TestAnotherCallEndsTheCutover(t *testing.T) {
	t.Parallel()
	m := newMove(t, `create publication dbz for table "Out box"`)
	m.shadow()
	m.write(1)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute) // without the guard it would go on for ever
	defer stop()
	said := m.a.Say
	m.a.Say = func(format string, args ...any) {
		said(format, args...)
		if strings.Contains(fmt.Sprintf(format, args...), "has confirmed") {
			second, _ := adopter(connect(t, m.url))
			if err := second.Cutover(ctx, theTable, adopt.Cutover{Confirmed: true}); err != nil {
				t.Error(err)
			}
			m.send(m.conn)
		}
	}
	if err := m.a.Cutover(ctx, theTable, adopt.Cutover{Poll: time.Millisecond}); err != nil || !strings.Contains((*m.said)[len(*m.said)-1], "another call ended the cutover") {
		t.Errorf("%v, %q", err, *m.said)
	}
}

// hold puts a table of a shadow into the state in which a cutover holds its events.
const hold = `update postrider.outbox_forward set mode = 'held', prefix = '', slot = 's', publication = 'p', fence = '0/1'`

// TestTheStateIsReadUnderTheLock: a change that waited for a cutover's lock sees what the cutover made of the table.
func TestTheStateIsReadUnderTheLock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode adopt.Mode
		do   func(context.Context, *adopt.Adopter) error
		want string
	}{
		"shadow again": {adopt.ModeShadow, func(ctx context.Context, a *adopt.Adopter) error {
			other := debezium(t)
			other.Headers = nil
			return a.Adopt(ctx, "outbox", adopt.Wish{Definition: other, Mode: adopt.ModeShadow, Prefix: "s.", Replace: true})
		}, "a cutover of public.outbox runs"},
		"remove": {adopt.ModeShadow, func(ctx context.Context, a *adopt.Adopter) error { return a.Remove(ctx, "outbox") }, "a cutover of public.outbox runs"},
		"view":   {adopt.ModeForward, func(ctx context.Context, a *adopt.Adopter) error { return a.AsView(ctx, "outbox") }, "(held)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, conn := fresh(t)
			pgtest.Exec(t, conn, outbox)
			a, said := adopter(conn)
			a.LockTimeout = time.Minute
			prefix := ""
			if c.mode == adopt.ModeShadow {
				prefix = "s."
			}
			if err := a.Adopt(t.Context(), "outbox", adopt.Wish{Definition: debezium(t), Mode: c.mode, Prefix: prefix}); err != nil {
				t.Fatal(err)
			}
			cutover := db.Conn(t)
			pgtest.Exec(t, cutover, `begin; lock table public.outbox in share row exclusive mode; `+hold)
			done := make(chan error, 1)
			go func() { done <- c.do(t.Context(), a) }()
			pgtest.WaitFor(t, db.Conn(t), `select exists (select from pg_locks where relation = 'public.outbox'::regclass and not granted)`)
			pgtest.Exec(t, cutover, `commit`)
			if err := <-done; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %q; it should say %q", err, *said, c.want)
			}
			if mode := pgtest.Value[string](t, cutover, `select mode from postrider.outbox_forward`); mode != "held" {
				t.Errorf("the mode is %s", mode)
			}
		})
	}
}

// TestATriggerThatWasLostInACutover: the next run makes it again at once, and the release and the rollback do not depend on it.
func TestATriggerThatWasLostInACutover(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{`alter table outbox disable trigger postrider_forward`, `drop trigger postrider_forward on outbox`} {
		_, conn := fresh(t)
		pgtest.Exec(t, conn, outbox)
		a, said := adopter(conn)
		if err := a.Adopt(t.Context(), "outbox", adopt.Wish{Definition: debezium(t), Mode: adopt.ModeShadow, Prefix: "s."}); err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, conn, hold)
		pgtest.Exec(t, conn, lost)
		// There is no slot s, so that it gets no further than to the trigger.
		if err := a.Cutover(t.Context(), "outbox", adopt.Cutover{}); err == nil || !strings.Contains((*said)[len(*said)-1], "is made again") {
			t.Fatalf("after %s: %v, %q", lost, err, *said)
		}
		pgtest.Exec(t, conn, `insert into outbox values `+row(1, "Order", "o"))
		if n := pgtest.Value[int](t, conn, `select count(*) from postrider.outbox_held_event`); n != 1 {
			t.Errorf("after %s %d events are held", lost, n)
		}
		// It is lost a second time, behind the first transaction: the release makes it.
		a.Say = func(format string, args ...any) {
			if strings.Contains(fmt.Sprintf(format, args...), "is made again") {
				pgtest.Exec(t, conn, lost)
			}
		}
		pgtest.Exec(t, conn, lost)
		if err := a.Cutover(t.Context(), "outbox", adopt.Cutover{Confirmed: true}); err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, conn, `insert into outbox values `+row(2, "Order", "o"))
		wantEvents(t, conn, event(1, "Order", "o"), event(2, "Order", "o"))
	}
}

// TestSinceWhenTheModeIs: only another mode begins a new time.
func TestSinceWhenTheModeIs(t *testing.T) {
	t.Parallel()
	_, conn, a := take(t, outbox, "outbox", debezium(t))
	since := func() string {
		return pgtest.Value[string](t, conn, `select changed_at::text from postrider.outbox_forward`)
	}
	before := since()
	other := debezium(t)
	other.Headers = nil
	for _, change := range []func() error{
		func() error {
			return a.Adopt(t.Context(), "outbox", adopt.Wish{Definition: other, Mode: adopt.ModeForward, Replace: true})
		},
		func() error { return a.AsView(t.Context(), "outbox") },
		func() error { return a.AsTable(t.Context(), "outbox") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if now := since(); now != before {
			t.Errorf("the mode is from %s, and was from %s", now, before)
		}
	}
}

// TestAViewHasTheRightsOfColumns: a writer that may insert some columns may do so with the view, and no more.
func TestAViewHasTheRightsOfColumns(t *testing.T) {
	t.Parallel()
	db, conn, a := take(t, `create table outbox (n bigint generated always as identity, id uuid, aggregatetype text, aggregateid text, type text default 'Made', payload text)`, "outbox", debezium(t))
	pgtest.Exec(t, conn, `grant insert (id, aggregatetype, aggregateid, payload), select (id) on outbox to `+role(t, db))
	if err := a.AsView(t.Context(), "outbox"); err != nil {
		t.Fatal(err)
	}
	writer, err := pgx.Connect(t.Context(), db.As(db.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close(context.Background())
	pgtest.Exec(t, writer, `insert into public.outbox (id, aggregatetype, aggregateid, payload) values ($1, 'Order', 'o', '{"n": 1}') returning id`, id(1))
	wantEvents(t, conn, event(1, "Order", "o"))
	for _, sql := range []string{`insert into public.outbox (id, type) values (gen_random_uuid(), 'x')`, `select payload from public.outbox`} {
		if _, err := writer.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// counted counts the looks at a slot and its copies, and what is asked of the server under a lock that was asked before it.
type counted struct {
	looks, copies, again int
	locked               bool
	enough               func()
}

func (c *counted) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	switch {
	case strings.HasPrefix(q.SQL, "lock table"):
		c.locked = true
	case q.SQL == "commit", q.SQL == "rollback":
		c.locked = false
	case c.locked && (strings.Contains(q.SQL, "pg_is_in_recovery") || strings.HasPrefix(q.SQL, "select pg_current_wal_insert_lsn")):
		c.again++
	case strings.Contains(q.SQL, "confirmed_flush_lsn"):
		if c.looks++; c.looks == 200 {
			c.enough()
		}
	case strings.Contains(q.SQL, "pg_copy_logical_replication_slot"):
		c.copies++
	}
	return ctx
}

func (*counted) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestASlotIsSeldomCopied: a copy of the slot costs the server what the connector has not confirmed. While writers wait for the lock,
// the server is not asked again whether it is a standby and says its position.
func TestASlotIsSeldomCopied(t *testing.T) {
	t.Parallel()
	m := newMove(t, `create publication dbz for table "Out box"`)
	m.shadow()
	m.write(1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c := &counted{enough: stop}
	config, err := pgx.ParseConfig(m.url)
	if err != nil {
		t.Fatal(err)
	}
	config.Tracer = c
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	a, _ := adopter(conn)
	if err := a.Cutover(ctx, theTable, adopt.Cutover{Poll: time.Millisecond}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if c.again > 0 || m.mode() != adopt.ModeHeld {
		t.Errorf("%d questions were asked again under the lock; the mode is %s", c.again, m.mode())
	}
	if c.copies == 0 || c.copies > c.looks/4 {
		t.Errorf("%d copies in %d looks", c.copies, c.looks)
	}
}
