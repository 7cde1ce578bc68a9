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
	// ScopePartition holds the keys of one partition of a topic.
	ScopePartition Scope = "partition"
	// ScopeTopic holds a whole topic.
	ScopeTopic Scope = "topic"
	// ScopeFailure is a circuit breaker: it keeps the events of a topic that fail with one code.
	ScopeFailure Scope = "failure"
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
	// CauseHalted: an event was given up, and its key waits for somebody (PolicyHaltKey).
	CauseHalted Cause = "halted"
	// CauseRedrive: the event that halted the key is on its way again.
	CauseRedrive Cause = "redrive"
	// CauseCrowded: the key has so many events waiting that they would keep its shard's others waiting.
	CauseCrowded Cause = "crowded"
	// CauseStorm: too many events of the topic were given up.
	CauseStorm Cause = "storm"
	// CauseCommitOrder: a transaction is open that may still commit earlier events.
	CauseCommitOrder Cause = "commit_order"
)

// Causes returns every cause.
func Causes() []Cause {
	return []Cause{CauseRetry, CauseInfrastructure, CauseRoute, CauseHalted, CauseRedrive, CauseCrowded, CauseStorm, CauseCommitOrder}
}

// Forever is a probe that nobody makes: the hold waits for somebody to end it.
const Forever time.Duration = -1

// Hold is a hold as a claim sees it.
type Hold struct {
	ID    int64
	Scope Scope
	Topic string
	Key   []byte
	// Partition, of Partitions that the topic had then, is what a partition hold holds.
	Partition, Partitions int32
	Cause                 Cause
	// Age is how long it has been held.
	Age time.Duration
	// Probes counts failed probes so far.
	Probes int
	// Draining says that a probe got through and events are coming back.
	Draining bool
	// Through has, per shard with parked events, the id up to which events were let through.
	Through map[int16]int64

	// Code is of ScopeFailure: events that fail with it are parked.
	Code string
	// ErrorCode and Error are those of the failure that it comes from.
	ErrorCode, Error string
	// EventID is the event whose failure it comes from.
	EventID uuid.UUID
	// through is up to which id parked events were let through.
	through int64
	// unsettled counts events that are to be parked here by receipts that are not written yet, and parks all that ever were.
	unsettled, parks int
	// busy says that events of it are in hand, and closing that nothing more is to be parked behind it: it is about to end.
	busy, closing bool
	// kept says that events were tried again and are behind the hold again.
	kept bool
	// answered says that what somebody asked is done with its next change.
	answered bool
	// probeIn is how long until the next probe, when the hold was written last; fresh says that it is not written yet.
	probeIn time.Duration
	fresh   bool
	// since is when it was put in place, by the clock of this process.
	since time.Time
}

// parkedIn reports whether events of a shard are parked under the hold.
func (h *Hold) parkedIn(shard int16) bool {
	_, parked := h.Through[shard]
	return parked
}

// passes reports whether an event of the given shard and id may go under the hold.
func (h *Hold) passes(shard int16, id int64) bool {
	through, parked := h.Through[shard]
	if !parked {
		return h.Draining
	}
	return id <= through
}

// subject names what a hold is about.
type subject struct {
	scope                 Scope
	topic                 string
	key                   string // of key holds
	partition, partitions int32  // of partition holds
}

func keySubject(topic string, key []byte) subject {
	return subject{scope: ScopeKey, topic: topic, key: string(key)}
}

func topicSubject(topic string) subject { return subject{scope: ScopeTopic, topic: topic} }

// Holds finds the holds of an event.
type Holds struct {
	bySubject  map[subject]*Hold
	partitions map[string][]*Hold // by topic
	keys       int
}

// Add adds a hold.
func (hs *Holds) Add(h *Hold) {
	if hs.bySubject == nil {
		hs.bySubject = map[subject]*Hold{}
	}
	hs.bySubject[subject{h.Scope, h.Topic, string(h.Key), h.Partition, h.Partitions}] = h
	switch h.Scope {
	case ScopeKey:
		hs.keys++
	case ScopePartition:
		if hs.partitions == nil {
			hs.partitions = map[string][]*Hold{}
		}
		hs.partitions[h.Topic] = append(hs.partitions[h.Topic], h)
	}
}

// each calls f with the holds that bear on an event: of its key, its partition and its topic. It ends when
// f returns false. partition says on which of n partitions a key is.
func (hs *Holds) each(e *outbox.Event, partition func(key []byte, n int32) int32, f func(*Hold) bool) {
	if len(hs.bySubject) == 0 {
		return
	}
	if h := hs.key(e.Topic, e.Key); h != nil && !f(h) {
		return
	}
	going := true
	hs.eachPartition(e, partition, func(h *Hold) bool {
		going = f(h)
		return going
	})
	if h := hs.topic(e.Topic); going && h != nil {
		f(h)
	}
}

// WaitsFor returns the hold that an event must wait for, or nil when it may go. The hold of its key comes
// first: an event that waits for its key would be a probe of its topic that cannot go.
func (hs *Holds) WaitsFor(e *outbox.Event, partition func(key []byte, n int32) int32) (waits *Hold) {
	hs.each(e, partition, func(h *Hold) bool {
		if !h.passes(e.Shard, e.ID) {
			waits = h
		}
		return waits == nil
	})
	return waits
}

func (hs *Holds) topic(topic string) *Hold { return hs.bySubject[topicSubject(topic)] }

func (hs *Holds) key(topic string, key []byte) *Hold {
	if key == nil || hs.keys == 0 {
		return nil
	}
	return hs.bySubject[keySubject(topic, key)]
}

// eachPartition calls f with the holds of an event's partition, until it returns false. While a topic that
// grew has holds from before, a key is in one partition by the old number of them and in one by the new. An
// event without a key goes to any partition.
func (hs *Holds) eachPartition(e *outbox.Event, partition func(key []byte, n int32) int32, f func(*Hold) bool) {
	if e.Key == nil {
		return
	}
	for _, h := range hs.partitions[e.Topic] {
		if partition(e.Key, h.Partitions) == h.Partition && !f(h) {
			return
		}
	}
}

// HoldChange puts a hold in place or renews it.
type HoldChange struct {
	// ID is that of the hold, and New that it is not in place yet.
	ID    int64
	New   bool
	Scope Scope
	Topic string
	Key   []byte
	// Partition and Partitions name what a partition hold holds.
	Partition, Partitions int32
	Cause                 Cause
	Code                  string
	Error                 string
	// FailureCode is what a circuit breaker keeps.
	FailureCode string
	// Answered says that what somebody asked is done with it.
	Answered bool
	// EventID is the event whose failure it comes from.
	EventID uuid.UUID
	// Probes counts failed probes, this failure included in a renewed hold.
	Probes int
	// ProbeIn is how long until the next probe, or Forever.
	ProbeIn time.Duration
	// Draining begins the hold as one whose events come back: it orders them and waits for nothing.
	Draining bool
	// Anchor makes the hold known to the claims of Shard, where no event may be parked behind it yet.
	Anchor bool
	Shard  int16
}

// Crowd asks for a look behind the end of a batch: when events of other keys of the shard wait behind
// those of this key, these are parked and come back little by little. Claim.Settle writes what it found.
type Crowd struct {
	Shard int16
	Topic string
	Key   []byte
	// After is the last id of the batch in this shard.
	After int64
	// Beyond is up to where an earlier look found events of this key alone, so that this one goes on from there; 0
	// begins behind After.
	Beyond int64

	// Parked is how many events were parked.
	Parked int64
	// Alone is up to where no event of another key was found.
	Alone int64
	// Looked is at how many events the look was that found none; 0 when it found one.
	Looked int64
	// More says that a look that found none did not come to the end of what waits.
	More bool
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
	// Crowds are keys that may keep the others of their shard waiting.
	Crowds []Crowd
	// TriedThrough is set when one event was tried alone: of the ids that were in flight when workers
	// died, those up to this one are done, and the batch's marker stays for the rest.
	TriedThrough int64
	// Uncounted is the id of the event that was tried alone, when the attempt that Claim.CountAttempt counted
	// is to be taken back; otherwise 0.
	Uncounted int64
}

// Failed counts the events that failed by their own fault: they are given up, or will be tried again.
func (s *Settlement) Failed() int {
	n := len(s.Exhausted)
	for i := range s.Scheduled {
		if s.Scheduled[i].Failure != nil {
			n++
		}
	}
	for i := range s.Parked {
		if s.Parked[i].Failure != nil {
			n++
		}
	}
	return n
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
