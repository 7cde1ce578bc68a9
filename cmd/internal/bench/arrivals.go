package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
)

// arrivals matches the commits of events with their arrival at a consumer, whichever is noticed first. The relay is not
// asked: a record that a consumer gets was acknowledged, so its arrival is a little later than the acknowledgement, by
// the broker's answer to a waiting fetch, and the measured latency is a little too long.
type arrivals struct {
	writes  *writes        // whose clock is used
	times   []atomic.Int64 // by number of the event: 0, the time of the commit, minus the time of arrival, or matched
	seen    []atomic.Int64 // by number: the time of the first arrival, or 0
	latency histogram
	matched atomic.Int64
	copies  atomic.Int64
	extra   atomic.Int64 // of the events that others write to the topic
	extras  int          // how many events others write
	strange atomic.Int64 // records that are not ours
}

// matched says that an event was committed and has arrived.
const matched = math.MaxInt64

func newArrivals(events, extras int) *arrivals {
	return &arrivals{writes: newWrites(), times: make([]atomic.Int64, events), seen: make([]atomic.Int64, events), extras: extras}
}

// committed says that the writer has just learnt that its commit is done.
func (a *arrivals) committed(seq int) {
	now, at := a.writes.now(), &a.times[seq]
	if at.CompareAndSwap(0, now) {
		return
	}
	// It arrived before the answer to the commit did: no time passed.
	if arrived := at.Load(); arrived < 0 && at.CompareAndSwap(arrived, matched) {
		a.latency.add(0)
		a.matched.Add(1)
	}
}

// arrived says that a consumer has just got the event.
func (a *arrivals) arrived(seq int) {
	defer a.seen[seq].CompareAndSwap(0, a.writes.now())
	now, at := a.writes.now(), &a.times[seq]
	if at.CompareAndSwap(0, -now) {
		return
	}
	if committed := at.Load(); committed > 0 && committed != matched && at.CompareAndSwap(committed, matched) {
		a.latency.add(time.Duration(now - committed))
		a.matched.Add(1)
		return
	}
	a.copies.Add(1)
}

// consume reads the topic until ctx ends.
func (a *arrivals) consume(ctx context.Context, client *kgo.Client) error {
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			switch seq, ok := seqOf(rec.Value); {
			case ok && seq < len(a.times):
				a.arrived(seq)
			case ok && seq < len(a.times)+a.extras:
				a.extra.Add(1)
			default:
				a.strange.Add(1)
			}
		})
	}
}

// consumer reads a topic from its start and asks for records the moment there are some.
func (b *broker) consumer(topic string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(b.address), kgo.DisableClientMetrics(), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMinBytes(1), kgo.FetchMaxWait(5*time.Second))
}

// arrivalLimit is how long the last events have to arrive.
const arrivalLimit = time.Minute

// all waits until so many events have arrived. What arrives twice is counted elsewhere, by all that the topic holds.
func (a *arrivals) all(ctx context.Context, events int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, arrivalLimit, errors.New("waited in vain"))
	defer cancel()
	for a.matched.Load() < int64(events) {
		if err := loop.Sleep(ctx, everyTime); err != nil {
			return fmt.Errorf("%d of %d events have not arrived %v after the last commit: %w", int64(events)-a.matched.Load(), events, arrivalLimit, err)
		}
	}
	if strange := a.strange.Load(); strange > 0 {
		return fmt.Errorf("%d strange records arrived", strange)
	}
	return nil
}

// between returns the latencies of events that were committed between two times of the writes' clock.
func (a *arrivals) between(from, to int64) *histogram {
	h := &histogram{}
	for seq := range a.seen {
		if _, done := a.writes.times(seq); done >= from && done <= to && a.seen[seq].Load() > 0 {
			h.add(time.Duration(a.seen[seq].Load() - done))
		}
	}
	return h
}
