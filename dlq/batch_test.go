package dlq_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/dlq"
	"github.com/postrider/postrider/dlq/dlqtest"
)

// batch is how many letters are recorded at once, and long a poll of two and a half batches.
const batch, long = dlq.BatchLetters, dlq.BatchLetters*2 + dlq.BatchLetters/2

// newLongRoom is a room whose polls return all of long records.
func newLongRoom(t *testing.T, o dlq.Originals, records []dlq.Record) *room {
	t.Helper()
	r := newRoom(t, records...)
	r.registry = prometheus.NewRegistry()
	r.source.max = len(records)
	c, err := dlq.NewCollector(dlq.Config{Source: r.source, Store: r.store, Originals: o, Registerer: r.registry})
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

func TestLongPolls(t *testing.T) {
	t.Parallel()
	r := newLongRoom(t, nil, events(long))
	if err := r.runOnce(long); err != nil {
		t.Error(err)
	}
	r.wantTrace("poll store store store commit")
	if want := []int{batch, batch, long - 2*batch}; !slices.Equal(r.store.sizes, want) {
		t.Errorf("stored %v at a time, want %v", r.store.sizes, want)
	}
	if !slices.IsSorted(r.store.offsets) || len(r.store.offsets) != long {
		t.Errorf("%d letters were stored, in order: %v", len(r.store.offsets), slices.IsSorted(r.store.offsets))
	}
	r.wantMetrics(map[string]int{"opened": long})
	if r.source.committed != long {
		t.Errorf("committed %d", r.source.committed)
	}
}

// TestDecodesOneBatchAhead: while the store has a batch the next is made ready, and no more than that.
func TestDecodesOneBatchAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &answers{answer: func(context.Context, dlq.Place) dlq.Original { return dlq.Original{State: dlq.OriginalAbsent} }}
		r := newLongRoom(t, o, pointers(4*batch))
		var ready []int
		r.store.called = func(context.Context) {
			synctest.Wait() // until nothing moves but the store
			ready = append(ready, len(o.asked))
		}
		if err := r.runOnce(4 * batch); err != nil {
			t.Error(err)
		}
		if want := []int{2, 3, 4, 4}; !slices.Equal(ready, want) {
			t.Errorf("%v batches were ready when the store had each, want %v", ready, want)
		}
	})
}

// TestStopWithinALongPoll stops at the second batch of three: with a store that goes on, all are recorded and committed.
// With one that is away, nothing is committed, and the next collector records what is missing.
func TestStopWithinALongPoll(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away %v", away), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newLongRoom(t, nil, events(long))
				ctx, cancel := context.WithCancel(t.Context())
				r.store.called = func(context.Context) {
					if len(r.store.sizes) == 2 {
						cancel()
						if away {
							r.store.errs = slices.Repeat([]error{errPassing}, 1000)
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
					if _, err := again.RunOnce(t.Context()); err != nil {
						t.Error(err)
					}
					r.wantMetrics(map[string]int{"opened": long - batch, "repeated": batch})
				}
				if !slices.IsSorted(r.store.offsets) || len(r.store.offsets) != long {
					t.Errorf("%d letters were stored, in order: %v", len(r.store.offsets), slices.IsSorted(r.store.offsets))
				}
			})
		})
	}
}

// TestPoisonInALongPoll has letters that the store refuses in the middle of batches: they alone are reduced, no letter
// passes another, and few transactions find them.
func TestPoisonInALongPoll(t *testing.T) {
	t.Parallel()
	r := newLongRoom(t, nil, events(long))
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
	if !slices.IsSorted(r.store.offsets) || len(r.store.offsets) != long {
		t.Errorf("%d letters were stored, in order: %v", len(r.store.offsets), slices.IsSorted(r.store.offsets))
	}
	r.wantMetrics(map[string]int{"opened": long, "refused": len(poison)})
	_, reduced, err := r.store.List(t.Context(), dlq.Filter{ErrorCode: dlq.CodeUnstorable})
	if err != nil || reduced != len(poison) || r.source.committed != long {
		t.Errorf("%d reduced, %v, committed %d", reduced, err, r.source.committed)
	}
}

// TestPointersOfALongPoll: records that do not come delay a poll as long as one batch, however many batches it has.
func TestPointersOfALongPoll(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]dlq.OriginalState{"nobody answers": dlq.OriginalUnanswered, "one is answered": dlq.OriginalAbsent} {
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
				// Where nobody answered nobody is asked for a while; a broker that was slow is asked with the next poll.
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
