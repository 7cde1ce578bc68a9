package postgres

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// notifier is one at work, with what it says.
type notifier struct {
	*Notifier
	f   *fixture
	log *logtest.Buffer
}

// hang hangs a notifier up at a database address; it listens until the test ends.
func (f *fixture) hang(url string, o NotifierOptions) *notifier {
	f.Helper()
	pool, err := NewPool(f.Context(), url, Options{MaxConns: 3})
	if err != nil {
		f.Fatal(err)
	}
	d := &notifier{f: f, log: &logtest.Buffer{}}
	o.Logger = slog.New(slog.NewTextHandler(d.log, nil))
	d.Notifier = NewNotifier(pool, o)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { d.Listen(ctx); close(ended) }()
	f.Cleanup(func() { stop(); <-ended; pool.Close() })
	return d
}

// until looks until something is so.
func (d *notifier) until(what string, so func() bool) {
	d.f.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !so() {
		if time.Now().After(deadline) {
			d.f.Fatalf("never %s; it said:\n%s", what, d.log)
		}
		d.f.exec("select pg_sleep(0.005)")
	}
}

func (d *notifier) arm() {
	d.f.Helper()
	d.until("armed", func() bool { return d.Arm(d.f.Context()) })
	for len(d.Notified()) > 0 {
		<-d.Notified()
	}
}

func (d *notifier) hears() {
	d.f.Helper()
	select {
	case <-d.Notified():
	case <-time.After(3 * time.Minute):
		d.f.Fatalf("it never notified; it said:\n%s", d.log)
	}
}

// notices are the notifications that a session of its own has got by now: all that were sent before a marker.
func (f *fixture) notices(conn *pgx.Conn) []string {
	f.Helper()
	f.exec(`select pg_notify('postrider_outbox', 'marker')`)
	var all []string
	for {
		n, err := conn.WaitForNotification(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		if n.Payload == "marker" {
			return all
		}
		all = append(all, n.Payload)
	}
}

func (f *fixture) listener() *pgx.Conn {
	f.Helper()
	conn := f.db.Conn(f.T)
	if _, err := conn.Exec(f.Context(), "listen postrider_outbox"); err != nil {
		f.Fatal(err)
	}
	return conn
}

func TestInsertsNotifyWhileArmed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ears := f.listener()
	d := f.hang(f.db.URL, NotifierOptions{})
	d.until("alive", d.Alive)
	f.insert("a", "b")
	for _, n := range f.notices(ears) {
		if n == "" {
			t.Error("an insert notifies before anybody asked for it")
		}
	}
	if d.Armed() {
		t.Error("armed before anybody asked for it")
	}
	d.arm()
	if !d.Armed() {
		t.Error("not armed after Arm")
	}
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`insert into postrider.outbox_event (topic, payload) values ('t', 'a'), ('t', 'b')`,
		`select postrider.outbox_publish('t', 'k', '{}'::jsonb)`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.notices(ears); len(got) != 0 {
		t.Errorf("an open transaction notifies: %q", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.hears()
	if got := f.notices(ears); len(got) != 1 || got[0] != "" {
		t.Errorf("one transaction notifies %q, want once", got)
	}
	f.exec(`insert into postrider.outbox_event (topic, payload) select 't', 'a' from generate_series(1, 3)`)
	if n, err := f.db.Conn(t).CopyFrom(t.Context(), pgx.Identifier{"postrider", "outbox_event"}, []string{"topic"},
		pgx.CopyFromRows([][]any{{"t"}, {"t"}})); err != nil || n != 2 {
		t.Fatalf("copied %d, %v", n, err)
	}
	if got := f.notices(ears); len(got) != 2 {
		t.Errorf("two statements of many rows notify %q, want each once", got)
	}
	f.exec(`delete from postrider.outbox_event`)
	if got := f.notices(ears); len(got) != 0 {
		t.Errorf("retention notifies: %q", got)
	}
}

// TestManyNotificationsEnd: when notifications come faster than they are of use, writers are told to stop, at the latest
// after some, and every relay knows.
func TestManyNotificationsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, other := f.hang(f.db.URL, NotifierOptions{}), f.hang(f.db.URL, NotifierOptions{})
	one.until("alive", one.Alive)
	other.until("alive", other.Alive)
	one.arm()
	other.arm()
	n := 0
	one.until("disarmed", func() bool { f.insert("a"); n++; return !one.Armed() && !other.Armed() })
	ears := f.listener()
	f.insert("a", "b", "c")
	if got := f.notices(ears); len(got) != 0 {
		t.Errorf("after %d inserts they still notify: %q", n, got)
	}
	// An idle relay gives way to the relay that was busy just now, which may ask again at once.
	allowed := 0
	for _, d := range []*notifier{one, other} {
		if d.Arm(t.Context()) {
			allowed++
			break
		}
	}
	if allowed != 1 {
		t.Error("the relay that was busy may not ask writers to notify again")
	}
	f.insert("a")
	one.hears()
	other.hears()
}

// TestIdleRelayGivesWay: the mark of another relay counts for a while only.
func TestIdleRelayGivesWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.hang(f.db.URL, NotifierOptions{})
	d.until("alive", d.Alive)
	f.exec(`select setval('postrider.outbox_notifier', -(extract(epoch from clock_timestamp()) * 1000)::bigint - 60000)`)
	if d.Arm(t.Context()) {
		t.Error("armed although another relay is busy")
	}
	f.exec(`select setval('postrider.outbox_notifier', -(extract(epoch from clock_timestamp()) * 1000)::bigint + 60000)`)
	if !d.Arm(t.Context()) {
		t.Error("not armed although the other relay was busy long ago")
	}
}

// TestArmingEnds: what a relay that died asked for ends by itself.
func TestArmingEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.hang(f.db.URL, NotifierOptions{})
	d.until("alive", d.Alive)
	d.arm()
	if left := value[float64](f, `select last_value - extract(epoch from clock_timestamp()) from postrider.outbox_notifier`); left <= 0 || left > lease.Seconds() {
		t.Errorf("writers notify for %v s more", left)
	}
	ears := f.listener()
	f.exec(`select setval('postrider.outbox_notifier', extract(epoch from clock_timestamp())::bigint - 1)`)
	f.insert("a")
	if got := f.notices(ears); len(got) != 0 {
		t.Errorf("an insert notifies after the time: %q", got)
	}
}

// TestStoppedRelayIsNotNotified: a relay that was told to stop leaves no writer notifying.
func TestStoppedRelayIsNotNotified(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pool, err := NewPool(t.Context(), f.db.URL, Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d := &notifier{Notifier: NewNotifier(pool, NotifierOptions{}), f: f, log: &logtest.Buffer{}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { d.Listen(ctx); close(ended) }()
	d.until("alive", d.Alive)
	d.arm()
	stop()
	<-ended
	if value[int64](f, `select last_value from postrider.outbox_notifier`) >= 0 {
		t.Error("writers go on notifying")
	}
	if d.Alive() || d.Armed() {
		t.Error("it says that it works")
	}
}

// TestListeningAgain: the session that listens is ended; the relay knows, and listens again.
func TestListeningAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.hang(f.db.URL, NotifierOptions{})
	d.until("alive", d.Alive)
	d.arm()
	const session = `select pid from pg_stat_activity where datname = current_database() and application_name = 'postrider notifier'`
	pid := value[int](f, session)
	f.exec(`select pg_terminate_backend($1)`, pid)
	d.hears() // a relay that sleeps long must know
	f.waitFor(`select exists (`+session+` and pid <> $1)`, pid)
	d.until("alive again", d.Alive)
	d.arm()
	f.insert("a")
	d.hears()
	if said := d.log.String(); !strings.Contains(said, "polls until the connection") || strings.Count(said, "writers can wake") != 2 {
		t.Errorf("it said:\n%s", said)
	}
}

// TestQuietConnectionIsAsked: a connection on which nothing is heard is asked now and then, and stays.
func TestQuietConnectionIsAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.hang(f.db.URL, NotifierOptions{checkup: 5 * time.Millisecond})
	d.until("alive", d.Alive)
	f.waitFor(`select count(*) > 0 from pg_stat_activity where datname = current_database() and application_name = 'postrider notifier' and query ilike '%ping%'`)
	d.arm()
	f.insert("a")
	d.hears()
	if said := d.log.String(); strings.Contains(said, "polls") {
		t.Errorf("it said:\n%s", said)
	}
}

// TestRightsMissing: a relay whose login may not arm says so, once.
func TestRightsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.hang(f.db.URL, NotifierOptions{})
	d.until("alive", d.Alive)
	f.exec(`alter sequence postrider.outbox_notifier rename to gone`)
	for range 3 {
		if d.Arm(t.Context()) {
			t.Error("armed without a sequence")
		}
	}
	if said := d.log.String(); strings.Count(said, "cannot be asked to notify") != 1 || !strings.Contains(said, "postrider migrate roles") {
		t.Errorf("it said:\n%s", said)
	}
}

// TestNextDue: how long nothing more is due is known from holds and from what waits for a time.
func TestNextDue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.leader()
	next := func() time.Duration {
		t.Helper()
		_, in, err := d.DueHolds(t.Context(), 100)
		f.done(err)
		return in
	}
	if in := next(); in != time.Hour {
		t.Errorf("nothing waits, and something is due in %v", in)
	}
	f.insert("a", "b", "c")
	f.pass(relay.Receipt{Exceptions: []relay.Exception{
		{ID: 1, State: relay.Scheduled, In: 20 * time.Minute}, {ID: 2, State: relay.Scheduled, In: 40 * time.Minute}}})
	if in := next(); in > 20*time.Minute || in < 19*time.Minute {
		t.Errorf("the first is due in %v, want 20 minutes", in)
	}
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 't', 'route', now() + interval '5 minutes'), ('dead_letter', 't', 'route', now())`)
	if in := next(); in > 5*time.Minute || in < 4*time.Minute {
		t.Errorf("the first is due in %v, want 5 minutes", in)
	}
	f.due()
	if due, in, err := d.DueHolds(t.Context(), 100); err != nil || len(due) != 1 || !due[0].Probe || in != 0 {
		t.Errorf("due are %+v, the next in %v, %v", due, in, err)
	}
}
