package demo

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed queries/start.sql
var startSQL string

//go:embed queries/tally.sql
var tallySQL string

// Numbers are what happened since the demonstration began, all writers of the outbox included.
type Numbers struct {
	// Written events, and what became of them so far; Waiting are all others.
	Written, Published, Waiting, DeadLettered int64
	// Investigations are the pending ones; Stuck of them are about tasks.
	Investigations, Stuck int64
	// Tasks were created by the warehouse, and Finished of them are done.
	Tasks, Finished int64
	// Rate is how many were published per second since the last line.
	Rate float64
}

// String is one line.
func (n Numbers) String() string {
	return fmt.Sprintf("demo: written %d, published %d, waiting %d, dead-lettered %d, tasks %d, finished %d, investigations %d (tasks %d), %.0f published/s",
		n.Written, n.Published, n.Waiting, n.DeadLettered, n.Tasks, n.Finished, n.Investigations, n.Stuck, n.Rate)
}

// tally counts events. A settled event stays settled, so each count begins after the events that
// an earlier one was done with, and costs the same however long the demonstration runs.
type tally struct {
	pool    *pgxpool.Pool
	through int64 // every event up to this id is counted in settled
	settled Numbers
	last    Numbers
	at      time.Time
}

func newTally(ctx context.Context, pool *pgxpool.Pool) (*tally, error) {
	t := &tally{pool: pool, at: time.Now()}
	if err := pool.QueryRow(ctx, startSQL).Scan(&t.through); err != nil {
		return nil, fmt.Errorf("demo: find the last event: %w", err)
	}
	return t, nil
}

// runOnce counts.
func (t *tally) runOnce(ctx context.Context) (Numbers, error) {
	var now, done Numbers
	err := t.pool.QueryRow(ctx, tallySQL, t.through).Scan(&now.Written, &now.Published, &now.DeadLettered,
		&t.through, &done.Written, &done.Published, &done.DeadLettered, &now.Investigations, &now.Stuck)
	if err != nil {
		return Numbers{}, fmt.Errorf("count events: %w", err)
	}
	now.Waiting = now.Written - now.Published - now.DeadLettered
	now.add(t.settled)
	t.settled.add(done)
	at := time.Now()
	if passed := at.Sub(t.at).Seconds(); passed > 0 {
		now.Rate = float64(now.Published-t.last.Published) / passed
	}
	t.last, t.at = now, at
	return now, nil
}

func (n *Numbers) add(o Numbers) {
	n.Written += o.Written
	n.Published += o.Published
	n.DeadLettered += o.DeadLettered
}
