package postgres

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/postrider/postrider/relay"
)

// watched is a store that tells what its leader asks.
type watched struct {
	*Store
	left  atomic.Int64 // takes that left a hold
	mu    sync.Mutex
	gaps  relay.Ranges // of the last read
	reads int
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
	l.w.gaps, l.w.reads = q.Gaps, l.w.reads+1
	return page, err
}

// asked is what the last read asked of gaps, and how many reads there were.
func (w *watched) asked() (relay.Ranges, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gaps, w.reads
}
