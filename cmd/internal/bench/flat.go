package main

import (
	"context"
	"fmt"
	"time"
)

// flatLimit is how much more an event may cost in the large case than in the small one.
const flatLimit = 1.2

// flatSide is a table in some state, and a relay.
type flatSide struct {
	name    string
	pending int // before each run
	relay   relaySide
	grow    func(*database, context.Context) error // once, what stays; nil: the table is emptied before each run
	versus  int                                    // the small case, -1 for one
	*database
}

// flatSample is the cost of the window.
type flatSample struct {
	rate float64
	cost cpu
	dry  bool // nothing was pending any more when the window ended
}

func (s flatSample) engine() float64 { return s.cost.side + s.cost.database }

// flat measures what a window of events costs while the same relay works in tables of different sizes, each in a
// database of its own. Progress is read from the broker's offsets, so the database is asked nothing.
func flat(ctx context.Context, r *rig, b *broker, t *table) error {
	o := r.o
	small := o.smallBacklog()
	sides := []*flatSide{
		{name: "small, deletes", pending: small, versus: -1},
		{name: fmt.Sprintf("%d pending", o.flatPending), pending: o.flatPending},
		{name: fmt.Sprintf("%d parked behind %d keys", o.flatParked, o.flatHolds), pending: small, grow: (*database).park},
		{name: "small, marks", pending: small, relay: relaySide{days: 30}, versus: -1},
		{name: fmt.Sprintf("%d published rows", o.flatPublished), pending: small, relay: relaySide{days: 30}, grow: (*database).publish, versus: 3},
	}
	defer func() {
		for _, s := range sides {
			if s.database != nil {
				s.drop()
			}
		}
	}()
	for i, s := range sides {
		var err error
		if s.database, err = r.newDatabase(ctx, fmt.Sprintf("bench_flat_%d", i), true); err != nil {
			return err
		}
		if s.grow != nil {
			r.say("flat: preparing %s", s.name)
			if err := s.grow(s.database, ctx); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	samples, err := inTurns(o.runs, sides, func(s *flatSide) (flatSample, error) {
		sample, err := r.flatOnce(ctx, b, s)
		return sample, about(s.name, err)
	})
	if err != nil {
		return err
	}
	rate := func(s flatSample) float64 { return s.rate }
	for i, s := range sides {
		cells := []cell{{Name: "events/s", Runs: pick(samples[i], rate)}}
		if s.versus >= 0 {
			base := samples[s.versus]
			cells = append(cells, cell{"time, of small", paired(pick(base, rate), pick(samples[i], rate)), atMost(flatLimit)},
				cell{"CPU of relay and PostgreSQL, of small", paired(pick(samples[i], flatSample.engine), pick(base, flatSample.engine)), atMost(flatLimit)})
		}
		for n, sample := range samples[i] {
			if sample.dry {
				t.note("%s: run %d ran dry before its window ended, so its time is too long; raise -flat-window.", s.name, n+1)
			}
		}
		t.add(b, s.name, s.relay.text(), append(cells, costs(pick(samples[i], func(s flatSample) cpu { return s.cost }), "relay")...)...)
	}
	t.note("The window is %d events, after %d, and half a window more is there. Small is %d pending events.", o.flatWindow, o.flatWarm, small)
	return nil
}

// flatOnce brings the table to the state it should have and measures the window.
func (r *rig) flatOnce(ctx context.Context, b *broker, s *flatSide) (sample flatSample, err error) {
	topic, err := b.newTopic(ctx, nil)
	if err != nil {
		return sample, err
	}
	defer b.deleteTopic(topic)
	if err := s.clear(ctx); err != nil {
		return sample, err
	}
	if err := s.fill(ctx, topic, s.pending); err != nil {
		return sample, err
	}
	c, err := r.startRelay(b, s.url, s.relay, "flat")
	if c != nil {
		defer func() { _ = c.stop() }() // stopped below where all went well
	}
	if err != nil {
		return sample, err
	}
	if err := c.start(); err != nil {
		return sample, err
	}
	m := meter{r, b, []*child{c}}
	working, cancel := alive(ctx, c)
	defer cancel()
	begin, err := m.passed(working, int64(r.o.flatWarm), topic)
	if err != nil {
		return sample, because(working, err)
	}
	end, err := m.passed(working, min(begin.events+int64(r.o.flatWindow), int64(s.pending)), topic)
	if err != nil {
		return sample, because(working, err)
	}
	n := end.events - begin.events
	if n == 0 {
		return sample, fmt.Errorf("all %d events had gone before their number was seen: raise -flat-window", s.pending)
	}
	sample.rate, sample.cost = float64(n)/end.at.Sub(begin.at).Seconds(), end.cpu.minus(begin.cpu).per100k(n)
	sample.dry = end.events >= int64(s.pending)
	r.say("flat, %s: %.0f events/s, %.2f CPU s per 100k", s.name, sample.rate, sample.engine())
	if err := c.stop(); err != nil {
		return sample, err
	}
	return sample, s.clear(ctx)
}

// moment is how far a topic was at some time, and what that had cost.
type moment struct {
	events int64
	at     time.Time
	cpu    cpu
}

// passed waits until the topics have this many records.
func (m meter) passed(ctx context.Context, events int64, topics ...string) (moment, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, drainLimit, fmt.Errorf("%d events did not pass within %v", events, drainLimit))
	defer cancel()
	for {
		n, err := m.b.produced(ctx, topics...)
		if err != nil {
			return moment{}, err
		}
		if n >= events {
			return moment{n, time.Now(), m.now()}, nil
		}
		if err := pause(ctx, everyTime); err != nil {
			return moment{}, err
		}
	}
}

// clear removes what a run needs or leaves, now and not by autovacuum while another side is measured.
func (s *flatSide) clear(ctx context.Context) error {
	if s.grow == nil {
		return s.empty(ctx)
	}
	// No relay runs, so no shard is locked by anybody.
	if err := s.exec(ctx, "delete from postrider.outbox_event where state = 'pending'"); err != nil {
		return err
	}
	return s.tidy(ctx)
}

// publish fills the table with kept rows.
func (d *database) publish(ctx context.Context) error {
	o := d.rig.o
	const slice = 250_000 // a transaction each, so that the log can be recycled
	for done := 0; done < o.flatPublished; done += slice {
		if _, err := d.conn.Exec(ctx, `insert into postrider.outbox_event (topic, key, payload, state, sent_at, updated_at)
			select 'bench.before', convert_to('key-' || i % $1, 'UTF8'), convert_to(rpad(i::text, $2, 'x'), 'UTF8'), 'published', now(), now()
			from generate_series($3::int, $4::int - 1) i`, o.keys, o.payload, done, min(done+slice, o.flatPublished)); err != nil {
			return fmt.Errorf("load published rows: %w", err)
		}
	}
	return d.tidy(ctx)
}

// park fills the table with events behind keys that failed and are not due for a long time.
func (d *database) park(ctx context.Context) error {
	o := d.rig.o
	for _, load := range []struct {
		sql  string
		args []any
	}{
		{`insert into postrider.outbox_hold (scope, topic, key, cause, error_code, error, probes, next_probe_at)
			select 'key', 'bench.failing', convert_to('failing-' || i, 'UTF8'), 'halted', 'CORRUPT_MESSAGE', 'the broker refused it', 3, 'infinity'
			from generate_series(0, $1::int - 1) i`, []any{o.flatHolds}},
		{`insert into postrider.outbox_event (topic, key, payload, state, hold_id, attempts, updated_at)
			select h.topic, h.key, convert_to(rpad(i::text, $2, 'x'), 'UTF8'), 'parked', h.hold_id, 3, now()
			from generate_series(0, $1::int - 1) i
			join postrider.outbox_hold h on h.topic = 'bench.failing' and h.key = convert_to('failing-' || i % $3, 'UTF8')
			order by i`, []any{o.flatParked, o.payload, o.flatHolds}},
		{`insert into postrider.outbox_hold_shard (hold_id, shard)
			select distinct hold_id, shard from postrider.outbox_event where state = 'parked'`, nil},
	} {
		if _, err := d.conn.Exec(ctx, load.sql, load.args...); err != nil {
			return fmt.Errorf("load parked events: %w", err)
		}
	}
	if err := d.exec(ctx, "vacuum (analyze) postrider.outbox_hold, postrider.outbox_hold_shard"); err != nil {
		return err
	}
	return d.tidy(ctx)
}
