package postgres

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
)

var (
	logDueHolds     = query("log_due_holds")
	logTake         = query("log_take")
	logResolveSkips = query("log_resolve_skips")
)

// DueHolds implements relay.Leadership.
func (d *leadership) DueHolds(ctx context.Context, limit int) (due []relay.DueHold, next time.Duration, err error) {
	defer d.log.asStoreError(&err, false)
	rows, err := d.log.pool.Query(ctx, logDueHolds, limit, micros(relay.LongestPause(d.log.longestRetry)+time.Minute))
	if err != nil {
		return nil, 0, err
	}
	var h relay.DueHold
	var in int64
	_, err = pgx.ForEachRow(rows, []any{&h.ID, &h.Probe, &h.Asked, &in}, func() error {
		if h.ID == 0 {
			next = time.Duration(in) * time.Microsecond
			return nil
		}
		due = append(due, h)
		return nil
	})
	return due, next, err
}

// Take implements relay.Leadership.
func (d *leadership) Take(ctx context.Context, t relay.Taking) (taken []relay.Taken, err error) {
	defer d.log.asStoreError(&err, true)
	n := len(t.Holds)
	holds, after, until, events := make([]int64, n), make([]int64, n), make([]int64, n), make([]int32, n)
	for i, h := range t.Holds {
		holds[i], after[i], until[i], events[i] = h.ID, h.After, h.Until, int32(h.Events)
		if h.Until == 0 {
			until[i] = math.MaxInt64
		}
	}
	b := &pgx.Batch{}
	b.Queue("select postrider.outbox_assert_leader($1)", d.nonce)
	b.Queue(logTake, holds, after, until, events, t.Scheduled, t.Bytes, micros(d.log.longestRetry+time.Minute)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			x, err := scanTaken(rows)
			if err != nil {
				return err
			}
			taken = append(taken, x)
		}
		return rows.Err()
	})
	if err := d.log.pool.Send(ctx, b); err != nil {
		return nil, notLeading(err)
	}
	return taken, nil
}

func scanTaken(row pgx.Row) (x relay.Taken, err error) {
	var created, first, last, timestamp *time.Time
	var task *uuid.UUID
	var kind string
	e := &x.Event
	err = row.Scan(&e.ID, &e.EventID, &e.Topic, &e.Key, &e.Payload, &e.Headers, &e.Attempts, &e.MaxAttempts, &e.Episode, &created,
		&first, &last, &e.LastErrorClass, &e.LastErrorCode, &e.LastError, &task, &kind,
		&e.Partition, &timestamp, &x.Hold)
	e.OfTask, e.Redriven = kind == kindTask, kind == kindRedrive
	if created != nil {
		e.CreatedAt = *created
	} else {
		e.CreatedAt, e.Deleted = createdAt(e.EventID), e.ID != 0
	}
	if timestamp != nil {
		e.Timestamp = *timestamp
	}
	if first != nil {
		e.FirstErrorAt = *first
	}
	if last != nil {
		e.LastErrorAt = *last
	}
	if task != nil {
		e.TaskUUID = *task
	}
	x.Left = e.ID == 0
	return x, err
}

// ResolveSkips implements relay.Leadership.
func (d *leadership) ResolveSkips(ctx context.Context) (err error) {
	defer d.log.asStoreError(&err, true)
	b := &pgx.Batch{}
	b.Queue("select postrider.outbox_assert_leader($1)", d.nonce)
	b.Queue(logResolveSkips)
	return notLeading(d.log.pool.Send(ctx, b))
}
