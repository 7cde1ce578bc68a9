package dlq_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// batch is about how many letters are recorded at once, and long a poll of two and a half of that.
const batch, long = dlq.BatchLetters, dlq.BatchLetters*2 + dlq.BatchLetters/2

// newLongRoom is a room whose polls return all of long records.
func newLongRoom(t *testing.T, o dlq.Originals, records []dlq.Record) *room {
	t.Helper()
	r := newRoom(t, records...)
	r.registry = prometheus.NewRegistry()
	r.source.max = len(records)
	c, err := dlq.NewCollector(dlq.Config{Source: r.source, Letters: r.store, Originals: o, Registerer: r.registry})
	if err != nil {
		t.Fatal(err)
	}
	r.collector = c
	return r
}

// pointers are records that only point to others.
func pointers(n int) []dlq.Record {
	records := make([]dlq.Record, n)
	for i := range records {
		records[i] = pointerTo(int64(i%10), "share group")
		records[i].Offset = int64(i)
	}
	return records
}

// episodes are n letters of some events, each in its turn.
func episodes(n, events int) []dlq.Record {
	records := make([]dlq.Record, n)
	for i := range records {
		records[i] = dlqtest.Event(i%events, 1+i/events)
		records[i].Offset = int64(i)
	}
	return records
}

// wantStored wants so many letters, each stored once, and the letters of a subject in their order.
func (r *room) wantStored(want int) {
	r.t.Helper()
	seen, newest := map[int64]bool{}, map[dlq.Subject]int64{}
	for _, l := range r.store.Letters() {
		if last, before := newest[l.Subject]; before && last > l.DLQOffset {
			r.t.Errorf("%v: the letter at %d was stored after the one at %d", l.Subject, l.DLQOffset, last)
		}
		seen[l.DLQOffset], newest[l.Subject] = true, l.DLQOffset
	}
	if len(seen) != want || len(r.store.Letters()) != want {
		r.t.Errorf("%d letters were stored, %d of them another one; want %d", len(r.store.Letters()), len(seen), want)
	}
}

func TestLongPolls(t *testing.T) {
	t.Parallel()
	r := newLongRoom(t, nil, episodes(long, long/5))
	if err := r.runOnce(long); err != nil {
		t.Error(err)
	}
	r.wantTrace("poll store store store store commit")
	total := 0
	for _, size := range r.store.sizes {
		if total += size; size > long/2 {
			t.Errorf("stored %v at a time", r.store.sizes)
		}
	}
	if total != long {
		t.Errorf("stored %v at a time, want %d in all", r.store.sizes, long)
	}
	r.wantStored(long)
	r.wantMetrics(map[string]int{"opened": long / 5, "added": long - long/5})
	if r.source.committed != long {
		t.Errorf("committed %d", r.source.committed)
	}
}

// TestWritersWorkAtOnce has a store that goes on with none of its calls before it has as many as there are writers.
func TestWritersWorkAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newLongRoom(t, nil, episodes(long, long/5))
		all := make(chan struct{})
		r.store.called = func(_ context.Context, call int) {
			if call == dlq.Writers {
				close(all)
			}
			<-all
		}
		if err := r.runOnce(long); err != nil {
			t.Error(err)
		}
		r.wantStored(long)
	})
}

// TestSharesProperty: each letter is in one share, in order, and all of a subject are in the same one.
func TestSharesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := make([]dlq.Letter, rapid.IntRange(0, 200).Draw(t, "letters"))
		for i := range letters {
			letters[i].DLQOffset = int64(i)
			letters[i].Subject = dlq.Subject{Type: rapid.SampledFrom([]dlq.SubjectType{dlq.SubjectEvent, dlq.SubjectRecord}).Draw(t, "type"), ID: rapid.StringN(0, 2, -1).Draw(t, "id")}
		}
		share, total := map[dlq.Subject]int{}, 0
		for i, some := range dlq.Shares(letters) {
			last := int64(-1)
			for _, l := range some {
				if other, before := share[l.Subject]; before && other != i || l.DLQOffset <= last || letters[l.DLQOffset].Subject != l.Subject {
					t.Fatalf("%v at %d is in share %d, after %d; its subject is in %d", l.Subject, l.DLQOffset, i, last, other)
				}
				share[l.Subject], last = i, l.DLQOffset
			}
			total += len(some)
		}
		if total != len(letters) {
			t.Fatalf("%d letters of %d", total, len(letters))
		}
	})
}

// TestDecodesTwoRoundsAhead: while the store has letters the next ones of each writer are made ready, and one round
// behind these, and no more than that.
func TestDecodesTwoRoundsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rounds, letters = 4, 4 * dlq.Writers * batch
		o := &answers{answer: func(context.Context, dlq.Place) dlq.Original { return dlq.Original{State: dlq.OriginalAbsent} }}
		records := episodes(letters, 200)
		for i := range records {
			if i%100 == 0 { // one is asked for in each round, at least
				records[i] = pointerTo(1, "share group")
				records[i].Offset = int64(i)
			}
		}
		r := newLongRoom(t, o, records)
		proceed, ended := make(chan struct{}), make(chan error, 1)
		r.store.called = func(context.Context, int) { <-proceed }
		go func() { ended <- r.runOnce(letters) }()
		var ready []int
		for range rounds {
			synctest.Wait() // until nothing moves
			ready = append(ready, len(o.asked))
			for range dlq.Writers {
				proceed <- struct{}{}
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := []int{3, 4, 4, 4}; !slices.Equal(ready, want) {
			t.Errorf("%v rounds were ready when the store had each, want %v", ready, want)
		}
	})
}

// TestStopWithinALongPoll stops when the store has some of the letters. If the store works on, all are recorded and
// committed. If it is away, nothing is committed, and the next collector records the missing letters.
func TestStopWithinALongPoll(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away %v", away), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newLongRoom(t, nil, events(long))
				ctx, cancel := context.WithCancel(t.Context())
				r.store.called = func(_ context.Context, call int) {
					if call == dlq.Writers+1 { // an earlier call has stored its letters
						cancel()
						if away {
							r.store.fail(slices.Repeat([]error{errPassing}, 1000)...)
						}
					}
				}
				if err := r.collector.Run(ctx); err != nil {
					t.Error(err)
				}
				want := long
				if away {
					want = 0
				}
				if r.source.committed != want || !r.source.closed {
					t.Errorf("committed %d, want %d; closed %v", r.source.committed, want, r.source.closed)
				}
				r.store.errs, r.store.called, r.registry = nil, nil, prometheus.NewRegistry()
				again := r.newCollector(r.source.reader(long, &r.trace))
				if away {
					stored := len(r.store.Letters())
					if stored == 0 || stored == long {
						t.Errorf("%d letters were stored before", stored)
					}
					if _, err := again.RunOnce(t.Context()); err != nil {
						t.Error(err)
					}
					r.wantMetrics(map[string]int{"opened": long - stored, "repeated": stored})
				}
				r.wantStored(long)
			})
		})
	}
}

// TestPoisonInALongPoll has letters that the store refuses in the middle of batches: they alone are reduced, no letter
// passes another of its subject, and few transactions find them.
func TestPoisonInALongPoll(t *testing.T) {
	t.Parallel()
	r := newLongRoom(t, nil, episodes(long, long/5))
	poison := map[int64]bool{0: true, batch / 2: true, 2*batch - 1: true, long - 1: true}
	r.store.refuse = func(l dlq.Letter) error {
		if poison[l.DLQOffset] && !l.Unstorable {
			return dlq.ErrLetter
		}
		return nil
	}
	if err := r.runOnce(long); err != nil {
		t.Error(err)
	}
	if len(r.store.sizes) > 4*2*12 {
		t.Errorf("%d transactions", len(r.store.sizes))
	}
	r.wantStored(long)
	r.wantMetrics(map[string]int{"opened": long / 5, "added": long - long/5, "refused": len(poison)})
	for _, l := range r.store.Letters() {
		if l.Unstorable != poison[l.DLQOffset] {
			t.Errorf("the letter at %d is reduced: %v", l.DLQOffset, l.Unstorable)
		}
	}
	if r.source.committed != long {
		t.Errorf("committed %d", r.source.committed)
	}
}

// TestPointersOfALongPoll: records that do not come delay a poll as long as one batch, however many batches it has.
func TestPointersOfALongPoll(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]dlq.OriginalState{"no broker answers": dlq.OriginalUnanswered, "one is answered": dlq.OriginalAbsent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				o := &answers{answer: func(ctx context.Context, _ dlq.Place) dlq.Original {
					if asked++; asked == 1 && first != dlq.OriginalUnanswered {
						return dlq.Original{State: first}
					}
					<-ctx.Done()
					return dlq.Original{State: dlq.OriginalUnanswered, Retention: -1}
				}}
				r := newLongRoom(t, o, append(pointers(long), dlqtest.Event(long, 1)))
				began := time.Now()
				if err := r.runOnce(long + 1); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != dlq.DefaultOriginalsTimeout {
					t.Errorf("the poll took %v", took)
				}
				// Where no broker answered, none is asked for a while; a broker that was slow is asked with the next poll.
				batches := len(o.asked)
				r.source.records = append(r.source.records, pointerTo(1, "share group"))
				r.source.records[long+1].Offset = long + 1
				if err := r.runOnce(1); err != nil {
					t.Error(err)
				}
				if again := len(o.asked) > batches; again != (first != dlq.OriginalUnanswered) {
					t.Errorf("asked again: %v", again)
				}
			})
		})
	}
}
