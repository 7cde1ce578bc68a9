package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// flatSide is the relay with its defaults over a table in some state.
type flatSide struct {
	name    string
	pending int                                       // before each run
	grow    func(context.Context, *rig, *stage) error // once, what stays; nil: each run has a fresh table
	*stage                                            // of a side that stays, until the end
}

// flatSample is the cost of the window.
type flatSample struct {
	rate float64
	cost cpu
	dry  bool // nothing was pending any more when the window ended
}

func (s flatSample) engine() float64 { return s.cost.side + s.cost.database }

// flat measures what a window of events costs while the same relay works in tables of different sizes. Their rows came
// there as in production: by a relay that published them, or that met a missing topic.
func flat(ctx context.Context, r *rig, b *broker, t *table) (err error) {
	o := r.o
	small := o.smallBacklog()
	sides := []*flatSide{
		{name: "small", pending: small},
		{name: fmt.Sprintf("%d pending", o.flatPending), pending: o.flatPending},
		{name: fmt.Sprintf("%d parked behind a missing topic", o.flatParked), pending: small, grow: growParked},
		{name: fmt.Sprintf("%d published rows", o.flatPublished), pending: small, grow: growPublished},
	}
	defer func() {
		for _, s := range sides {
			if s.stage != nil {
				err = errors.Join(err, s.close())
			}
		}
	}()
	for _, s := range sides {
		if s.grow == nil {
			continue
		}
		r.say("flat: preparing %s", s.name)
		if s.stage, err = r.newStage(ctx, b, newPostrider(nil), nil); err != nil {
			return err
		}
		if err := s.run(ctx); err != nil {
			return err
		}
		if err := s.grow(ctx, r, s.stage); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := s.stop(); err != nil {
			return err
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
		if i > 0 {
			cells = append(cells, cell{Name: "time, of small", Runs: paired(pick(samples[0], rate), pick(samples[i], rate))},
				cell{Name: "CPU of relay and PostgreSQL, of small", Runs: paired(pick(samples[i], flatSample.engine), pick(samples[0], flatSample.engine))})
		}
		for n, sample := range samples[i] {
			if sample.dry {
				t.note("%s: run %d ran dry before its window ended, so its time is too long; raise -flat-window.", s.name, n+1)
			}
		}
		t.add(b, s.name, "defaults", append(cells, costs(pick(samples[i], func(s flatSample) cpu { return s.cost }), "relay")...)...)
	}
	t.note("The window is %d events, after %d, and half a window more is there. Small is %d pending events. Parked events and published rows are a relay's own work; it tries the missing topic again meanwhile.", o.flatWindow, o.flatWarm, small)
	return nil
}

// flatOnce measures the window, and lets the relay finish the rest, so that the next run finds the table as this one did.
func (r *rig) flatOnce(ctx context.Context, b *broker, s *flatSide) (sample flatSample, err error) {
	st := s.stage
	if st == nil {
		if st, err = r.newStage(ctx, b, newPostrider(nil), nil); err != nil {
			return sample, err
		}
		defer func() { err = errors.Join(err, st.close()) }()
	}
	topic, err := b.newTopic(ctx, nil)
	if err != nil {
		return sample, err
	}
	defer b.deleteTopic(topic)
	if err := st.fill(ctx, topic, s.pending); err != nil {
		return sample, err
	}
	if err := st.d.tidy(ctx); err != nil {
		return sample, err
	}
	if err := st.run(ctx); err != nil {
		return sample, err
	}
	m := meter{rig: r, b: b, sides: st.processes()}
	working, cancel := alive(ctx, st.proc)
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
	if err := st.allDelivered(ctx, int64(s.pending), topic); err != nil {
		return sample, err
	}
	if err := loop.Sleep(ctx, calm); err != nil {
		return sample, err
	}
	return sample, st.stop()
}

// fill adds events that wait for a topic.
func (s *stage) fill(ctx context.Context, topic string, events int) error {
	return ours.load(ctx, s.d.conn, 0, events, copyAtOnce, func(seq int) event { return s.o.event(topic, seq) })
}

// growSlice is how many rows are published at once, so that neither the log nor a broker in memory grows with all.
const growSlice = 250_000

// growPublished fills the table with rows that the relay has published.
func growPublished(ctx context.Context, r *rig, s *stage) error {
	for done := 0; done < r.o.flatPublished; done += growSlice {
		if err := growOnce(ctx, s, min(growSlice, r.o.flatPublished-done)); err != nil {
			return err
		}
	}
	return nil
}

func growOnce(ctx context.Context, s *stage, events int) error {
	topic, err := s.b.newTopic(ctx, nil)
	if err != nil {
		return err
	}
	defer s.b.deleteTopic(topic)
	if err := s.fill(ctx, topic, events); err != nil {
		return err
	}
	return s.allDelivered(ctx, int64(events), topic)
}

// growParked fills it with events of a topic that does not exist. When the events behind them are delivered, the relay
// has met them all.
func growParked(ctx context.Context, r *rig, s *stage) error {
	if err := s.fill(ctx, missingTopic, r.o.flatParked); err != nil {
		return err
	}
	if err := growOnce(ctx, s, r.o.flatWarm); err != nil {
		return err
	}
	return loop.Sleep(ctx, calm)
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
		if err := loop.Sleep(ctx, everyTime); err != nil {
			return moment{}, err
		}
	}
}
