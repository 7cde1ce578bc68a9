package main

import (
	"context"
	"fmt"
	"time"
)

// seqBytes is the space at the start of a payload for the number of the event.
const seqBytes = 16

// everyTime is how often progress is looked at: often beside a drain of a second or two, and too seldom to cost
// the broker or the database anything to speak of.
const everyTime = 5 * time.Millisecond

// drainLimit bounds one drain; only a relay that is stuck takes as long.
const drainLimit = 10 * time.Minute

// fill adds events that wait for this topic, numbered from 0, and tidies up as time would have.
func (d *database) fill(ctx context.Context, topic string, events int) error {
	o := d.rig.o
	if _, err := d.conn.Exec(ctx, `insert into postrider.outbox_event (topic, key, payload)
		select $1, convert_to('key-' || i % $2, 'UTF8'), convert_to(rpad(lpad(i::text, $5, '0'), $3, 'x'), 'UTF8')
		from generate_series(0, $4::int - 1) i`, topic, o.keys, o.payload, events, seqBytes); err != nil {
		return fmt.Errorf("load %d events: %w", events, err)
	}
	return d.tidy(ctx)
}

// trace gives one in so many events the traceparent of a writer whose trace is recorded.
func (d *database) trace(ctx context.Context, oneIn int) error {
	_, err := d.conn.Exec(ctx, `update postrider.outbox_event
		set headers = jsonb_build_object('traceparent', '00-' || md5(id::text) || '-' || left(md5('span' || id), 16) || '-01') where id % $1 = 0`, oneIn)
	if err != nil {
		return fmt.Errorf("give events a trace: %w", err)
	}
	return d.tidy(ctx)
}

// empty removes all events and everything about them.
func (d *database) empty(ctx context.Context) error {
	return d.exec(ctx, "truncate postrider.outbox_event, postrider.outbox_batch, postrider.outbox_hold_shard, postrider.outbox_hold")
}

// tidy does now what would otherwise happen in the middle of a run.
func (d *database) tidy(ctx context.Context) error {
	return d.exec(ctx, "vacuum (analyze) postrider.outbox_event", "checkpoint")
}

func (d *database) idRange(ctx context.Context) (first, last int64, err error) {
	err = d.conn.QueryRow(ctx, "select min(id), max(id) from postrider.outbox_event").Scan(&first, &last)
	return first, last, err
}

// drained waits until the broker has this many records and no event is pending any more.
func (d *database) drained(ctx context.Context, b *broker, topic string, events int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainLimit, fmt.Errorf("the backlog did not drain within %v", drainLimit))
	defer cancel()
	for {
		n, err := b.produced(ctx, topic)
		if err == nil && n >= events {
			var waiting bool
			err = d.conn.QueryRow(ctx, "select exists (select from postrider.outbox_event where state = 'pending')").Scan(&waiting)
			if err == nil && !waiting {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if err := pause(ctx, everyTime); err != nil {
			return err
		}
	}
}

// exactly checks that every event went out once: a relay that loses or repeats is not worth measuring.
func exactly(ctx context.Context, b *broker, topic string, events int64) error {
	n, err := b.produced(ctx, topic)
	if err != nil {
		return err
	}
	if n != events {
		return fmt.Errorf("%d events were written and %d records are in topic %s", events, n, topic)
	}
	return nil
}
