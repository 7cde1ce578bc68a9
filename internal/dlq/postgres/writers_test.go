package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// script is a source that returns one poll after the other.
type script struct {
	polls  [][]dlq.Record
	before func() // is called before each poll but the first
	next   int
	ended  context.CancelFunc
}

func (s *script) Poll(context.Context) ([]dlq.Record, error) {
	if s.next > 0 {
		s.before()
	}
	if s.next == len(s.polls) {
		s.ended()
		return nil, context.Canceled
	}
	s.next++
	return s.polls[s.next-1], nil
}

func (s *script) Commit(context.Context, []dlq.Record) error { return nil }

func (s *script) Close() {}

// deaths are letters of events, several of most, with copies and records that are no letters between them.
func deaths(rng *rand.Rand, n, events int) []dlq.Record {
	episodes := make([]int, events)
	records := make([]dlq.Record, 0, n)
	for len(records) < n {
		offset := int64(len(records))
		switch dice := rng.IntN(20); {
		case dice == 0 && offset > 0:
			again := records[rng.IntN(len(records))]
			if again.Topic == "postrider.dlq" { // another's is known by its place
				again.Offset = offset
			}
			records = append(records, again)
		case dice == 1:
			records = append(records, dlq.Record{Topic: "other.dlq", Offset: offset, Timestamp: dlqtest.Start.Add(time.Duration(offset) * time.Second), Value: []byte("{}")})
		default:
			e := rng.IntN(events)
			episodes[e]++
			r := dlqtest.Event(e, episodes[e])
			r.Offset = offset
			r.Timestamp = r.Timestamp.Add(-time.Millisecond) // as it failed: a group was first seen at the earlier of the two
			for i := range r.Headers {
				switch h := &r.Headers[i]; h.Name {
				case message.HeaderAttempts:
					h.Value = strconv.AppendInt(nil, rng.Int64N(9)+1, 10)
				case message.HeaderErrorCode:
					h.Value = fmt.Appendf(nil, "CODE_%d", rng.IntN(6))
				case message.HeaderErrorMessage:
					h.Value = fmt.Appendf(nil, "refused for the %d. time", episodes[e])
				}
			}
			records = append(records, r)
		}
	}
	return records
}

// TestWritersRecordWhatOneDoes: of long polls, the collector's writers record at once the same as one writer would have
// recorded of the same letters, one batch after the other.
func TestWritersRecordWhatOneDoes(t *testing.T) {
	t.Parallel()
	const perPoll = 2500
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	all := deaths(rand.New(rand.NewPCG(seed, 0)), 3*perPoll, 1200)
	polls := slices.Collect(slices.Chunk(all, perPoll))
	// Some are closed between polls, so that their subjects have investigations with predecessors.
	const closing = `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now()
		where resolution_status = 'pending' and hashtext(subject_id) % 3 = 0`

	one := newSubject(t)
	for _, records := range polls {
		for batch := range slices.Chunk(dlqtest.Letters(records...), 1000) {
			if _, err := one.RecordLetters(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		mustExec(t, one.pool, closing)
	}

	several := newSubject(t)
	ctx, ended := context.WithCancel(t.Context())
	defer ended()
	collector, err := dlq.NewCollector(dlq.Config{Letters: several, Source: &script{polls: polls, ended: ended, before: func() { mustExec(t, several.pool, closing) }}})
	if err != nil {
		t.Fatal(err)
	}
	if err := collector.Run(ctx); err != nil {
		t.Fatal(err)
	}

	for what, query := range map[string]string{
		"investigations": `select concat_ws('|', e.subject_type, e.subject_id, e.resolution_status, e.original_state, e.dlq_reason, e.dlq_timestamp, e.topic, e.error_code,
				e.error_message, e.occurrences, e.attempts, e.last_occurred_at, md5(e.snapshot::text), e.metadata, g.fingerprint, 'after', p.subject_id, p.dlq_timestamp)
			from postrider.dlq_entry e join postrider.dlq_group g using (dlq_group_uuid)
			left join postrider.dlq_entry p on p.dlq_entry_uuid = e.predecessor_uuid order by 1`,
		"letters": `select concat_ws('|', l.letter_id, l.dlq_topic, l.dlq_offset, l.error_code, l.attempts, e.subject_id, e.dlq_timestamp)
			from postrider.dlq_letter l join postrider.dlq_entry e using (dlq_entry_uuid) order by 1`,
		"groups": `select concat_ws('|', fingerprint, title, state, entries, pending, total, occurrences, first_seen_at, last_seen_at)
			from postrider.dlq_group order by 1`,
		"counts": `select concat_ws('|', g.fingerprint, c.dlq_reason, c.subject_type, c.resolution_status, c.entries)
			from postrider.dlq_count c join postrider.dlq_group g using (dlq_group_uuid) order by 1`,
	} {
		want, got := pgtest.Column[string](t, one.pool, query), pgtest.Column[string](t, several.pool, query)
		if len(want) == 0 || len(want) != len(got) {
			t.Errorf("%s: %d, want %d", what, len(got), len(want))
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s:\n got %s\nwant %s", what, got[i], want[i])
				break
			}
		}
	}
	recount(t.Context(), t, several.pool)
	wantNoDeadlocks(t, several.pool)
}

// TestWhoAddsAndReopensDoesNotDeadlock: of two writers each adds to investigations of the groups in which the other one
// opens new ones of subjects that had one before.
func TestWhoAddsAndReopensDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	const writers, rounds, size = 2, 12, 60
	s := newSubject(t)
	for round := range rounds {
		var both sync.WaitGroup
		for w := range writers {
			both.Go(func() {
				var letters []dlq.Letter
				for i := range size {
					l := dlq.Decode(dlqtest.Event(w*size+i, round+1))
					l.ErrorCode = fmt.Sprint("CODE_", (w+round)%2, "_", i%5)
					letters = append(letters, l)
				}
				want := dlq.Recorded{New: size, Opened: size / 2, Added: size / 2}
				if round == 0 {
					want = dlq.Recorded{New: size, Opened: size}
				}
				if got, err := s.RecordLetters(t.Context(), letters); err != nil || got != want {
					t.Errorf("recorded %+v, %v; want %+v", got, err, want)
				}
			})
		}
		both.Wait()
		mustExec(t, s.pool, `update postrider.dlq_entry e set resolution_status = 'cancelled', resolution_timestamp = now()
			from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid and e.resolution_status = 'pending' and l.outbox_id % 2 = 0`)
	}
	recount(t.Context(), t, s.pool)
	wantNoDeadlocks(t, s.pool)
}

// TestWhoClosesWhatItComesFromDoesNotDeadlock: each of two writers has letters of redrives, which close the investigations
// that they come from, and further letters of the investigations that the other writer closes.
func TestWhoClosesWhatItComesFromDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	const rounds, size = 5, 10
	r := newRedriving(t)
	for round := range rounds {
		first := 1 + round*2*size
		numbers, entries := map[uuid.UUID]int{}, []uuid.UUID(nil)
		for n := first; n < first+2*size; n++ {
			entry := r.die(n, nil)
			numbers[entry], entries = n, append(entries, entry)
		}
		if done := r.redrive(entries...); len(done.Entries) != 2*size {
			t.Fatalf("%+v", done)
		}
		r.settleSent(outboxtest.DeadLettered, 2*size)
		var letters [2][]dlq.Letter
		came := map[uuid.UUID]uuid.UUID{} // from which investigation an event came
		for _, e := range r.sent()[round*2*size:] {
			id, _ := strings.CutSuffix(e.Headers[2][1], ":1")
			from := uuid.MustParse(id)
			half := (numbers[from] - first) / size
			letters[half] = append(letters[half], letterOf(e, e.ID))
			letters[1-half] = append(letters[1-half], dlq.Decode(dlqtest.Event(numbers[from], 2)))
			came[e.EventID] = from
		}
		var both sync.WaitGroup
		for _, some := range letters {
			both.Go(func() {
				if got, err := r.RecordLetters(t.Context(), some); err != nil || got.New != 2*size {
					t.Errorf("%+v, %v", got, err)
				}
			})
		}
		both.Wait()
		for event, from := range came {
			found, _, err := r.list(t.Context(), dlq.Filter{Subject: dlq.Subject{ID: event.String()}})
			if err != nil || len(found) != 1 || found[0].PredecessorUUID != from || found[0].Status != dlq.Pending {
				t.Errorf("investigations of what came from %s: %+v, %v", from, found, err)
			}
			if status, _ := r.status(from); status != dlq.Cancelled {
				t.Errorf("%s is %s", from, status)
			}
		}
	}
	recount(t.Context(), t, r.subject.pool)
	wantNoDeadlocks(t, r.subject.pool)
}

// TestOneTransactionLetsAGroupComeBack: the investigations that name the last one of a closed group are of one
// transaction. Another transaction that found the group closed, too, sees that it came back.
func TestOneTransactionLetsAGroupComeBack(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	record := func(l dlq.Letter) {
		if got, err := s.RecordLetters(t.Context(), []dlq.Letter{l}); err != nil || got.Opened != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	predecessor := func(l dlq.Letter) uuid.UUID {
		found, _, err := s.list(t.Context(), dlq.Filter{Subject: l.Subject})
		if err != nil || len(found) != 1 {
			t.Fatalf("%+v, %v", found, err)
		}
		return found[0].PredecessorUUID
	}
	first, later := failing(1, "refused", time.Now()), time.Now().Add(time.Hour)
	record(first)
	mustExec(t, s.pool, `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now()`)
	closed, _, err := s.list(t.Context(), dlq.Filter{})
	if err != nil || len(closed) != 1 {
		t.Fatal(closed, err)
	}
	tx, err := s.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	theirs, ours := failing(2, "refused", later), failing(3, "refused", later)
	if got, err := s.recordIn(t.Context(), tx, []*dlq.Letter{&theirs}); err != nil || got.Opened != 1 {
		t.Fatal(got, err)
	}
	done := make(chan struct{})
	go func() { defer close(done); record(ours) }()
	untilWaiting(t, s.pool)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	if got := predecessor(theirs); got != closed[0].UUID {
		t.Errorf("the first to come back names %s, want %s", got, closed[0].UUID)
	}
	if got := predecessor(ours); got != uuid.Nil {
		t.Errorf("the second one names %s", got)
	}
}
