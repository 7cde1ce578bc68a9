package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// release asks to let the keys of investigations go.
func (c *commanding) release(entries ...uuid.UUID) dlq.Requeued {
	c.t.Helper()
	done, err := c.Release(c.t.Context(), dlq.ReleaseRequest{Entries: entries, Actor: "ada"})
	if err != nil {
		c.t.Fatal(err)
	}
	return done
}

// reasons are why investigations were skipped, in their order.
func reasons(done dlq.Requeued) (all []dlq.SkipReason) {
	for _, s := range done.Skipped {
		all = append(all, s.Reason)
	}
	return all
}

// TestAKeyIsAskedToGoOnce: asked again before the source has answered, it is the same command; afterwards it is another.
func TestAKeyIsAskedToGoOnce(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	first, second := c.dieThere(1, true), c.dieThere(2, true)
	c.release(first)
	if done := c.release(first, second); !sameIDs(done.Asked, []uuid.UUID{first, second}) || len(done.Skipped) != 0 {
		t.Errorf("again: %+v", done)
	}
	c.sendAll()
	c.wantAnswers("release 2 released", "release 3 released")
	c.release(first)
	c.sendAll()
	c.wantAnswers("release 2 released", "release 3 released", "release 2 no_key")
}

// TestAskingForKeysReadsNoBacklog: what a source has not answered may be much, and a request is about many investigations.
func TestAskingForKeysReadsNoBacklog(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	first, second := c.dieThere(1, true), c.dieThere(2, true)
	c.release(first)
	mustExec(t, c.subject.pool, `insert into postrider.dlq_command (source, kind, dlq_entry_uuid, outbox_id, event_id, episode, actor)
		select 'orders', k, gen_random_uuid(), n, gen_random_uuid(), 1, 'ada' from generate_series(1, 1000) n, unnest('{close,release}'::text[]) k`)
	letters := pgtest.Column[string](t, c.subject.pool, `select l.letter_id from unnest($1::uuid[]) with ordinality as w(entry, place)
		join postrider.dlq_letter l on l.dlq_entry_uuid = w.entry order by w.place`, []uuid.UUID{first, second})
	// A connection counts what it read until it reports it; so this has a new one.
	conn, err := pgx.ConnectConfig(t.Context(), c.subject.pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // nothing is to stay
	pgtest.Exec(t, conn, "begin")
	if asked := pgtest.Column[uuid.UUID](t, conn, sourceRelease, "ada", []uuid.UUID{first, second}, letters); len(asked) != 2 {
		t.Errorf("asked are %v", asked)
	}
	if n := pgtest.Value[int](t, conn, `select pg_stat_get_xact_tuples_returned(c.oid) + (select sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) from pg_index i where i.indrelid = c.oid)
		from pg_class c where c.oid = 'postrider.dlq_command'::regclass`); n == 0 || n > 10 {
		t.Errorf("%d commands were read to ask for two keys, with one that waits", n)
	}
}

// TestAKeyIsLetGo at the desk, of its own outbox and of a source: the key goes on, and the investigation stays open.
func TestAKeyIsLetGo(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	there, here := c.dieThere(1, true), c.die(3, nil)
	c.halt(3)
	closed, free, task, behind := c.dieThere(8, false), c.die(4, nil), c.record(dlqtest.Letters(dlqtest.From("orders", dlqtest.Task(5, 1)))[0]), c.dieThere(2, false)
	if err := c.Resolve(t.Context(), closed); err != nil {
		t.Fatal(err)
	}
	done := c.release(there, here, closed, free, task, behind)
	if want := []uuid.UUID{there, here, behind}; !sameIDs(done.Entries, want) || !sameIDs(done.Asked, []uuid.UUID{there, behind}) || len(done.Reaches) != 0 {
		t.Errorf("%+v", done)
	}
	if got := reasons(done); len(got) != 3 || !slices.Contains(got, dlq.NotPending) || !slices.Contains(got, dlq.NoKey) {
		t.Errorf("skipped are %q", got)
	}
	if !c.holdOf(3) {
		t.Error("the key of the own outbox is not asked to go")
	}
	c.sendAll()
	c.wantAnswers("close 9 closed", "release 2 released", "release 3 no_key")
	if got := pgtest.Value[string](t, c.source, `select concat_ws(' ', x.state, x.closed_at, h.asked) from postrider.outbox_exception x join postrider.outbox_hold h using (event_id)`); got != "dead_lettered release" {
		t.Errorf("there the event and its key are %s", got)
	}
	for _, entry := range []uuid.UUID{there, here} {
		if status, _ := c.status(entry); status != dlq.Pending {
			t.Errorf("an investigation is %s", status)
		}
	}
	if !slices.Contains(c.audit.actions, "outbox.release entry ") {
		t.Errorf("the audit log has %q", c.audit.actions)
	}
	mustExec(t, c.subject.pool, `delete from postrider.outbox_hold`)
	if got := reasons(c.release(here)); !slices.Equal(got, []dlq.SkipReason{dlq.NoKey}) {
		t.Errorf("again: %q", got)
	}
	c.patience = 5 * time.Second
	c.OnCommands(func([]string) { go func() { _, _ = c.SendCommands(t.Context(), deskName, "orders", c.source) }() })
	if done := c.release(there); len(done.Entries)+len(done.Asked) != 0 || !slices.Equal(reasons(done), []dlq.SkipReason{dlq.NoKey}) {
		t.Errorf("again, there: %+v", done)
	}
	if done := c.redrive(there); len(done.Entries) != 1 || len(done.Asked) != 0 {
		t.Errorf("redriven later: %+v", done)
	}
	if got := pgtest.Value[string](t, c.subject.pool, `select answer from postrider.dlq_command order by number desc limit 1`); got != dlq.AnswerNew {
		t.Errorf("redriven later it goes as %s", got)
	}
	if _, err := c.Release(t.Context(), dlq.ReleaseRequest{Entries: []uuid.UUID{uuid.New()}, Actor: "ada"}); err == nil {
		t.Error("an unknown investigation is released")
	}
}

func sameIDs(a, b []uuid.UUID) bool {
	order := func(x, y uuid.UUID) int { return slices.Compare(x[:], y[:]) }
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, order)
	slices.SortFunc(b, order)
	return slices.Equal(a, b)
}

// TestAReleaseThatIsCut acts once, and the desk hears of it.
func TestAReleaseThatIsCut(t *testing.T) {
	t.Parallel()
	for _, how := range []func(*pgproxy.Proxy, int, func([]string) bool){(*pgproxy.Proxy).CutBeforeCommit, (*pgproxy.Proxy).CutAfterCommit} {
		c := newCommanding(t)
		c.release(c.dieThere(1, true))
		how(c.proxy, 1, pgproxy.Containing("outbox_obey"))
		if _, err := c.SendCommands(t.Context(), deskName, "orders", c.link); err == nil {
			t.Fatal("it was not cut")
		}
		mustExec(t, c.source, `delete from postrider.outbox_hold where asked = 'release'`) // as the relay does it
		c.sendAll()
		c.wantAnswers("release 2 released")
		if got := c.acts(1); got != "outbox.release by ada" {
			t.Errorf("the source did %q", got)
		}
	}
}

// TestAReleaseThatIsUndone: the source was set back. Its key is halted again; people hear of it, and decide anew.
func TestAReleaseThatIsUndone(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	entry := c.dieThere(1, true)
	backup := c.backup()
	c.release(entry)
	c.send()
	c.wantAnswers("release 2 released")
	c = c.back(c.subject.pool, backup)
	c.wantStopped(dlq.StopRewound)
	if done := c.rejoin(); !slices.Equal(undoneText(done), []string{"release 2 released"}) || done.Forgotten != 0 || done.Again != 0 {
		t.Errorf("%+v", done)
	}
	c.wantAnswers("release 2 undone")
	c.release(entry)
	c.send()
	c.wantAnswers("release 2 undone", "release 2 released")
}
