package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// TestOvertaken: another collector records, between the look for letters and investigations and their insertion, an
// investigation of the same subject, or the same letter. Ours waits for it, and then records as if it had come later.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	ours := dlqtest.Letters(dlqtest.Event(1, 1), dlqtest.Event(2, 1), dlqtest.Event(3, 1))
	for name, c := range map[string]struct {
		theirs dlq.Letter
		close  bool
		want   dlq.Recorded
	}{
		"an investigation of the subject":         {dlq.Decode(dlqtest.Event(2, 2)), false, dlq.Recorded{New: 3, Opened: 2, Added: 1}},
		"an investigation that is closed by then": {dlq.Decode(dlqtest.Event(2, 2)), true, dlq.Recorded{New: 3, Opened: 3}},
		"the letter": {dlq.Decode(dlqtest.Event(2, 1)), false, dlq.Recorded{New: 2, Repeated: 1, Opened: 2}},
		"the letter of an investigation that closed": {dlq.Decode(dlqtest.Event(2, 1)), true, dlq.Recorded{New: 2, Repeated: 1, Opened: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			tx, err := s.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: begin})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			// The group is there before, so that ours waits for nothing but the investigation.
			if _, err := s.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.Event(9, 1))); err != nil {
				t.Fatal(err)
			}
			theirs, err := s.recordIn(t.Context(), tx, []*dlq.Letter{&c.theirs})
			if err != nil || theirs != (dlq.Recorded{New: 1, Opened: 1}) {
				t.Fatal(theirs, err)
			}
			var entry uuid.UUID
			if err := tx.QueryRow(t.Context(), `select dlq_entry_uuid from postrider.dlq_letter where letter_id = $1`, c.theirs.ID).Scan(&entry); err != nil {
				t.Fatal(err)
			}
			if c.close {
				if _, err := tx.Exec(t.Context(), entryClose, []uuid.UUID{entry}, "cancelled", []string{""}, ""); err != nil {
					t.Fatal(err)
				}
			}
			type result struct {
				recorded dlq.Recorded
				err      error
			}
			done := make(chan result, 1)
			go func() {
				recorded, err := s.RecordLetters(t.Context(), ours)
				done <- result{recorded, err}
			}()
			untilWaiting(t, s.pool)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := <-done; got.err != nil || got.recorded != c.want {
				t.Errorf("recorded %+v, %v; want %+v", got.recorded, got.err, c.want)
			}
			pending, _, err := s.list(t.Context(), dlq.Filter{Status: dlq.Pending, Subject: c.theirs.Subject})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case !c.close && (len(pending) != 1 || pending[0].UUID != entry):
				t.Errorf("pending %+v, want the other's %s", pending, entry)
			case c.close && c.theirs.ID != ours[1].ID && (len(pending) != 1 || pending[0].UUID == entry):
				t.Errorf("pending %+v, want one of our own beside %s", pending, entry)
			case c.close && c.theirs.ID == ours[1].ID && len(pending) != 0:
				t.Errorf("pending %+v, want none: the letter was recorded, and its investigation closed", pending)
			}
		})
	}
}

// TestMixedBatchesDoNotDeadlock: collectors that open new investigations and add to others in the same groups wait for
// each other, and never in a circle.
func TestMixedBatchesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const collectors, batches, size = 4, 10, 60
	s := newSubject(t)
	letters := func(collector, batch int) (all []dlq.Letter) {
		for i := range size {
			// Every third is of an event that was new in the batch before, which has other groups than this batch.
			n, episode := (collector*batches+batch)*size+i, 1
			if i%3 == 0 && batch > 0 {
				n, episode = n-size+1, 2
			}
			l := dlq.Decode(dlqtest.Event(n, episode))
			l.ErrorCode = fmt.Sprint("CODE_", (collector+batch)%2, "_", i%5)
			all = append(all, l)
		}
		return all
	}
	var wg sync.WaitGroup
	for c := range collectors {
		wg.Go(func() {
			for batch := range batches {
				want := dlq.Recorded{New: size, Opened: size}
				if batch > 0 {
					want = dlq.Recorded{New: size, Opened: size * 2 / 3, Added: size / 3}
				}
				if got, err := s.RecordLetters(t.Context(), letters(c, batch)); err != nil || got != want {
					t.Errorf("recorded %+v, %v; want %+v", got, err, want)
				}
			}
		})
	}
	wg.Wait()
	wantNoDeadlocks(t, s.pool)
	var right bool
	err := s.pool.QueryRow(t.Context(), `select bool_and(g.pending = n.entries and g.occurrences = n.occurrences) from postrider.dlq_group g
		join (select dlq_group_uuid, count(*) as entries, sum(occurrences) as occurrences from postrider.dlq_entry group by 1) n using (dlq_group_uuid)`).Scan(&right)
	if err != nil || !right {
		t.Errorf("the groups' counters are right: %v, %v", right, err)
	}
}

// wantNoDeadlocks ends the sessions of a pool, because only then do they report the deadlocks that they counted.
func wantNoDeadlocks(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	pool.Reset()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		var sessions, deadlocks int
		err := conn.QueryRow(t.Context(), `select (select count(*) from pg_stat_activity where datname = current_database()),
			deadlocks from pg_stat_database where datname = current_database()`).Scan(&sessions, &deadlocks)
		if err != nil {
			t.Fatal(err)
		}
		if sessions > 1 {
			continue
		}
		if deadlocks > 0 {
			t.Errorf("%d deadlocks", deadlocks)
		}
		return
	}
}
