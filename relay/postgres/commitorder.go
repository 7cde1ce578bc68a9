package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// commitOrder knows up to which id no transaction can commit an event any more. It looks at the locks that
// open transactions hold on the table, as the low-water marks do, and stores nothing: after a dump and
// restore it begins anew.
type commitOrder struct {
	advance sync.Mutex // whoever moves the fence

	mu      sync.Mutex
	through int64 // final up to here
	// open says that a fence stands, since a time: every id up to last is final once the holders ended.
	open    bool
	since   time.Time
	last    int64
	holders []string
	// why is why there can be no fence, since the same time.
	why relay.Standstill
	at  server // where last is from
}

// final returns the id up to which everything is final, on which server, and for how long a newer one has been waited
// for.
func (o *commitOrder) final(ctx context.Context, pool sessions) (through int64, of server, waiting time.Duration, err error) {
	if o.advance.TryLock() { // one at a time; the others take what is known
		err = o.move(ctx, pool)
		o.advance.Unlock()
		if err != nil {
			return 0, server{}, 0, fmt.Errorf("look at the transactions on the outbox: %w", err)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open || o.why.Code != "" {
		waiting = time.Since(o.since)
	}
	return o.through, o.at, waiting, nil
}

// standstill is why nothing becomes final.
func (o *commitOrder) standstill() relay.Standstill {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.why
}

// move closes the fence that stands, if it can be closed, and opens the next.
func (o *commitOrder) move(ctx context.Context, pool sessions) error {
	if o.open {
		var closed bool
		var here server
		if err := pool.QueryRow(ctx, fenceClosed, o.holders).Scan(&closed, &here.started, &here.file); err != nil || !closed && here == o.at {
			return err
		}
		o.mu.Lock()
		if o.open = false; here == o.at {
			o.through = o.last
		} else {
			o.through = 0
		}
		o.mu.Unlock()
	}
	// In this order: whoever drew an id up to the last one is among the holders, or has ended.
	var last int64
	var why string
	var holders []string
	var here server
	b := &pgx.Batch{}
	b.Queue(readLastID).QueryRow(func(row pgx.Row) error { return row.Scan(&last, &why) })
	b.Queue(openFence).QueryRow(func(row pgx.Row) error { return row.Scan(&holders, &here.started, &here.file) })
	if err := pool.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if last < o.through || here != o.at {
		o.through = 0 // a restore rewound the ids, or the server is another: nothing is known of those drawn since
	}
	o.last, o.holders, o.at = last, holders, here
	if stood := o.why.Code != ""; why != "" {
		if o.why = standstill(why); !stood {
			o.since = time.Now()
		}
		return nil
	}
	o.why = relay.Standstill{}
	if len(holders) == 0 {
		o.through = last
		return nil
	}
	o.open, o.since = true, time.Now()
	return nil
}
