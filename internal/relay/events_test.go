package relay

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Events of the tests are of topic "t" unless a test says otherwise.

func unkeyed(id int64) Event {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[8:], uint64(id))
	return Event{ID: id, EventID: u, Topic: "t", Payload: []byte{}}
}

func keyed(id int64, key string) Event {
	e := unkeyed(id)
	e.Key = []byte(key)
	return e
}

func with(e Event, change func(*Event)) Event {
	change(&e)
	return e
}

func unencodable(e *Event) { e.Headers = []byte(`{"a":1}`) }
func delayed(e *Event)     { e.Delayed = true }

// everythingFits is the check of a publisher without a limit.
func everythingFits(*Message, int) *Outcome { return nil }

// rulesOf are rules that are the same for every topic, without a limit, without luck.
func rulesOf(s TopicSettings) rules {
	s = s.withDefaults()
	return rules{settings: func(string) *TopicSettings { return &s }, check: everythingFits, partition: func(e *Event, n int32) int32 { return partitionOf(e.Key, n) },
		own: func(string) string { return "" }, random: func() float64 { return 0 }, holdID: idsFrom(100)}
}

// idsFrom counts.
func idsFrom(first int64) func() (int64, error) {
	next := first - 1
	return func() (int64, error) { next++; return next, nil }
}

// describe writes a receipt as one line per decision, so that tests can state the whole of it. Changes of holds are in the
// order of their ids.
func describe(r *Receipt) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if r.Sent > 0 && len(r.Gone) == 0 {
		add("sent %d", r.Sent)
	}
	if len(r.Gone) > 0 {
		add("gone %v", r.Gone)
	}
	holds := slices.Clone(r.Holds)
	slices.SortFunc(holds, func(a, b HoldChange) int { return int(a.ID - b.ID) })
	for i := range holds {
		add("%s", describeHold(&holds[i]))
	}
	for i := range r.Exceptions {
		x := &r.Exceptions[i]
		switch x.State {
		case Parked:
			add("parked %d behind %d%s", x.ID, x.Hold, describeFailure(x))
		case Scheduled:
			when := "at its own time"
			if x.In > 0 {
				when = "in " + x.In.String()
			}
			add("scheduled %d %s%s", x.ID, when, describeFailure(x))
		default:
			add("%s %d%s", x.State, x.ID, describeFailure(x))
		}
	}
	for what, ids := range map[string][]int64{"put back": r.Putback, "skipped": r.Skipped, "ended": r.Ended} {
		if len(ids) > 0 {
			add("%s %v", what, ids)
		}
	}
	return strings.Join(lines, "\n")
}

func describeHold(h *HoldChange) string {
	on := h.Topic
	if h.Key != nil {
		on += "/" + string(h.Key)
	}
	switch h.Scope {
	case ScopePartition:
		on += fmt.Sprintf(" %d of %d", h.Partition, h.Partitions)
	case ScopeFailure:
		on += " " + h.FailureCode
	}
	until := fmt.Sprintf("probe in %v", h.ProbeIn)
	switch {
	case h.Draining:
		until = "draining"
	case h.ProbeIn == Forever:
		until = "until a release"
	}
	if h.New {
		until += ", new"
	}
	return fmt.Sprintf("hold %d on %s %s: %s %s, failed %d, %s", h.ID, h.Scope, on, h.Cause, h.Code, h.Probes, until)
}

func describeFailure(x *Exception) string {
	if x.Failure.Class == "" {
		return ""
	}
	return fmt.Sprintf(" (attempt %d: %s %s)", x.Attempts, x.Failure.Class, x.Failure.Code)
}

// lines joins what a receipt is expected to be.
func lines(ls ...string) string { return strings.Join(ls, "\n") }
