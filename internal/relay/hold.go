package relay

import (
	"time"

	"github.com/google/uuid"
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
	// CauseHalted: an event was given up, and its key waits for an operator (PolicyHaltKey).
	CauseHalted Cause = "halted"
	// CauseRedrive: the event that halted the key is on its way again.
	CauseRedrive Cause = "redrive"
	// CauseBreaker: too many events failed in one way; the circuit breaker keeps these events.
	CauseBreaker Cause = "circuit_breaker"
)

// Causes returns every cause.
func Causes() []Cause {
	return []Cause{CauseRetry, CauseInfrastructure, CauseRoute, CauseHalted, CauseRedrive, CauseBreaker}
}

// Forever is a probe that is never made: the hold waits for an operator to end it.
const Forever time.Duration = -1

// Hold is a hold as the leader knows it.
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
	// Code is set for ScopeFailure: events that fail with it are parked.
	Code string
	// ErrorCode and Error are the code and the message of the failure that the hold comes from.
	ErrorCode, Error string
	// EventID is the event whose failure it comes from.
	EventID uuid.UUID
	// through is the id up to which parked events were let through.
	through int64
	// parking has the plans whose receipts park events here and are not written yet, each with the lowest id that it brings
	// from elsewhere, or 0. parks counts all events that were ever to be parked here.
	parking map[*plan]int64
	parks   int
	// missed is the lowest id brought from elsewhere that the last look behind the hold may not have seen; 0 for none.
	missed int64
	// writing counts changes that are not written yet. written is the number of the last read of due holds that may have
	// seen the hold as it was before it was written last.
	writing int
	written int64
	// busy says that events of it are in hand, and closing that nothing more is to be parked behind it: it is about to end.
	busy, closing bool
	// kept says that events were tried again and are behind the hold again.
	kept bool
	// givenUpTo bounds the give-up of a circuit breaker: events with higher ids failed after it began, and stay.
	givenUpTo int64
	// answered says that the next change of the hold completes what an operator asked for.
	answered bool
	// probeIn is how long until the next probe, when the hold was written last; fresh says that it is not written yet.
	probeIn time.Duration
	fresh   bool
	// since is when it was put in place, by the clock of this process.
	since time.Time
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

// HoldChange puts a hold in place or renews it.
type HoldChange struct {
	// ID is the id of the hold; New says that it is not in place yet.
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
	// FailureCode is set for a circuit breaker: it keeps the events that fail with this code.
	FailureCode string
	// Answered says that the change completes what an operator asked for.
	Answered bool
	// EventID is the event whose failure it comes from.
	EventID uuid.UUID
	// Probes counts failed probes, this failure included in a renewed hold.
	Probes int
	// ProbeIn is how long until the next probe, or Forever.
	ProbeIn time.Duration
	// Draining begins the hold as one whose events come back: it orders them and waits for nothing.
	Draining bool
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
