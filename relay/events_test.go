package relay

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/postrider/postrider/relay/outbox"
)

// Events of the tests are of topic "t" and shard 3 unless a test says otherwise.

func unkeyed(id int64) outbox.Event {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[8:], uint64(id))
	return outbox.Event{ID: id, EventID: u, Topic: "t", Shard: 3, State: outbox.Pending, Payload: []byte{}}
}

func keyed(id int64, key string) outbox.Event {
	e := unkeyed(id)
	e.Key = []byte(key)
	return e
}

func with(e outbox.Event, change func(*outbox.Event)) outbox.Event {
	change(&e)
	return e
}

func unencodable(e *outbox.Event) { e.Headers = []byte(`{"a":1}`) }
func delayed(e *outbox.Event)     { e.Delayed = true }

func holdsOf(hs ...*Hold) Holds {
	var holds Holds
	for _, h := range hs {
		holds.Add(h)
	}
	return holds
}

// everythingFits is the check of a publisher without a limit.
func everythingFits(*Message, int) *Outcome { return nil }

// rulesOf are rules that are the same for every topic, without a limit, without luck.
func rulesOf(s TopicSettings) rules {
	s = s.withDefaults()
	return rules{settings: func(string) *TopicSettings { return &s }, check: everythingFits, partition: partitionOf,
		random: func() float64 { return 0 }, crowd: func(int16) bool { return true }}
}

func retrying(policy outbox.RetryPolicy) rules { return rulesOf(TopicSettings{Retry: policy}) }

// sentIDs are the ids of the events that a plan sends.
func sentIDs(p *plan) []int64 {
	var ids []int64
	for _, i := range p.events {
		ids = append(ids, p.batch.Events[i].ID)
	}
	return ids
}

// describe writes a settlement as one line per decision, in the order of the fields of Settlement and
// without what is empty, so that tests can state the whole of it.
func describe(s *Settlement) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if len(s.Delivered) > 0 {
		add("delivered %v", s.Delivered)
	}
	for _, f := range s.Exhausted {
		add("exhausted %d%s", f.ID, describeFailure(&f))
	}
	for _, w := range s.Scheduled {
		when := "at its own time"
		if w.In > 0 {
			when = "in " + w.In.String()
		}
		add("scheduled %d %s%s", w.ID, when, describeFailure(w.Failure))
	}
	for i, h := range s.Holds {
		on := h.Topic
		if h.Key != nil {
			on += "/" + string(h.Key)
		}
		if h.Scope == ScopePartition {
			on += fmt.Sprintf(" %d of %d", h.Partition, h.Partitions)
		}
		until := fmt.Sprintf("probe in %v", h.ProbeIn)
		switch {
		case h.Draining:
			until = "draining"
		case h.ProbeIn == Forever:
			until = "until somebody comes"
		}
		if h.Anchor {
			until += fmt.Sprintf(", known in shard %d", h.Shard)
		}
		add("hold #%d on %s %s: %s %s, failed %d, %s", i, h.Scope, on, h.Cause, h.Code, h.Probes, until)
	}
	for _, p := range s.Parked {
		place := fmt.Sprintf("hold %d", p.HoldID)
		if p.HoldID == 0 {
			place = fmt.Sprintf("#%d", p.Hold)
		}
		add("parked %d under %s%s", p.ID, place, describeFailure(p.Failure))
	}
	proven := slices.Clone(s.Proven)
	slices.Sort(proven)
	for _, id := range proven {
		add("proven %d", id)
	}
	for _, c := range s.Crowds {
		add("crowd of %s/%s in shard %d after %d", c.Topic, c.Key, c.Shard, c.After)
	}
	if s.TriedThrough > 0 {
		add("tried through %d", s.TriedThrough)
	}
	if s.Uncounted > 0 {
		add("attempt of %d taken back", s.Uncounted)
	}
	return strings.Join(lines, "\n")
}

func describeFailure(f *Failure) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf(" (attempt %d: %s %s)", f.Attempts, f.Class, f.Code)
}

// lines joins what a settlement is expected to be.
func lines(ls ...string) string { return strings.Join(ls, "\n") }
