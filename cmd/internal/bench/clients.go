package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// clients are connections that write events, each in a transaction of its own unless told otherwise. They stay open until close, so that the
// time of their backends can be read.
type clients struct {
	table  *outboxTable
	conns  []*pgx.Conn
	free   chan *pgx.Conn
	writes *writes
	commit histogram // from the insert that is sent to the answer to the commit
	late   histogram // of clients that keep a schedule
}

// connect opens so many, and has each parse its statement.
func (s *stage) connect(ctx context.Context, n int, w *writes) (_ *clients, err error) {
	c := &clients{table: s.side.outbox(), free: make(chan *pgx.Conn, n), writes: w}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	for range n {
		conn, err := pgx.Connect(ctx, s.d.url)
		if err != nil {
			return nil, fmt.Errorf("connect a writer: %w", err)
		}
		c.conns = append(c.conns, conn)
		if err := c.table.parse(ctx, conn, s.o.event(s.topic, 0)); err != nil {
			return nil, err
		}
		c.free <- conn
	}
	return c, nil
}

func (c *clients) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, conn := range c.conns {
		_ = conn.Close(ctx)
	}
}

// backends are the processes that serve the connections.
func (c *clients) backends() []int {
	return pick(c.conns, func(conn *pgx.Conn) int { return int(conn.PgConn().PID()) })
}

// write writes events in one transaction, by a connection that is free.
func (c *clients) write(ctx context.Context, events ...event) error {
	conn := <-c.free
	defer func() { c.free <- conn }()
	for _, e := range events {
		c.writes.begin(e.seq)
	}
	if err := c.table.write(ctx, conn, events...); err != nil {
		return fmt.Errorf("write event %d: %w", events[0].seq, err)
	}
	for _, e := range events {
		c.commit.add(c.writes.end(e.seq))
	}
	return nil
}

// schedule writes n events from a number on at exact times, so many a second, and reports each to done.
func (c *clients) schedule(ctx context.Context, of func(seq int) event, first, n, rate int, done func(seq int)) error {
	return c.scheduleTogether(ctx, of, first, n, rate, 1, done)
}

// scheduleTogether is schedule with so many events in each transaction. What is left of n when it is divided by them is not
// written.
func (c *clients) scheduleTogether(ctx context.Context, of func(seq int) event, first, n, rate, together int, done func(seq int)) error {
	return pace{max(rate/together, 1), len(c.conns), &c.late}.run(ctx, n/together, func(ctx context.Context, i int, _ time.Time) error {
		events := make([]event, together)
		for k := range events {
			events[k] = of(first + i*together + k)
		}
		if err := c.write(ctx, events...); err != nil {
			return err
		}
		for k := range events {
			done(first + i*together + k)
		}
		return nil
	})
}

// flatOut writes as fast as it goes for a while, from a number on, and returns how many there are.
func (c *clients) flatOut(ctx context.Context, of func(seq int) event, first int, d time.Duration) (n int64, took time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var written atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range c.conns {
		all.Go(func() {
			for time.Since(start) < d && ctx.Err() == nil {
				if err := c.write(ctx, of(first+int(written.Add(1))-1)); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return written.Load(), time.Since(start), context.Cause(ctx)
}
