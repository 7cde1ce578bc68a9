package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestNobodyWaitsInACircleWithWhoOpensASuccessor: a collector has a group and opens an investigation there that names an
// earlier one, while a session that has the earlier one wants the group. The session waits for the collector, and the
// collector does not wait for the session.
func TestNobodyWaitsInACircleWithWhoOpensASuccessor(t *testing.T) {
	t.Parallel()
	seen := "seen"
	closed := dlq.Cancelled
	nothing := func(*redriving, uuid.UUID) {}
	for name, c := range map[string]struct {
		prepare func(r *redriving, entry uuid.UUID)
		do      func(ctx context.Context, r *redriving, entry, group uuid.UUID) error
	}{
		"redrive": {nothing, func(ctx context.Context, r *redriving, entry, _ uuid.UUID) error {
			_, err := r.Redrive(ctx, dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Actor: "ada"})
			return err
		}},
		"note": {nothing, func(ctx context.Context, r *redriving, entry, _ uuid.UUID) error {
			_, err := r.people().Change(ctx, entry, dlq.Change{Notes: &seen, Actor: "ada"})
			return err
		}},
		"close": {nothing, func(ctx context.Context, r *redriving, entry, _ uuid.UUID) error {
			_, err := r.people().Change(ctx, entry, dlq.Change{Status: &closed, Actor: "ada"})
			return err
		}},
		"group": {nothing, func(ctx context.Context, r *redriving, _, group uuid.UUID) error {
			_, err := r.people().ResolveGroup(ctx, group, dlq.GroupResolution{Actor: "ada"})
			return err
		}},
		"operation": {func(r *redriving, entry uuid.UUID) {
			r.command(r.plan(dlq.Scope{Entries: []uuid.UUID{entry}}, dlq.OperationOptions{}).UUID, dlq.Start)
		}, func(ctx context.Context, r *redriving, _, _ uuid.UUID) error {
			_, _, err := r.Step(ctx)
			return err
		}},
		"delivered": {func(r *redriving, entry uuid.UUID) {
			r.redrive(entry)
			r.deliverAndForget(1)
		}, func(ctx context.Context, r *redriving, _, _ uuid.UUID) error {
			_, err := r.Follow(ctx, 10, true)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRedriving(t)
			entry := r.die(1, nil)
			group := groupOf(t, r.subject, entry)
			c.prepare(r, entry)
			collector, err := r.subject.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = collector.Rollback(context.WithoutCancel(t.Context())) }()
			// It waits for a deadlock longer, so that it is not the one that gives way.
			pgtest.Exec(t, collector, `set local deadlock_timeout = '1h'`)
			pgtest.Exec(t, collector, groupHold, []uuid.UUID{group})
			ended := make(chan error, 1)
			go func() { ended <- c.do(t.Context(), r, entry, group) }()
			untilWaiting(t, r.subject.pool)
			pgtest.Exec(t, collector, `insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, dlq_group_uuid, predecessor_uuid)
				values ('record', 'orders/3/7@billing', 'failed', 'undeliverable', now(), now(), '{}', $1, $2)`, group, entry)
			if err := errors.Join(collector.Commit(t.Context()), <-ended); err != nil {
				t.Error(err)
			}
			wantNoDeadlocks(t, r.subject.pool)
		})
	}
}

// untilWaitingOr waits until a session of the database waits for a lock, or something has ended. It reports the former.
func untilWaitingOr[T any](t *testing.T, r *redriving, ended chan T) bool {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(ended) == 0 {
		if r.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0 {
			return true
		}
		<-tick.C
	}
	return false
}

// TestARedriveEndsWhileItsInvestigationGoes: whichever of the two is first, the other one takes the redrive along.
func TestARedriveEndsWhileItsInvestigationGoes(t *testing.T) {
	t.Parallel()
	end := func(ctx context.Context, r *redriving, tx pgx.Tx) error {
		open, err := openRedrives(ctx, tx, dlq.MainSource, 0, "", 10)
		if err != nil {
			return err
		}
		standings, err := eventStandings(ctx, tx, column(open, func(o openRedrive) int64 { return o.OutboxID }), column(open, func(o openRedrive) uuid.UUID { return o.Event }))
		if err != nil {
			return err
		}
		ids, outcomes := endsOf(open, standings, false)
		done, err := endRedrives(ctx, tx, ids, outcomes)
		if err != nil || len(done) != 1 {
			return errors.Join(err, errors.New("not one redrive ended"))
		}
		_, err = tx.Exec(ctx, redriveForget, column(done, redriveID))
		return err
	}
	purge := func(ctx context.Context, r *redriving, tx pgx.Tx) error {
		entries, err := lockEntries(ctx, tx, purgeLock, pgtest.Column[uuid.UUID](r.t, tx, `select dlq_entry_uuid from postrider.dlq_entry`))
		if err != nil || len(entries) != 1 {
			return errors.Join(err, errors.New("not one investigation is there"))
		}
		_, _, _, err = purgeEntries(ctx, tx, r.exceptions, entries, false)
		return err
	}
	within := func(f func(context.Context, *redriving, pgx.Tx) error) func(context.Context, *redriving) error {
		return func(ctx context.Context, r *redriving) error {
			return transact(ctx, r.subject.pool, steady, func(tx pgx.Tx) error { return f(ctx, r, tx) })
		}
	}
	for name, c := range map[string]struct {
		first  func(context.Context, *redriving, pgx.Tx) error
		second func(context.Context, *redriving) error
	}{
		"the purge first": {purge, func(ctx context.Context, r *redriving) error {
			_, err := r.Follow(ctx, 10, true)
			return err
		}},
		"the end first": {end, within(purge)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRedriving(t)
			r.redrive(r.die(1, nil))
			r.deliverAndForget(1)
			tx, err := r.subject.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: steady})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			if err := c.first(t.Context(), r, tx); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- c.second(t.Context(), r) }()
			if !untilWaitingOr(t, r, ended) {
				t.Error("the second did not wait for the first")
			}
			if err := errors.Join(tx.Commit(t.Context()), <-ended); err != nil {
				t.Error(err)
			}
			if n := r.count(`select count(*) from postrider.dlq_redrive`); n != 0 {
				t.Errorf("%d redrives of what was purged are left", n)
			}
			wantNoDeadlocks(t, r.subject.pool)
		})
	}
}

// TestAPurgeAndAFollowerDoNotCross: a session that follows redrives wants their investigations in the order in which a
// purge locks them. So, while it waits for a purge, it has none that the purge wants.
func TestAPurgeAndAFollowerDoNotCross(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := []uuid.UUID{r.die(1, nil), r.die(2, nil), r.die(3, nil)}
	slices.SortFunc(entries, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	r.redrive(entries...)
	redrives := column(entries, func(id uuid.UUID) string { return id.String() + ":1" })
	slices.Reverse(redrives)
	purge, err := r.subject.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = purge.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := lockEntries(t.Context(), purge, purgeLock, entries[:1]); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := r.subject.pool.Exec(t.Context(), redriveForget, redrives)
		ended <- err
	}()
	if !untilWaitingOr(t, r, ended) {
		t.Error("no session waits for the purge")
	}
	pgtest.Exec(t, purge, `select from postrider.dlq_entry where dlq_entry_uuid = any ($1) for update nowait`, entries)
	if err := errors.Join(purge.Commit(t.Context()), <-ended); err != nil {
		t.Error(err)
	}
	if n := r.count(`select count(*) from postrider.dlq_redrive`); n != len(entries) {
		t.Errorf("%d redrives are left of investigations that are there, want %d", n, len(entries))
	}
}
