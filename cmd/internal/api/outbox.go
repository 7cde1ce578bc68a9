package api

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/message"
)

// EventOf is an event of the outbox as it is shown; relay.EventStatus is its JSON.
func EventOf(e relay.EventStatus) relay.EventStatus {
	inYears(&e.CreatedAt, &e.AvailableAt, &e.UpdatedAt)
	inYearsOrNull(&e.NextAttemptAt, &e.SentAt, &e.FirstErrorAt, &e.LastErrorAt, &e.LockedAt)
	return e
}

// NewEventList is a page of events. It may be short, or empty, and have a next one.
func NewEventList(p relay.EventPage) List[relay.EventStatus] {
	return ListOf(each(EventOf, p.Events), rowText(p.Next))
}

// EventPayload is what an event carries, unredacted.
type EventPayload struct {
	// ID is the number of the event.
	ID string `json:"id"`
	// EventID is the identity of the event.
	EventID uuid.UUID `json:"event_id"`
	// Key and Payload are null where Kafka's are.
	Key     *Bytes `json:"key"`
	Payload *Bytes `json:"payload"`
	// Headers are as the event has them: an object of texts, or a list of pairs of name and value.
	Headers json.RawMessage `json:"headers"`
}

// NewEventPayload is what the event with a number carries.
func NewEventPayload(id int64, b relay.EventBytes) EventPayload {
	return EventPayload{ID: rowText(id), EventID: b.EventID, Key: KeyBytes(b.Key), Payload: PayloadBytes(b.Payload), Headers: RawOrNull(b.Headers)}
}

// PurgedEvents is what a purge of delivered events removed.
type PurgedEvents struct {
	// Purged is how many delivered events were removed. Events that were given up or still wait are not removed and not counted.
	Purged int `json:"purged"`
	// More says that there is more to remove.
	More bool `json:"more"`
}

// Hold is what cannot go, why, and until when.
type Hold struct {
	// ID is its number.
	ID string `json:"id"`
	// Scope is what it holds: key, partition, topic, failure (a circuit breaker) or dead_letter.
	Scope relay.Scope `json:"scope"`
	// Topic is the topic that it is about.
	Topic string `json:"topic"`
	// Key is the key of a hold of a key. Bytes of it that are not UTF-8 are replaced.
	Key *string `json:"key"`
	// Partition is the partition of a hold of a partition.
	Partition *int32 `json:"partition"`
	// Partitions is how many partitions the topic had then.
	Partitions *int32 `json:"partitions"`
	// FailureCode is set for a circuit breaker: events of the topic that fail with this code wait behind it.
	FailureCode *string `json:"failure_code"`
	// Cause is why it exists: retry, infrastructure, route, halted, redrive or circuit_breaker.
	Cause relay.Cause `json:"cause"`
	// ErrorCode is the code of the failure that it comes from.
	ErrorCode *string `json:"error_code"`
	// ErrorCategory is validation, transient or fatal.
	ErrorCategory *message.Category `json:"error_category"`
	// Error is the message of the failure that it comes from.
	Error *string `json:"error"`
	// EventID is the event whose failure it comes from.
	EventID *uuid.UUID `json:"event_id"`
	// OutboxID is the number of that event where it was given up.
	OutboxID *string `json:"outbox_id"`
	// HeldAt is since when it holds.
	HeldAt time.Time `json:"held_at"`
	// NextProbeAt is when it is tried next; null for a hold that waits for an operator.
	NextProbeAt *time.Time `json:"next_probe_at"`
	// Probes counts failed probes.
	Probes int `json:"probes"`
	// Draining says that what waited behind it comes back.
	Draining bool `json:"draining"`
	// Asked is what an operator asked for and the relay that leads has not done yet: release or give_up.
	Asked *string `json:"asked"`
	// Parked are the events behind it, counted up to 100001.
	Parked int64 `json:"parked"`
}

// NewHold is a hold as it is shown.
func NewHold(h relay.HoldStatus) Hold {
	inYearsOrNull(&h.NextProbeAt)
	return Hold{ID: strconv.FormatInt(h.ID, 10), Scope: h.Scope, Topic: h.Topic, Key: OrNull(h.Key), Partition: h.Partition, Partitions: h.Partitions,
		FailureCode: OrNull(h.FailureCode), Cause: h.Cause, ErrorCode: OrNull(h.ErrorCode), ErrorCategory: OrNull(h.ErrorCategory), Error: OrNull(h.Error),
		EventID: OrNull(h.EventID), OutboxID: OrNull(rowText(h.OutboxID)), HeldAt: Time(h.HeldAt), NextProbeAt: h.NextProbeAt, Probes: h.Probes,
		Draining: h.Draining, Asked: OrNull(h.Asked), Parked: h.Parked}
}

// NewHoldList is a page of at most size holds; found has one more where the list goes on.
func NewHoldList(found []relay.HoldStatus, size int) List[Hold] {
	return PageOf(NewHold, found, size, func(h relay.HoldStatus) string { return postgres.PlaceOf(h).String() })
}

// OutboxStatus is the outbox in numbers.
type OutboxStatus struct {
	// Pending is how many events are behind the position of the log.
	Pending int64 `json:"pending"`
	// Due is how many of them are not delayed.
	Due int64 `json:"due"`
	// Processing is how many came back and are on their way.
	Processing int64 `json:"processing"`
	// Failed is how many have failed attempts behind them and will be tried again.
	Failed int64 `json:"failed"`
	// Parked is how many wait for a hold.
	Parked int64 `json:"parked"`
	// Scheduled is how many wait for their time.
	Scheduled int64 `json:"scheduled"`
	// Exhausted is how many are on their way to the dead-letter topic.
	Exhausted int64 `json:"exhausted"`
	// DeadLettered is how many arrived in the dead-letter topic.
	DeadLettered int64 `json:"dead_lettered"`
	// OldestDueSeconds is the age of the oldest event that should have gone by now, in seconds; 0 when there is none.
	OldestDueSeconds float64 `json:"oldest_due_seconds"`
	// HoldCount is the number of holds.
	HoldCount int64 `json:"hold_count"`
	// Holds are the oldest holds; never null.
	Holds []Hold `json:"holds"`
}

// NewOutboxStatus is the status of the outbox as it is shown.
func NewOutboxStatus(s relay.Status) OutboxStatus {
	return OutboxStatus{Pending: s.Pending, Due: s.Due, Processing: s.Processing, Failed: s.Failed, Parked: s.Parked, Scheduled: s.Scheduled,
		Exhausted: s.Exhausted, DeadLettered: s.DeadLettered, OldestDueSeconds: s.OldestDueSeconds, HoldCount: s.HoldCount, Holds: each(NewHold, s.Holds)}
}

// Status is how everything stands.
type Status struct {
	// Outbox is the outbox in numbers.
	Outbox OutboxStatus `json:"outbox"`
	// Detector is the switch of the detectors of stale tasks, and their last pass.
	Detector ledger.DetectorStatus `json:"detector"`
	// Archiver is the switch of the archivers of tasks.
	Archiver ledger.Switch `json:"archiver"`
	// Operations are the operations that have not ended; never null.
	Operations []Operation `json:"operations"`
}

// NewStatus is how everything stands, as it is shown.
func NewStatus(outbox relay.Status, detector ledger.DetectorStatus, archiver ledger.Switch, open []dlq.Operation) Status {
	return Status{NewOutboxStatus(outbox), DetectorOf(detector), SwitchOf(archiver), each(NewOperation, open)}
}

// rowText is the number of a row as text; empty for 0.
func rowText(id int64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatInt(id, 10)
}
