package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	relaypostgres "github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// back is this desk and its source with one of the databases set back to a copy.
func (c *commanding) back(desk, source *pgxpool.Pool) *commanding {
	c.t.Helper()
	r := c.redriving
	if desk != c.subject.pool {
		s := subjectOn(c.t, desk)
		a := &auditor{}
		redriver, err := NewRedriver(RedriverConfig{Pool: desk, Auditor: a, Exceptions: exceptions{relaypostgres.NewStore(desk, relaypostgres.StoreOptions{})}})
		if err != nil {
			c.t.Fatal(err)
		}
		redriver.patience = 0
		r = &redriving{s, redriver, a, c.t}
	}
	return &commanding{r, c.db, source, c.link, c.proxy}
}

// wantStopped: nothing is sent to the source, and nothing is followed there.
func (c *commanding) wantStopped(reason dlq.StopReason) {
	c.t.Helper()
	acts := pgtest.Value[int](c.t, c.source, `select count(*) from postrider.access_audit`)
	_, sending := c.SendCommands(c.t.Context(), deskName, "orders", c.source)
	if c.count(`select count(*) from postrider.dlq_command where answered_at is null`) == 0 {
		_, sending = c.Confirm(c.t.Context(), deskName, "orders", c.source) // there is nothing to send
	}
	_, following := c.FollowSource(c.t.Context(), deskName, "orders", c.source, 100, true)
	_, confirming := c.Confirm(c.t.Context(), deskName, "orders", c.source)
	for what, err := range map[string]error{"it is confirmed": confirming, "commands are sent": sending, "redrives are followed": following} {
		var stopped *dlq.StoppedError
		if !errors.As(err, &stopped) || stopped.Reason != reason || !strings.Contains(err.Error(), "postrider sources rejoin orders") {
			c.t.Errorf("%s: %v, want it stopped as %s", what, err, reason)
		}
	}
	if now := pgtest.Value[int](c.t, c.source, `select count(*) from postrider.access_audit`); now != acts {
		c.t.Errorf("the source that is stopped did something: %d rows in its audit log, were %d", now, acts)
	}
	known, err := c.KnownSources(c.t.Context())
	if err != nil || len(known) != 1 || known[0].Stopped != reason || known[0].StoppedAt.IsZero() {
		c.t.Errorf("the desk knows %+v, %v", known, err)
	}
}

// rejoin leads the source back, and says what it did.
func (c *commanding) rejoin() dlq.Rejoin {
	c.t.Helper()
	req := dlq.RejoinRequest{Desk: deskName, Source: "orders", Actor: "ada"}
	plan, err := c.PlanRejoin(c.t.Context(), req, c.source)
	if err != nil || plan.Done {
		c.t.Fatalf("the plan is %+v, %v", plan, err)
	}
	done, err := c.Rejoin(c.t.Context(), req, c.source)
	if err != nil || done.Done == plan.Nothing() || len(done.Undone) != len(plan.Undone) || len(done.Acts) != len(plan.Acts) {
		c.t.Fatalf("planned %+v, done %+v, %v", plan, done, err)
	}
	return done
}

func undoneText(r dlq.Rejoin) []string {
	var all []string
	for _, u := range r.Undone {
		all = append(all, strings.TrimSpace(fmt.Sprint(u.Kind, " ", u.OutboxID, " ", u.Answer, " ", u.Outcome)))
	}
	return all
}

// TestARestoredSourceIsLedBack: the source was set back to a backup. It is stopped; what it answered and has lost is named; what
// people redrove can be redriven again, and acts once; what closes an event is commanded again.
func TestARestoredSourceIsLedBack(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	before := c.dieThere(5, false)
	c.redrive(before)
	c.send()
	inPlace, asNew, arrived, closed := c.dieThere(1, true), c.dieThere(2, false), c.dieThere(3, false), c.dieThere(8, true)
	backup := c.backup()
	c.redrive(inPlace, asNew, arrived)
	c.send()
	outboxtest.Settle(t, c.source, outboxtest.Published, pgtest.Value[int64](t, c.subject.pool, `select outbox_id from postrider.dlq_redrive where dlq_entry_uuid = $1`, arrived))
	c.followThere()
	if err := c.Resolve(t.Context(), closed); err != nil {
		t.Fatal(err)
	}
	c.send()
	c.wantAnswers("redrive 6 new", "redrive 2 in_place", "redrive 3 new", "redrive 4 new", "close 4 closed", "close 9 closed")

	c = c.back(c.subject.pool, backup)
	c.redrive(c.dieThere(9, false)) // it is to wait
	c.wantStopped(dlq.StopRewound)
	done := c.rejoin()
	if got, want := undoneText(done), []string{"redrive 2 in_place", "redrive 3 new", "redrive 4 new delivered", "close 4 closed", "close 9 closed"}; !slices.Equal(got, want) {
		t.Errorf("undone are %q, want %q", got, want)
	}
	if done.Reason != dlq.StopRewound || done.Forgotten != 3 || done.Again != 2 || done.Noted != 0 {
		t.Errorf("%+v", done)
	}
	if again := c.rejoin(); !again.Nothing() || again.Done {
		t.Errorf("once more: %+v", again)
	}
	if !slices.Contains(c.audit.actions, "source.rejoin source orders") {
		t.Errorf("the audit log has %q", c.audit.actions)
	}
	c.redrive(inPlace, asNew)
	c.send()
	c.wantAnswers("redrive 6 new", "redrive 2 undone", "redrive 3 undone", "redrive 4 undone", "close 4 closed", "close 9 closed", "redrive 10 new", "redrive 2 in_place", "redrive 3 new")
	for n, want := range map[int]string{1: "dlq.requeue by ada", 2: "dlq.requeue by ada", 3: "dlq.resolve by postrider", 5: "dlq.requeue by ada"} {
		if got := c.acts(n); got != want {
			t.Errorf("event %d in the restored source: %q, want %q", n, got, want)
		}
	}
	if got := pgtest.Value[string](t, c.source, `select concat_ws(' ', closed_at is not null) from postrider.outbox_exception where id = $1`, outboxID(8)); got != "t" {
		t.Errorf("the event whose investigation is closed: %q", got)
	}
}

// TestASourceThatLostReceipts: no command was undone, but the source lacks batches that the desk has seen.
func TestASourceThatLostReceipts(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	backup := c.backup()
	mustExec(t, c.source, `insert into postrider.outbox_event (topic) values ('t')`)
	outboxtest.SettleAll(t, c.source, outboxtest.Published, outboxtest.Pending, 0)
	if other, err := c.Confirm(t.Context(), deskName, "orders", c.source); err != nil || other != "" {
		t.Fatal(err)
	}
	c = c.back(c.subject.pool, backup)
	c.wantStopped(dlq.StopRewound)
	for range 3 { // by then it has more receipts than the desk had seen
		mustExec(t, c.source, `insert into postrider.outbox_event (topic) values ('t')`)
		outboxtest.SettleAll(t, c.source, outboxtest.Published, outboxtest.Pending, 0)
	}
	c.wantStopped(dlq.StopRewound)
	if done := c.rejoin(); len(done.Undone)+len(done.Acts) != 0 || !done.Done {
		t.Errorf("%+v", done)
	}
	if _, err := c.Confirm(t.Context(), deskName, "orders", c.source); err != nil {
		t.Error(err)
	}
}

// TestACallFindsASourceThatWasSetBack: it is set back between the look at it and the call. Nothing is done.
func TestACallFindsASourceThatWasSetBack(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	backup := c.backup()
	c.redrive(c.dieThere(1, true))
	c.send()
	c.redrive(c.dieThere(2, false))
	made := c.call()
	c = c.back(c.subject.pool, backup)
	if _, err := obey(t.Context(), c.source, made); err == nil || !strings.Contains(err.Error(), "the source orders was set back") {
		t.Errorf("%v", err)
	}
	if n := pgtest.Value[int](t, c.source, `select heard from postrider.outbox_source`); n != 0 {
		t.Errorf("it has heard call %d", n)
	}
}

// TestAStoppedSourceIsNotCalled: another process stops it between the look at it and the call.
func TestAStoppedSourceIsNotCalled(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	c.redrive(c.dieThere(1, true))
	for _, stop := range []string{`stopped = 'rewound', stopped_at = now()`, `stopped = null, stopped_at = null, forgotten_at = now()`} {
		if _, err := c.Confirm(t.Context(), deskName, "orders", c.source); err != nil && !isStoppedBy(err) {
			t.Fatal(err)
		}
		mustExec(t, c.subject.pool, `update postrider.dlq_source set `+stop)
		made := call{desk: deskName, source: "orders"}
		if err := c.draw(t.Context(), &made); !errors.Is(err, errSourceMoved) {
			t.Errorf("%s: %+v, %v", stop, made, err)
		}
	}
}

func isStoppedBy(err error) bool {
	var stopped *dlq.StoppedError
	return errors.As(err, &stopped)
}

// TestARestoredDeskLearnsWhatWasDone: the desk was set back. Nothing is sent; the redrives that the source carried out since are
// noted, followed, and not done again.
func TestARestoredDeskLearnsWhatWasDone(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	c.redrive(c.dieThere(5, false))
	c.send()
	inPlace, asNew, closed, waits := c.dieThere(1, true), c.dieThere(2, false), c.dieThere(3, true), c.dieThere(4, false)
	c.redrive(waits) // the backup has this command, without its answer
	backup := copyOf(t, c.subject.pool)
	c.redrive(inPlace, asNew)
	c.send()
	if err := c.Resolve(t.Context(), closed); err != nil {
		t.Fatal(err)
	}
	c.send()
	later := c.dieThere(6, false)
	c.redrive(later)
	c.send()

	c = c.back(backup, c.source)
	c.redrive(asNew) // as who does not know that it was done
	c.wantStopped(dlq.StopDeskRewound)
	mustExec(t, c.subject.pool, `delete from postrider.dlq_command where outbox_id = $1`, outboxID(2)) // nor did anybody ask
	mustExec(t, c.subject.pool, `delete from postrider.dlq_redrive where dlq_entry_uuid = $1`, asNew)
	req := dlq.RejoinRequest{Desk: deskName, Source: "orders", Actor: "ada"}
	refused, err := c.Rejoin(t.Context(), req, c.source)
	if !errors.Is(err, dlq.ErrSource) || refused.Done || refused.MissingLetters() != 1 {
		t.Errorf("without a letter: %+v, %v", refused, err)
	}
	c.wantStopped(dlq.StopDeskRewound)
	c.record(from("orders", dlqtest.Event(6, 1))) // the collector reads it again
	done := c.rejoin()
	var acts []string
	for _, a := range done.Acts {
		acts = append(acts, fmt.Sprint(a.Answer, " ", a.OutboxID, " ", a.Known))
	}
	if want := []string{"new 5 true", "in_place 2 false", "new 3 false", "closed 4 false", "new 7 false"}; !slices.Equal(acts, want) || done.Noted != 3 || len(done.Undone) != 0 {
		t.Errorf("%q, noted %d, undone %q; want %q", acts, done.Noted, undoneText(done), want)
	}
	if again := c.rejoin(); !again.Nothing() {
		t.Errorf("once more: %+v", again)
	}
	for entry, want := range map[uuid.UUID]dlq.SkipReason{inPlace: dlq.AlreadyQueued, asNew: dlq.AlreadyQueued} {
		if done := c.redrive(entry); len(done.Skipped) != 1 || done.Skipped[0].Reason != want {
			t.Errorf("redriven again: %+v", done)
		}
	}
	c.send()
	c.wantAnswers("redrive 6 new", "redrive 5 new", "redrive 2 in_place", "redrive 3 new", "redrive 7 new")
	for _, n := range []int{1, 2, 4, 6} {
		if got := c.acts(n); got != "dlq.requeue by ada" {
			t.Errorf("event %d in the source: %q", n, got)
		}
	}
	outboxtest.Settle(t, c.source, outboxtest.Published, append(pgtest.Column[int64](t, c.source, `select id from postrider.outbox_event where id > 1000`), outboxID(1))...)
	if f := c.followThere(); f.Delivered != 5 {
		t.Errorf("%+v", f)
	}
	for _, entry := range []uuid.UUID{inPlace, asNew} {
		if status, _ := c.status(entry); status != dlq.ManuallyResolved {
			t.Errorf("an investigation whose event arrived is %s", status)
		}
	}
}

// backup is a pool on a copy of the database of the source, as it is now.
func (c *commanding) backup() *pgxpool.Pool {
	c.t.Helper()
	return copyOf(c.t, c.source)
}

// copyOf is a pool on a copy of the database of another.
func copyOf(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	copied := (&pgtest.DB{Name: pool.Config().ConnConfig.Database, URL: pool.Config().ConnString()}).Copy(t)
	pool.Reset() // its connections were ended
	return copied.Pool(t)
}

// TestRejoinIsCut at each step of its transaction at the desk: run again it ends as if it had not been cut.
func TestRejoinIsCut(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*pgproxy.Proxy, int, func([]string) bool){
		"before": (*pgproxy.Proxy).CutAtQuery, "before its commit": (*pgproxy.Proxy).CutBeforeCommit, "after its commit": (*pgproxy.Proxy).CutAfterCommit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCommanding(t)
			entry := c.dieThere(1, true)
			backup := c.backup()
			c.redrive(entry)
			c.send()
			proxy := pgproxy.Start(t, c.subject.pool.Config().ConnString())
			cut := c.back((&pgtest.DB{URL: proxy.URL()}).Pool(t), backup)
			c = c.back(c.subject.pool, backup)
			c.wantStopped(dlq.StopRewound)
			how(proxy, 1, pgproxy.Containing("dlq_rejoin_source"))
			_, err := cut.Rejoin(t.Context(), dlq.RejoinRequest{Desk: deskName, Source: "orders", Actor: "ada"}, c.source)
			if proxy.Cuts() != 1 {
				t.Fatalf("it was not cut: %v", err)
			}
			c.rejoin()
			if _, err := c.Confirm(t.Context(), deskName, "orders", c.source); err != nil {
				t.Error(err)
			}
			c.redrive(entry)
			c.sendAll()
			c.wantAnswers("redrive 2 undone", "redrive 2 in_place")
			if got := c.acts(1); got != "dlq.requeue by ada" {
				t.Errorf("the restored source did %q", got)
			}
		})
	}
}

// TestAnotherDatabaseOfTheName is stopped, until people say that it is the source now.
func TestAnotherDatabaseOfTheName(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	if _, err := c.Confirm(t.Context(), deskName, "orders", c.source); err != nil {
		t.Fatal(err)
	}
	mustExec(t, c.source, `update postrider.outbox_source set source_uuid = gen_random_uuid()`)
	c.redrive(c.dieThere(1, true))
	c.wantStopped(dlq.StopIdentity)
	if done := c.rejoin(); !done.Done {
		t.Errorf("%+v", done)
	}
	c.send()
	c.wantAnswers("redrive 2 in_place")
}

// TestAForgottenSource: its commands are abandoned, what became of its redrives is unknown, its investigations stay and can be closed,
// and it is asked nothing any more, until it comes back.
func TestAForgottenSource(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	sent, asked, closed, open := c.dieThere(1, true), c.dieThere(2, false), c.dieThere(3, true), c.dieThere(4, false)
	c.redrive(sent)
	c.send()
	c.redrive(asked)
	if err := c.Resolve(t.Context(), closed); err != nil {
		t.Fatal(err)
	}
	if known, err := c.KnowsSource(t.Context(), "billing"); err != nil || known {
		t.Errorf("the desk knows billing: %v, %v", known, err)
	}
	first, err := c.ForgetSource(t.Context(), "orders", "ada")
	if err != nil || first.Commands != 2 || first.Redrives != 2 {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := c.ForgetSource(t.Context(), "orders", "ada"); err != nil || again.Commands != 0 || again.Redrives != 0 || !again.Since.Equal(first.Since) {
		t.Errorf("once more: %+v, %v", again, err)
	}
	for _, name := range []string{"main", "Orders", ""} {
		if _, err := c.ForgetSource(t.Context(), name, "ada"); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%q: %v", name, err)
		}
	}
	c.wantAnswers("redrive 2 in_place", "redrive 3 abandoned", "close 4 abandoned")
	if got := pgtest.Column[string](t, c.subject.pool, `select outcome from postrider.dlq_redrive`); !slices.Equal(got, []string{"unknown", "unknown"}) {
		t.Errorf("the redrives are %q", got)
	}
	for _, entry := range []uuid.UUID{sent, open} {
		if done := c.redrive(entry); len(done.Skipped) != 1 || done.Skipped[0].Reason != dlq.SourceForgotten {
			t.Errorf("redriven: %+v", done)
		}
	}
	if err := c.Resolve(t.Context(), open); err != nil {
		t.Errorf("closing: %v", err)
	}
	if _, err := c.subject.pool.Exec(t.Context(), `select * from postrider.dlq_ask_source(null, 'ada', array[$1::uuid], array[$2], array[gen_random_uuid()], '{orders}', '{false}', '{"{}"}')`,
		sent, "orders/event:"+dlqtest.EventID(1).String()+":1"); err == nil || !strings.Contains(err.Error(), "no source can be asked") {
		t.Errorf("by hand: %v", err)
	}
	if n := c.count(`select count(*) from postrider.dlq_command where answered_at is null`); n != 0 {
		t.Errorf("%d commands wait for a source that is gone", n)
	}
	c.wantStopped(dlq.StopForgotten)
	if done := c.rejoin(); !done.Done || done.Reason != dlq.StopForgotten {
		t.Errorf("%+v", done)
	}
	if done := c.redrive(asked); len(done.Asked) != 1 {
		t.Errorf("redriven when it is back: %+v", done)
	}
	c.send()
	c.wantAnswers("redrive 2 in_place", "redrive 3 abandoned", "close 4 abandoned", "redrive 3 new")
}

// TestForgettingWaitsForWhoAsks: a source is forgotten while its commands are being written. None is left without an answer.
func TestForgettingWaitsForWhoAsks(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	if _, err := c.Confirm(t.Context(), deskName, "orders", c.source); err != nil { // the desk knows it from then on
		t.Fatal(err)
	}
	letter := func(n int) string { return "orders/event:" + dlqtest.EventID(n).String() + ":1" }
	for n, ask := range map[int]string{
		1: `select * from postrider.dlq_ask_source(null, 'ada', array[$1::uuid], array[$2], array[gen_random_uuid()], '{orders}', '{false}', '{"{}"}')`,
		2: `select * from postrider.dlq_ask_release('ada', array[$1::uuid], array[$2])`,
	} {
		entry := c.dieThere(n, true)
		tx, err := c.subject.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // after a commit nothing is left
		if _, err := tx.Exec(t.Context(), ask, entry, letter(n)); err != nil {
			t.Fatal(err)
		}
		forgotten := make(chan error, 1)
		go func() { _, err := c.ForgetSource(t.Context(), "orders", "ada"); forgotten <- err }()
		pgtest.WaitFor(t, c.subject.pool, `select exists (select from postrider.dlq_source where forgotten_at is not null)
			or exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-forgotten; err != nil {
			t.Fatal(err)
		}
		if n := c.count(`select count(*) from postrider.dlq_command where answered_at is null`); n != 0 {
			t.Errorf("%d commands wait for a source that is gone: %s", n, ask)
		}
		mustExec(t, c.subject.pool, `update postrider.dlq_source set forgotten_at = null`)
	}
}

// TestWaitingForASourceThatIsAway: who waits has it asked, and hears what it answers when it is back.
func TestWaitingForASourceThatIsAway(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	c.redrive(c.dieThere(1, false))
	mustExec(t, c.subject.pool, `update postrider.dlq_command set created_at = now() - interval '11 seconds'`)
	entry := c.dieThere(2, true)
	if done := c.redrive(entry); len(done.Skipped) != 1 || done.Skipped[0].Reason != dlq.SourceAway {
		t.Fatalf("without waiting: %+v", done)
	}
	c.OnCommands(func([]string) { go func() { _, _ = c.SendCommands(t.Context(), deskName, "orders", c.source) }() })
	var written dlq.Requeued
	done, err := c.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Wait: dlq.MaxWait, Actor: "ada", Written: func(w dlq.Requeued) { written = w }})
	if err != nil || len(done.Entries) != 1 || len(done.Asked) != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if len(written.Asked) != 1 || len(written.Reaches) != 1 {
		t.Errorf("before it answered: %+v", written)
	}
	if _, err := c.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Wait: dlq.MaxWait + 1, Actor: "ada"}); !errors.Is(err, dlq.ErrRequest) {
		t.Errorf("too long: %v", err)
	}
}
