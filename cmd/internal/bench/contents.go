package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// contents is what a topic holds, measured by what was written.
type contents struct {
	copies   int // records of an event beyond its first
	missing  int // events without a record
	disorder int // events behind one of their key that was written after them
	strange  int // records that are no event of the run
}

// plus is what two topics hold together.
func (c contents) plus(o contents) contents {
	return contents{c.copies + o.copies, c.missing + o.missing, c.disorder + o.disorder, c.strange + o.strange}
}

// history says of an event when its insert was begun and when its commit was answered; of two events, one was written
// after the other if it was begun when the other was done.
type history func(seq int) (began, done int64)

// loaded is the history of events that one writer inserted by their numbers.
func loaded(seq int) (began, done int64) { return int64(seq)*2 + 1, int64(seq)*2 + 2 }

// readLimit bounds the wait for the next records of a topic that is known to have some.
const readLimit = time.Minute

// contents reads topics whole, and counts what should be there of the events 0 to events-1.
func (b *broker) contents(ctx context.Context, events int, written history, topics ...string) (contents, error) {
	end, err := b.produced(ctx, topics...)
	if err != nil {
		return contents{}, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.address), kgo.DisableClientMetrics(), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(32<<20))
	if err != nil {
		return contents{}, err
	}
	defer client.Close()
	count := newCounter(events, written)
	for n := int64(0); n < end; {
		reading, cancel := context.WithTimeoutCause(ctx, readLimit, errors.New("no records came"))
		fetches := client.PollFetches(reading)
		err := fetches.Err()
		if reading.Err() != nil {
			err = context.Cause(reading)
		}
		cancel()
		if err != nil {
			return contents{}, fmt.Errorf("read %v: %d of %d records: %w", topics, n, end, err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			n++
			count.record(rec)
		})
	}
	return count.result(), nil
}

// counter takes the records of a topic, the records of each key in the order of their offsets.
type counter struct {
	contents
	seen    []bool
	written history
	latest  map[string]int64 // by topic and key: when the insert of the newest event so far was begun
}

func newCounter(events int, written history) *counter {
	return &counter{seen: make([]bool, events), written: written, latest: map[string]int64{}}
}

func (c *counter) record(rec *kgo.Record) {
	seq, ok := seqOf(rec.Value)
	switch {
	case !ok || seq >= len(c.seen):
		c.strange++
		return
	case c.seen[seq]:
		c.copies++
		return
	}
	c.seen[seq] = true
	began, done := c.written(seq)
	of := rec.Topic + "\x00" + string(rec.Key)
	if done > 0 && done <= c.latest[of] {
		c.disorder++
	}
	c.latest[of] = max(c.latest[of], began)
}

func (c *counter) result() contents {
	for _, there := range c.seen {
		if !there {
			c.missing++
		}
	}
	return c.contents
}

// contentCells are the counts of each run.
func contentCells(runs []contents) []cell {
	count := func(of func(contents) int) []float64 {
		return pick(runs, func(c contents) float64 { return float64(of(c)) })
	}
	return []cell{
		{Name: "copies", Runs: count(func(c contents) int { return c.copies }), Whole: true},
		{Name: "missing", Runs: count(func(c contents) int { return c.missing }), Whole: true},
		{Name: "out of order", Runs: count(func(c contents) int { return c.disorder }), Whole: true},
	}
}
