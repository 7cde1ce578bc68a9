package soak

import (
	"context"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/testenv/history"
)

// watch looks for faults that the test did not play: a machine with too much to do may stand still, or its
// servers answer too late, for longer than the relays wait. That time counts as a fault, too. watch looks past
// the links, until ctx ends.
func (n *nemesis) watch(ctx context.Context) []history.Fault {
	var mu sync.Mutex
	var seen []history.Fault
	var looking sync.WaitGroup
	for name, ask := range map[string]func(context.Context) error{
		"by itself: machine slow":    func(context.Context) error { return nil },
		"by itself: PostgreSQL slow": n.pool.Ping,
		"by itself: broker slow": func(ctx context.Context) error {
			_, err := n.admin.client.ListEndOffsets(ctx, n.topics.plain...)
			return err
		},
	} {
		looking.Go(func() {
			tick := time.NewTicker(watchEvery)
			defer tick.Stop()
			for ctx.Err() == nil {
				from := time.Now()
				_ = ask(ctx) // how long it takes matters, and not what it says
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
				if to := time.Now(); to.Sub(from) > watchEvery+n.pace.publish/2 {
					mu.Lock()
					seen = append(seen, history.Fault{Name: name, From: from, To: to})
					mu.Unlock()
				}
			}
		})
	}
	looking.Wait()
	return seen
}

// watchEvery is how often the watch looks.
const watchEvery = 200 * time.Millisecond

// unplayed are the faults seen that were not while a played one lasted.
func unplayed(seen, played []history.Fault) []history.Fault {
	var out []history.Fault
	for _, s := range seen {
		explained := false
		for _, p := range played {
			explained = explained || !s.From.After(p.To) && !p.From.After(s.To)
		}
		if !explained {
			out = append(out, s)
		}
	}
	return out
}
