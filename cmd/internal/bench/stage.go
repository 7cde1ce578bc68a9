package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// stage is what one run of a side has for itself: a database with its table, a topic, and its process while it runs.
type stage struct {
	*rig
	b     *broker
	side  side
	d     *database
	topic string
	proc  process
}

// newStage makes a fresh one. configs are the topic's.
func (r *rig) newStage(ctx context.Context, b *broker, s side, configs map[string]*string) (_ *stage, err error) {
	st := &stage{rig: r, b: b, side: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.close())
		}
	}()
	if st.d, err = r.newDatabase(ctx, fmt.Sprintf("bench_%d", r.stages.Add(1)), s.outbox().migrated); err != nil {
		return nil, err
	}
	if st.topic, err = b.newTopic(ctx, configs); err != nil {
		return nil, err
	}
	if err := s.outbox().create(ctx, st.d); err != nil {
		return nil, err
	}
	return st, s.prepare(ctx, st)
}

// run starts the side's process, if it has one.
func (s *stage) run(ctx context.Context) (err error) {
	s.proc, err = s.side.start(ctx, s)
	return err
}

// processes are the processes that run: one or none.
func (s *stage) processes() []process {
	if s.proc == nil {
		return nil
	}
	return []process{s.proc}
}

// stop ends the side's process in order; a process that does not is an error.
func (s *stage) stop() error {
	p := s.proc
	if s.proc = nil; p == nil {
		return nil
	}
	return p.stop()
}

// close ends everything and gives it back.
func (s *stage) close() error {
	err := s.stop()
	if s.topic != "" {
		s.b.deleteTopic(s.topic)
	}
	if s.d != nil {
		s.d.drop()
	}
	return err
}

// everyTime is how often progress is read: often beside a drain of a second or two, and too seldom to cost the broker
// anything to speak of.
const everyTime = 5 * time.Millisecond

// drainLimit bounds one drain; only a relay that is stuck takes as long.
const drainLimit = 10 * time.Minute

// delivered waits until the topics, by default the stage's, have so many records, or until limit has passed. Kafka's end
// offsets are asked, and neither the side nor its tables.
func (s *stage) delivered(ctx context.Context, events int64, limit time.Duration, topics ...string) (p progress, err error) {
	ctx, cancel := alive(ctx, s.processes()...)
	defer cancel()
	if len(topics) == 0 {
		topics = []string{s.topic}
	}
	start := int64(-1)
	for began := time.Now(); ; {
		if p.events, err = s.b.produced(ctx, topics...); err != nil {
			return p, because(ctx, err)
		}
		if start < 0 {
			start = p.events
		}
		p.reached(start, events)
		if p.events >= events || time.Since(began) >= limit {
			return p, nil
		}
		if err := loop.Sleep(ctx, everyTime); err != nil {
			return p, fmt.Errorf("%w after %d of %d events", err, p.events, events)
		}
	}
}

// progress is how far topics are, and when they had come some of the way.
type progress struct {
	events           int64
	tenth, ninetieth time.Time // percent of the way
	between          int64     // events that came between these
}

func (p *progress) reached(start, end int64) {
	now, done := time.Now(), 100*(p.events-start)
	if p.tenth.IsZero() && done >= 10*(end-start) {
		p.tenth, p.between = now, -p.events
	}
	if !p.tenth.IsZero() && p.ninetieth.IsZero() && done >= 90*(end-start) {
		p.ninetieth, p.between = now, p.between+p.events
	}
}

// middle is the rate between the two, in events a second; not a number where they were met at one look.
func (p *progress) middle() float64 {
	if p.ninetieth.IsZero() || !p.ninetieth.After(p.tenth) {
		return notANumber
	}
	return float64(p.between) / p.ninetieth.Sub(p.tenth).Seconds()
}

// allDelivered is delivered for everything.
func (s *stage) allDelivered(ctx context.Context, events int64, topics ...string) error {
	p, err := s.delivered(ctx, events, drainLimit, topics...)
	if err == nil && p.events < events {
		err = fmt.Errorf("%d of %d events were delivered within %v", p.events, events, drainLimit)
	}
	return err
}

// calm is the time that a side has after its last event until the next thing is asked of it.
const calm = 1500 * time.Millisecond

// warm lets events pass that do not count, and then waits a moment, until the work after them is done.
func (s *stage) warm(ctx context.Context, n int) error {
	if err := s.side.load(ctx, s, 0, n); err != nil {
		return err
	}
	if err := s.allDelivered(ctx, int64(n)); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return loop.Sleep(ctx, calm)
}

// logged is how many bytes of write-ahead log were written since the cluster was made.
func (d *database) logged(ctx context.Context) (bytes int64, err error) {
	err = d.conn.QueryRow(ctx, "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").Scan(&bytes)
	return bytes, err
}

// tidy does now what autovacuum and the checkpointer would do in the middle of a run.
func (d *database) tidy(ctx context.Context) error {
	return d.exec(ctx, "vacuum (analyze)", "checkpoint")
}

// turns measures each side so many times in turn.
func turns[M any](r *rig, sides []side, once func(side) (M, error)) ([][]M, error) {
	return inTurns(r.o.runs, sides, func(s side) (M, error) {
		m, err := once(s)
		name, settings := s.title()
		return m, about(name+", "+settings, err)
	})
}

// nth is the place of the side that others are compared with, -1 where it is not among them.
func nth(sides []side, name string) int {
	return slices.IndexFunc(sides, func(s side) bool { n, _ := s.title(); return n == name })
}
