package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// watched is a store that tells what its leader asks.
type watched struct {
	*Store
	left   atomic.Int64 // takes that left a hold
	asking atomic.Int64 // reads that asked for a gap
	mu     sync.Mutex
	gaps   relay.Ranges // of the last read
	reads  int
	over   int // reads since the last one that asked for a gap
}

func (w *watched) Lead(ctx context.Context, worker string) (relay.Leadership, error) {
	l, err := w.Store.Lead(ctx, worker)
	if l == nil {
		return nil, err
	}
	return &watchedLeadership{l, w}, err
}

type watchedLeadership struct {
	relay.Leadership
	w *watched
}

func (l *watchedLeadership) Take(ctx context.Context, t relay.Taking) ([]relay.Taken, error) {
	taken, err := l.Leadership.Take(ctx, t)
	for i := range taken {
		if taken[i].Left {
			l.w.left.Add(1)
		}
	}
	return taken, err
}

func (l *watchedLeadership) Read(ctx context.Context, q relay.Question) (relay.Page, error) {
	page, err := l.Leadership.Read(ctx, q)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.gaps, l.w.reads, l.w.over = q.Gaps, l.w.reads+1, l.w.over+1
	if len(q.Gaps) > 0 {
		l.w.over = 0
		l.w.asking.Add(1)
	}
	return page, err
}

// passOver waits until n reads, one after the other, asked for no gap.
func (w *watched) passOver(f *fixture, n int) {
	f.Helper()
	w.mu.Lock()
	w.over = 0
	w.mu.Unlock()
	for deadline := time.Now().Add(3 * time.Minute); ; f.exec(`select pg_sleep(0.002)`) {
		w.mu.Lock()
		over, gaps := w.over, w.gaps
		w.mu.Unlock()
		if over >= n {
			return
		}
		if time.Now().After(deadline) {
			f.Fatalf("reads go on to ask for gaps, the last for %v", gaps)
		}
	}
}

// asked is what the last read asked of gaps, and how many reads there were.
func (w *watched) asked() (relay.Ranges, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gaps, w.reads
}
