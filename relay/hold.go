package relay

import (
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/relay/outbox"
)

// Scope is what a hold holds.
type Scope string

const (
	// ScopeKey holds one key of a topic.
	ScopeKey Scope = "key"
	// ScopeTopic holds a whole topic.
	ScopeTopic Scope = "topic"
	// ScopeDeadLetter holds the exhausted events bound for a dead-letter topic.
	ScopeDeadLetter Scope = "dead_letter"
)

// Cause is why a hold exists.
type Cause string

const (
	// CauseRetry: a failed event waits for its next attempt.
	CauseRetry Cause = "retry"
	// CauseInfrastructure: brokers, leaders or replicas are away.
	CauseInfrastructure Cause = "infrastructure"
	// CauseRoute: the topic is missing or refused.
	CauseRoute Cause = "route"
	// CauseRecord: the dead letter itself was refused.
	CauseRecord Cause = "record"
)

// Hold is a hold as a claim sees it.
type Hold struct {
	ID    int64
	Scope Scope
	Topic string
	Key   []byte
	// Probes counts failed probes so far.
	Probes int
	// Draining says that a probe got through and events are coming back.
	Draining bool
	// Through has, per shard with parked events, the id up to which events were let through.
	Through map[int16]int64
}

// passes reports whether an event of the given shard and id may go under the hold.
func (h *Hold) passes(shard int16, id int64) bool {
	through, parked := h.Through[shard]
	if !parked {
		return h.Draining
	}
	return id <= through
}

// subject names what a hold is about; topic holds have an empty key.
type subject struct{ topic, key string }

// Holds finds the holds of an event.
type Holds struct {
	keys   map[subject]*Hold
	topics map[string]*Hold
}

// Add adds a hold.
func (hs *Holds) Add(h *Hold) {
	if h.Scope == ScopeKey {
		if hs.keys == nil {
			hs.keys = map[subject]*Hold{}
		}
		hs.keys[subject{h.Topic, string(h.Key)}] = h
		return
	}
	if hs.topics == nil {
		hs.topics = map[string]*Hold{}
	}
	hs.topics[h.Topic] = h
}

// Of returns the hold that an event must wait for, or nil when it may go. The hold of its key comes
// first: an event that waits for its key would be a probe of its topic that cannot go.
func (hs *Holds) Of(e *outbox.Event) *Hold {
	if h := hs.key(e.Topic, e.Key); h != nil && !h.passes(e.Shard, e.ID) {
		return h
	}
	if h := hs.topic(e.Topic); h != nil && !h.passes(e.Shard, e.ID) {
		return h
	}
	return nil
}

func (hs *Holds) topic(topic string) *Hold { return hs.topics[topic] }

func (hs *Holds) key(topic string, key []byte) *Hold {
	if key == nil || len(hs.keys) == 0 {
		return nil
	}
	return hs.keys[subject{topic, string(key)}]
}

// HoldChange puts a hold in place or renews it.
type HoldChange struct {
	Scope Scope
	Topic string
	Key   []byte
	Cause Cause
	Code  string
	Error string
	// EventID is the event whose failure it comes from.
	EventID uuid.UUID
	// Probes counts failed probes, this failure included in a renewed hold.
	Probes int
	// ProbeIn is how long until the next probe.
	ProbeIn time.Duration
}

// Settlement is everything a cycle decided about its batch.
type Settlement struct {
	// Delivered are ids that their topics acknowledged.
	Delivered []int64
	// Exhausted are given up; they go to the dead-letter topic next.
	Exhausted []Failure
	// Scheduled become pending again later: delayed events, and failed ones without a key.
	Scheduled []Schedule
	// Holds are put in place or renewed, before Parked refers to them.
	Holds []HoldChange
	// Parked wait for a hold.
	Parked []Park
	// Proven are ids of holds whose probe got through, so that they drain.
	Proven []int64
	// TriedThrough is set when one event was tried alone: of the ids that were in flight when workers
	// died, those up to this one are done, and the batch's marker stays for the rest.
	TriedThrough int64
}

// Failure is a failed attempt of an event.
type Failure struct {
	ID int64
	// Attempts is the new number of failed attempts.
	Attempts int
	Class    Class
	Code     string
	Error    string
}

// Schedule makes an event wait for a time.
type Schedule struct {
	ID int64
	// In is how long to wait; zero waits for the event's own available_at.
	In time.Duration
	// Failure is the failed attempt that caused it, or nil.
	Failure *Failure
}

// Park makes an event wait for a hold.
type Park struct {
	ID    int64
	Shard int16
	// HoldID is the hold, or 0 when it is Settlement.Holds[Hold].
	HoldID int64
	Hold   int
	// Failure is the failed attempt that caused it, or nil.
	Failure *Failure
}
