package dlq

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// SubjectType says what an investigation is about.
type SubjectType string

const (
	// SubjectEvent is an event of an outbox; the subject id is the event id.
	SubjectEvent SubjectType = "event"
	// SubjectTask is a task of a ledger; the subject id is the task's uuid.
	SubjectTask SubjectType = "task"
	// SubjectRecord is a record that is neither; the subject id is where it was read.
	SubjectRecord SubjectType = "record"
)

// Subject names what an investigation is about. A subject has at most one pending investigation.
type Subject struct {
	// Type is what it is. Required, but in a Filter.
	Type SubjectType `json:"subject_type,omitempty"`
	// ID is at most 1024 bytes. Of an event or task of another source than MainSource, "<source>/" stands before it. Required,
	// but in a Filter.
	ID string `json:"subject_id,omitempty"`
}

// Status is where an investigation stands; its values are the values of the SQL type postrider.dlq_resolution_status.
type Status string

const (
	// Pending investigations are open; further letters of their subject are added to them.
	Pending Status = "pending"
	// ManuallyResolved ones were closed because the cause was fixed.
	ManuallyResolved Status = "manually_resolved"
	// PermanentlyFailed ones were closed because it cannot be fixed.
	PermanentlyFailed Status = "permanently_failed"
	// Cancelled ones were closed because they are no longer needed.
	Cancelled Status = "cancelled"
)

// SubjectTypes returns every type of subject.
func SubjectTypes() []SubjectType { return []SubjectType{SubjectEvent, SubjectTask, SubjectRecord} }

// Statuses returns every status, Pending first.
func Statuses() []Status {
	return []Status{Pending, ManuallyResolved, PermanentlyFailed, Cancelled}
}

// Reason is why something was dead-lettered; its values are the values of the SQL type postrider.dlq_reason.
type Reason string

const (
	// StalenessTimeout: a task stayed too long in a state, or an event could not be sent for longer than its
	// topic allows, because brokers, leaders or the topic were away.
	StalenessTimeout Reason = "staleness_timeout"
	// MaxRetriesExceeded: the attempts are spent.
	MaxRetriesExceeded Reason = "max_retries_exceeded"
	// DependencyCycleDetected: the steps of a task wait for each other.
	DependencyCycleDetected Reason = "dependency_cycle_detected"
	// WorkerUnavailable: no worker is there to do the work.
	WorkerUnavailable Reason = "worker_unavailable"
	// ManualDLQ: an operator's command, for example postrider outbox skip.
	ManualDLQ Reason = "manual_dlq"
	// Undeliverable: it can never be sent as it is.
	Undeliverable Reason = "undeliverable"
	// Unclassified: the dead letter does not say.
	Unclassified Reason = "unclassified"
)

// Reasons returns every reason.
func Reasons() []Reason {
	return []Reason{StalenessTimeout, MaxRetriesExceeded, DependencyCycleDetected, WorkerUnavailable,
		ManualDLQ, Undeliverable, Unclassified}
}

// Entry is an investigation: why something could not be delivered or got stuck, and what was done
// about it. Its fields are the columns of postrider.dlq_entry; an empty string, a zero time and
// uuid.Nil stand for null.
type Entry struct {
	// UUID is the identity, a version 7 uuid.
	UUID    uuid.UUID
	Subject Subject
	// Source is the source of the letter that opened it; see Letter.Source. Its group has no investigations of another.
	Source string
	// OriginalState is the subject's state when it was dead-lettered: "failed" for an event.
	OriginalState string
	Reason        Reason
	// DeadLetteredAt is when the subject was dead-lettered (dlq_timestamp).
	DeadLetteredAt time.Time
	Status         Status
	// ResolvedAt is zero while the investigation is pending (resolution_timestamp).
	ResolvedAt                  time.Time
	ResolutionNotes, ResolvedBy string
	// Topic is the topic that the message was bound for or came from.
	Topic                   string
	ErrorCode, ErrorMessage string
	// ErrorCategory is the category that its first letter names; empty where that names none. See Category.
	ErrorCategory message.Category
	// RootCause is class and message of the exception behind the others, at most 2 KiB. RootFrame is the first place in the
	// program's own code on the way up from it, at most 512 bytes. Both are empty where the letter that opened the
	// investigation has none.
	RootCause, RootFrame string
	// Fingerprint and Exact come from the letter that opened it; see the type Fingerprint. Both are empty where none did.
	Fingerprint, Exact string
	// TaskUUID is the task that it is about, or that its event belongs to; uuid.Nil for neither, and for tasks of another source
	// than MainSource.
	TaskUUID uuid.UUID
	// Word is the reason in one word, as Stats counts it: that of its group; see the function Word.
	Word string
	// Occurrences counts the letters that arrived while it was pending, the first one included.
	Occurrences int
	// LastOccurredAt is when the newest of them failed.
	LastOccurredAt time.Time
	// PredecessorUUID is the investigation that this one goes on from: of the message that was redriven and died again, or else
	// the closed one of the same subject, or else the last of the group that it opened again.
	PredecessorUUID uuid.UUID
	// GroupUUID is the group of investigations of the same cause.
	GroupUUID uuid.UUID
	// Attempts is how often the newest letter's message was tried; nil where it does not say.
	Attempts *int32
	// Generation counts the redrives that were begun.
	Generation int
	// Assignee is who looks at it.
	Assignee string
	// Redrive is where its newest redrive stands.
	Redrive RedriveState
	// KeyHeld says whether its event halts its key, whose later events wait. Of an event of another source than MainSource it is
	// what its newest letter says. Nil where that does not say, and on investigations that a List returns.
	KeyHeld *bool
	// Snapshot is the subject as it was, see the function Snapshot. Nil in lists.
	Snapshot json.RawMessage
	// Metadata is free for tags, tickets and tools.
	Metadata json.RawMessage
	// CreatedAt is when the investigation was opened, UpdatedAt when it last changed; a redrive is no change of it.
	CreatedAt, UpdatedAt time.Time
}

// TraceID is the trace of the letter that opened it, 32 hexadecimal digits, as its snapshot has it; empty where that
// has none.
func (e *Entry) TraceID() string {
	var s struct {
		TraceID string `json:"trace_id"`
	}
	if json.Unmarshal(e.Snapshot, &s) != nil {
		return ""
	}
	if raw, err := hex.DecodeString(s.TraceID); err != nil || len(raw) != 16 { // a task's snapshot is its own
		return ""
	}
	return s.TraceID
}
