package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// leaderlessTopic is a topic whose partition 0 has no leader on kfake.
	leaderlessTopic = "bench.leaderless"
	// missingTopic is a topic that is never created.
	missingTopic = "bench.missing"
	// healthyTopics are the topics beside the two.
	healthyTopics = 20
)

// faultsSide is a backlog of many topics. Two of them are well, too, or one partition of the first has no leader and the
// other is missing.
type faultsSide struct {
	name   string
	broken bool
}

// faultsSample is how the healthy topics fared.
type faultsSample struct {
	rate  float64 // of their events, within the window
	onset float64 // seconds until the window began
	cost  cpu
}

// faults measures what a partition without a leader and a missing topic cost the others: the same rows go to the same
// number of topics, with all of them well and with two that are not.
func faults(ctx context.Context, r *rig, b *broker, t *table) error {
	if b.name != "kfake" {
		var err error
		if b, err = startBroker(ctx, "kfake", ""); err != nil { // a real one has no partition without a leader to order
			return err
		}
		defer b.close()
	}
	sides := []faultsSide{{name: "all topics well"}, {"a leaderless partition, a missing topic", true}}
	all, err := inTurns(r.o.runs, sides, func(s faultsSide) (faultsSample, error) {
		sample, err := r.faultsOnce(ctx, b, s)
		return sample, about(s.name, err)
	})
	if err != nil {
		return err
	}
	rate := func(s faultsSample) float64 { return s.rate }
	for i, s := range sides {
		cells := []cell{{Name: "events/s of healthy topics", Runs: pick(all[i], rate)}}
		if s.broken {
			cells = append(cells, cell{Name: "of all well", Runs: paired(pick(all[i], rate), pick(all[0], rate))})
		}
		cells = append(cells, cell{Name: "first fifth s", Runs: pick(all[i], func(s faultsSample) float64 { return s.onset })})
		t.add(b, s.name, "defaults", append(cells, costs(pick(all[i], func(s faultsSample) cpu { return s.cost }), "relay")...)...)
	}
	t.note("%d events of %d topics. The window begins when a fifth of the healthy topics' events has passed, by when the faults are known, and ends with the last of them. Costs are per 100,000 of these.",
		r.o.faultsEvents, healthyTopics+2)
	return nil
}

// faultsOnce drains one backlog.
func (r *rig) faultsOnce(ctx context.Context, b *broker, s faultsSide) (sample faultsSample, err error) {
	st, err := r.newStage(ctx, b, newPostrider(nil), nil)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	var healthy []string
	defer func() {
		for _, topic := range healthy {
			b.deleteTopic(topic)
		}
	}()
	create := func(n int) (topics []string, err error) {
		for range n {
			topic, err := b.newTopic(ctx, nil)
			if err != nil {
				return nil, err
			}
			topics = append(topics, topic)
		}
		return topics, nil
	}
	if healthy, err = create(healthyTopics); err != nil {
		return sample, err
	}
	others := []string{leaderlessTopic, missingTopic}
	if s.broken {
		err = b.createTopic(ctx, leaderlessTopic, nil)
	} else {
		others, err = create(len(others))
	}
	defer func() {
		for _, topic := range others {
			b.deleteTopic(topic) // none is missed
		}
	}()
	if err != nil {
		return sample, err
	}
	topics := append(append([]string{}, healthy...), others...)
	if err := ours.load(ctx, st.d.conn, 0, r.o.faultsEvents, copyAtOnce, func(seq int) event {
		e := r.o.event(topics[seq%len(topics)], seq)
		e.key = fmt.Appendf(nil, "key-%d", seq/len(topics)%r.o.keys)
		return e
	}); err != nil {
		return sample, err
	}
	if err := st.d.tidy(ctx); err != nil {
		return sample, err
	}
	events := int64(0)
	for i := range healthy {
		events += int64((r.o.faultsEvents - i + len(topics) - 1) / len(topics))
	}
	start := time.Now()
	if err := st.run(ctx); err != nil {
		return sample, err
	}
	m := meter{rig: r, b: b, sides: st.processes()}
	working, cancel := alive(ctx, st.proc)
	defer cancel()
	begin, err := m.passed(working, events/5, healthy...)
	if err != nil {
		return sample, because(working, err)
	}
	end, err := m.passed(working, events, healthy...)
	if err != nil {
		return sample, because(working, err)
	}
	n := end.events - begin.events
	if n == 0 {
		return sample, fmt.Errorf("all %d events had gone before their number was seen: raise -faults-events", events)
	}
	if end.events != events {
		return sample, fmt.Errorf("%d events were written to the healthy topics and %d records are there", events, end.events)
	}
	if s.broken {
		if err := st.d.held(ctx); err != nil {
			return sample, err
		}
	}
	sample = faultsSample{rate: float64(n) / end.at.Sub(begin.at).Seconds(), onset: begin.at.Sub(start).Seconds(), cost: end.cpu.minus(begin.cpu).per100k(n)}
	r.say("faults, %s: %.0f events/s, the first fifth after %.2f s", s.name, sample.rate, sample.onset)
	return sample, st.stop()
}

// held checks that both faults were met.
func (d *database) held(ctx context.Context) error {
	for _, hold := range []struct{ topic, scope string }{{leaderlessTopic, "partition"}, {missingTopic, "topic"}} {
		var there bool
		if err := d.conn.QueryRow(ctx, "select exists (select from postrider.outbox_hold where topic = $1 and scope = $2)", hold.topic, hold.scope).Scan(&there); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("there is no hold of a %s of %s: the fault was not met", hold.scope, hold.topic)
		}
	}
	return nil
}
