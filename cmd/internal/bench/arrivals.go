package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// arrivals matches the commits of events with their arrival at a consumer, whichever is noticed first. The
// relay is not asked: a record that a consumer gets was acknowledged, so its arrival is a little later than the
// acknowledgement, by the broker's answer to a waiting fetch, and what is measured is a little too much.
type arrivals struct {
	began   time.Time
	times   []atomic.Int64 // by number of the event: 0, the time of the commit, minus the time of arrival, or matched
	latency histogram
	matched atomic.Int64
	copies  atomic.Int64
	strange atomic.Int64 // records that are not ours
}

// matched says that an event was committed and has arrived.
const matched = math.MaxInt64

func newArrivals(events int) *arrivals {
	return &arrivals{began: time.Now(), times: make([]atomic.Int64, events)}
}

// now is the time since the start, never 0.
func (a *arrivals) now() int64 { return int64(time.Since(a.began)) + 1 }

// committed says that the writer has just learnt that its commit is done.
func (a *arrivals) committed(seq int) {
	now, at := a.now(), &a.times[seq]
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
	now, at := a.now(), &a.times[seq]
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
			seq, err := strconv.Atoi(string(rec.Value[:min(seqBytes, len(rec.Value))]))
			if err != nil || seq < 0 || seq >= len(a.times) {
				a.strange.Add(1)
				return
			}
			a.arrived(seq)
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

// all waits until every event has arrived, and checks that each did so once.
func (a *arrivals) all(ctx context.Context, events int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, arrivalLimit, errors.New("waited in vain"))
	defer cancel()
	for a.matched.Load() < int64(events) {
		if err := pause(ctx, everyTime); err != nil {
			return fmt.Errorf("%d of %d events have not arrived %v after the last commit: %w", int64(events)-a.matched.Load(), events, arrivalLimit, err)
		}
	}
	if copies, strange := a.copies.Load(), a.strange.Load(); copies+strange > 0 {
		return fmt.Errorf("%d copies and %d strange records arrived while nothing failed", copies, strange)
	}
	return nil
}
