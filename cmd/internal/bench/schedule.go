package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// insertEvent is one event in a transaction of its own.
const insertEvent = "insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)"

// schedule writes events at exact times; see pace.
type schedule struct {
	topic         string
	first         int // number of the first event of the next run
	rate, clients int
	keys, payload int
	late          histogram
}

// body is the payload of an event: its number, and filling.
func body(seq, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = 'x'
	}
	copy(b, fmt.Sprintf("%0*d", seqBytes, seq))
	return b
}

// run writes this many events and reports each to done when its commit was answered.
func (s *schedule) run(ctx context.Context, url string, events int, done func(seq int)) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	cfg.MaxConns, cfg.MinConns = int32(s.clients), int32(s.clients)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := s.prepare(ctx, pool); err != nil {
		return err
	}
	return pace{s.rate, s.clients, &s.late}.run(ctx, events, func(ctx context.Context, n int, _ time.Time) error {
		seq := s.first + n
		if _, err := pool.Exec(ctx, insertEvent, s.topic, fmt.Appendf(nil, "key-%d", seq%s.keys), body(seq, s.payload)); err != nil {
			return fmt.Errorf("write event %d: %w", seq, err)
		}
		done(seq)
		return nil
	})
}

// prepare opens every connection and has each parse the statement, so that no event pays for it.
func (s *schedule) prepare(ctx context.Context, pool *pgxpool.Pool) error {
	conns := make([]*pgxpool.Conn, 0, s.clients)
	defer func() {
		for _, c := range conns {
			c.Release()
		}
	}()
	for range s.clients {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("connect a writer: %w", err)
		}
		conns = append(conns, c)
		if _, err := c.Exec(ctx, "begin"); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, insertEvent, s.topic, []byte{}, []byte{}); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, "rollback"); err != nil {
			return err
		}
	}
	return nil
}
