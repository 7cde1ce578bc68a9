package relay

import (
	"context"
	"slices"
	"testing"
	"time"
)

// planCase is a batch, the outcomes of the events that are sent, and the decisions about all events.
type planCase struct {
	rules  rules
	events []Event
	holds  []Hold
	// from names the holds that taken events come from, in the order of events; 0 is a scheduled one. nil is a batch of
	// the log.
	from     []int64
	giveUp   bool
	skips    map[int64]string
	sent     []int64
	outcomes []Outcome // of the events that are sent
	want     string
}

// noon is now, wherever a plan asks.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// bookOf has holds as they are in the middle of a term.
func bookOf(holds []Hold) *holdBook {
	b := newHoldBook(holds)
	b.now = func() time.Time { return noon }
	for _, h := range b.byID {
		h.since = noon.Add(-h.Age)
	}
	return b
}

// take notes events that were taken as in hand; events of the log come from no hold.
func (b *holdBook) take(events []Event, from []*Hold) map[subject]bool {
	if from == nil {
		return nil
	}
	taken := make([]Taken, len(events))
	for i := range events {
		taken[i].Event = events[i]
	}
	return b.takeInHand(taken)
}

// planOf decides which events are sent.
func (c *planCase) planOf() *plan {
	b := bookOf(c.holds)
	in := planInput{ctx: context.Background(), events: c.events, giveUp: c.giveUp, skips: c.skips, now: noon}
	if c.from != nil {
		in.from = make([]*Hold, len(c.from))
		for i, id := range c.from {
			if in.from[i] = b.byID[id]; in.from[i] == nil && id != 0 {
				panic("a case takes events from a hold that is not there")
			}
		}
	}
	in.hands = b.take(c.events, in.from)
	b.mu.Lock()
	defer b.mu.Unlock()
	return newPlan(in, b, c.rules)
}

func (c *planCase) run(t *testing.T) {
	t.Helper()
	p := c.planOf()
	if got := sentIDs(p); !slices.Equal(got, c.sent) {
		t.Fatalf("sent %v, want %v", got, c.sent)
	}
	if len(c.outcomes) != len(c.sent) {
		t.Fatalf("the case has %d outcomes for %d events", len(c.outcomes), len(c.sent))
	}
	r, err := p.conclude(c.outcomes)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(r); got != c.want {
		t.Errorf("receipt:\n%s\nwant:\n%s", got, c.want)
	}
	checkCounted(t, p, r)
}

// checkCounted: a hold ends when all events that are parked behind it are written, and not before.
func checkCounted(t interface{ Errorf(string, ...any) }, p *plan, r *Receipt) {
	parked := map[int64]int{}
	for i := range r.Exceptions {
		if x := &r.Exceptions[i]; x.State == Parked {
			parked[x.Hold]++
		}
	}
	for id, h := range p.book.byID {
		if h.parks != parked[id] || len(h.parking) > 0 != (parked[id] > 0) {
			t.Errorf("hold %d counts %d to be parked, by %d plans; the receipt parks %d behind it", id, h.parks, len(h.parking), parked[id])
		}
	}
	p.book.settled(p)
	for id, h := range p.book.byID {
		if len(h.parking) != 0 {
			t.Errorf("when the receipt is written, more is still to be parked behind hold %d", id)
		}
	}
}

func runPlanCases(t *testing.T, cases map[string]planCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.rules.holdID != nil {
				c.rules.holdID = idsFrom(100)
			}
			c.run(t)
		})
	}
}

// sentIDs are the ids of the events that a plan sends.
func sentIDs(p *plan) []int64 {
	var ids []int64
	for _, i := range p.eventOf {
		ids = append(ids, p.events[i].ID)
	}
	return ids
}

func events(es ...Event) []Event { return es }

// outcomes are outcomes of these classes, each with its class for a code.
func outcomes(classes ...Class) []Outcome {
	var os []Outcome
	for _, c := range classes {
		o := Outcome{Class: c, Code: string(c), Message: "why"}
		if c == Delivered {
			o = Outcome{Class: c}
		}
		os = append(os, o)
	}
	return os
}

// eventID is the event id that the tests' events of this id have.
var eventID = func(id int64) [16]byte { e := unkeyed(id); return e.EventID }

func onKey(id int64, key string, h Hold) Hold {
	h.ID, h.Scope, h.Topic, h.Key = id, ScopeKey, "t", []byte(key)
	return h
}

func onTopic(id int64, h Hold) Hold {
	h.ID, h.Scope, h.Topic = id, ScopeTopic, "t"
	return h
}

// onPartition is a hold of one of n partitions. The fakes put a key on the partition len(key) % n.
func onPartition(id int64, partition, n int32, h Hold) Hold {
	h.ID, h.Scope, h.Topic, h.Partition, h.Partitions = id, ScopePartition, "t", partition, n
	return h
}

func onFailure(id int64, code string, h Hold) Hold {
	h.ID, h.Scope, h.Topic, h.Code, h.Cause = id, ScopeFailure, "t", code, CauseBreaker
	return h
}
