package api

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// Entry is an investigation: what dead letters about one subject opened. Some things have two names.
type Entry struct {
	// ID is the same as UUID.
	ID string `json:"id"`
	// Entity is the same as SubjectType.
	Entity dlq.SubjectType `json:"entity"`
	// Reason is the reason in one word, as statistics count it: that of its group, which is the error code in small letters,
	// or else the first word of the message.
	Reason string `json:"reason"`
	// Message is what went wrong.
	Message string `json:"message"`
	// CreatedAt is when it was opened.
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is when it last changed; a redrive is no change of it.
	UpdatedAt time.Time `json:"updated_at"`
	// RetryCount is how often the message of the newest letter was tried; 0 where the letter does not say.
	RetryCount int32 `json:"retry_count"`

	// UUID is its identity.
	UUID uuid.UUID `json:"dlq_entry_uuid"`
	// Source is the database that it is about, by its name; main is the desk's own. Of a record it is what the message said.
	Source string `json:"source"`
	// TaskUUID is the task that it is about, or that its event belongs to; null for neither, and for tasks of another source than
	// main.
	TaskUUID *string `json:"task_uuid"`
	// OriginalState is the state of the subject when it was dead-lettered.
	OriginalState string `json:"original_state"`
	// DLQReason is why the subject was dead-lettered.
	DLQReason dlq.Reason `json:"dlq_reason"`
	// DLQTimestamp is when the subject was dead-lettered.
	DLQTimestamp *time.Time `json:"dlq_timestamp"`
	// Status is pending, or what it was closed as.
	Status dlq.Status `json:"resolution_status"`
	// ResolvedAt is when it was closed.
	ResolvedAt *time.Time `json:"resolution_timestamp"`
	// ResolutionNotes say why it was closed.
	ResolutionNotes *string `json:"resolution_notes"`
	// ResolvedBy is the person who closed it, or was named as that. It is postrider where a rule closed it: its message was
	// sent again and arrived, or was given up again and another investigation goes on, or its task was retried
	// without a name.
	ResolvedBy *string `json:"resolved_by"`

	// SubjectType is event, task or record.
	SubjectType dlq.SubjectType `json:"subject_type"`
	// SubjectID is the id of the event, task or record that it is about. Of an event or a task of another source than main, the
	// name of the source and a slash stand before it.
	SubjectID string `json:"subject_id"`
	// Topic is the topic that the message was bound for or came from.
	Topic *string `json:"topic"`
	// ErrorCode is the code of the error.
	ErrorCode *string `json:"error_code"`
	// ErrorCategory is validation, transient or fatal.
	ErrorCategory *message.Category `json:"error_category"`
	// RootCause is class and message of the exception behind the others, as the stack trace of its first letter says; null
	// where that has none.
	RootCause *string `json:"root_cause"`
	// RootFrame is the first place in the program's own code on the way up from the root cause; null where the stack trace
	// has none.
	RootFrame *string `json:"root_frame"`
	// Group is the group of investigations of the same cause.
	Group *uuid.UUID `json:"group_uuid"`
	// Occurrences counts the letters that arrived while it was pending, the first one included.
	Occurrences int `json:"occurrences"`
	// LastOccurredAt is when the newest of them failed.
	LastOccurredAt *time.Time `json:"last_occurred_at"`
	// Predecessor is the investigation that this one goes on from: of the message that was redriven and died again, or else the
	// closed one of the same subject, or else the last of the group that it opened again.
	Predecessor *uuid.UUID `json:"predecessor_uuid"`
	// Assignee is the person who looks at it.
	Assignee *string `json:"assignee"`
	// KeyHeld says whether its event halts its key, so that later events of the key wait. Closing it lets the key go on without it.
	// Of an event of another source than main it is what its dead letter says; null where that does not say.
	KeyHeld *bool `json:"key_held"`
	// Redrive is where its newest redrive stands: queued, delivered, came_back or unknown (its source was forgotten); null for none.
	Redrive *dlq.RedriveState `json:"redrive_state"`
	// Generation counts the redrives that were begun.
	Generation int `json:"generation"`
}

// NewEntry is an investigation as it is shown.
func NewEntry(e dlq.Entry) Entry {
	v := Entry{
		ID: e.UUID.String(), Entity: e.Subject.Type, Reason: cmp.Or(e.Word, dlq.Word(e.ErrorCode, e.ErrorMessage)), Message: e.ErrorMessage,
		CreatedAt: Time(e.CreatedAt), UpdatedAt: Time(e.UpdatedAt),
		UUID: e.UUID, Source: cmp.Or(e.Source, dlq.MainSource), OriginalState: e.OriginalState, DLQReason: e.Reason, DLQTimestamp: TimeOrNull(e.DeadLetteredAt), Status: e.Status,
		ResolvedAt: TimeOrNull(e.ResolvedAt), ResolutionNotes: OrNull(e.ResolutionNotes), ResolvedBy: OrNull(e.ResolvedBy),
		SubjectType: e.Subject.Type, SubjectID: e.Subject.ID, Topic: OrNull(e.Topic), ErrorCode: OrNull(e.ErrorCode), ErrorCategory: OrNull(e.Category()),
		RootCause: OrNull(e.RootCause), RootFrame: OrNull(e.RootFrame), Group: OrNull(e.GroupUUID), Occurrences: e.Occurrences, LastOccurredAt: TimeOrNull(e.LastOccurredAt), Predecessor: OrNull(e.PredecessorUUID),
		Assignee: OrNull(e.Assignee), KeyHeld: e.KeyHeld, Redrive: OrNull(e.Redrive), Generation: e.Generation,
	}
	if e.Attempts != nil {
		v.RetryCount = *e.Attempts
	}
	if e.TaskUUID != uuid.Nil {
		v.TaskUUID = OrNull(e.TaskUUID.String())
	}
	return v
}

// EntryList is a page of investigations.
type EntryList struct {
	List[Entry]
	// Incomplete says that not all was looked at before the page was full: it has fewer items than its size, or none, and
	// there may be others behind Next. Total does not count these.
	Incomplete bool `json:"incomplete"`
}

// NewEntryList is a page that was found with the limit and the offset of f.
func NewEntryList(found dlq.Page, f dlq.Filter) EntryList {
	v := EntryList{List: ListOf(each(NewEntry, found.Entries), found.Next), Incomplete: found.Incomplete}
	page := f.Offset/max(f.Limit, 1) + 1
	v.Total, v.TotalExact, v.Page, v.PageSize = &found.Total, &found.TotalExact, &page, &f.Limit
	return v
}

// Neighbours are the investigations before and behind one in a list.
type Neighbours struct {
	// Previous comes before it in the order of the list; null where it is the first.
	Previous *uuid.UUID `json:"previous"`
	// Next comes behind it; null where it is the last.
	Next *uuid.UUID `json:"next"`
	// Incomplete says that one of them was looked for among 10,000 investigations in vain, and there may be one further on.
	Incomplete bool `json:"incomplete"`
}

// NewNeighbours is the two as they are shown.
func NewNeighbours(n dlq.Neighbours) Neighbours {
	return Neighbours{OrNull(n.Previous), OrNull(n.Next), n.Incomplete}
}

// Detail is an investigation with all that belongs to it.
type Detail struct {
	Entry
	// TaskSnapshot is the same as Snapshot for a task; null for other subjects.
	TaskSnapshot json.RawMessage `json:"task_snapshot"`
	// Snapshot is the subject as it was. Of a message it has what the settings dlq.redact_paths and dlq.redact_headers leave:
	// by default key, payload and all headers but the ones that usually carry credentials.
	Snapshot json.RawMessage `json:"snapshot"`
	// Metadata is free for tags, tickets and tools.
	Metadata json.RawMessage `json:"metadata"`
	// TraceID is the trace of the letter that opened it, 32 hexadecimal digits. It is left out where there is none.
	TraceID string `json:"trace_id,omitempty"`
	// Letters are the newest 100, the newest first.
	Letters []Letter `json:"letters"`
	// Redrives are the newest 100, the newest first.
	Redrives []Redrive `json:"redrives"`
	// Operations are the newest 100 that it is in, the newest first.
	Operations []Treatment `json:"operations"`
	// StoppedTask is the task of its event while the investigation is pending and a redrive would not bring that task back;
	// null otherwise.
	StoppedTask *StoppedTask `json:"stopped_task"`
	// ArchivedTask is the task that it is about, or that its event belongs to, where that was archived; null otherwise.
	ArchivedTask *ArchivedTask `json:"archived_task"`
	// Audit is what was done with it: alone, among others, with its group, or with the operations that it is in; the newest
	// first. Of a row about many, entries of its details is this one, and entries_in_all says how many they were.
	Audit []access.Done `json:"audit"`
}

// NewDetail is an investigation with what was done with it. If revealed is not nil, it stands in its place among the
// letters, or behind them where they do not reach back to it, with the bytes of its message.
func NewDetail(d dlq.Detail, done []access.Done, revealed *dlq.Letter) Detail {
	v := Detail{
		Entry: NewEntry(d.Entry), TaskSnapshot: RawOrNull(nil), Snapshot: RawOrNull(d.Snapshot), Metadata: RawOrNull(d.Metadata), TraceID: d.TraceID(),
		Letters: make([]Letter, len(d.Letters)), Redrives: each(NewRedrive, d.Redrives), Operations: each(NewTreatment, d.Operations), Audit: each(DoneOf, done),
	}
	if d.Subject.Type == dlq.SubjectTask {
		v.TaskSnapshot = v.Snapshot
	}
	if d.Stopped != nil {
		stopped := NewStoppedTask(*d.Stopped)
		v.StoppedTask = &stopped
	}
	if d.Archived != nil {
		archived := NewArchivedTask(*d.Archived)
		v.ArchivedTask = &archived
	}
	for i := range d.Letters {
		v.Letters[i] = NewLetter(&d.Letters[i])
		if revealed != nil && revealed.ID == d.Letters[i].ID {
			redacted := v.Letters[i].RedactedHeaders
			v.Letters[i] = NewRevealedLetter(revealed)
			v.Letters[i].RedactedHeaders = redacted
			revealed = nil
		}
	}
	if revealed != nil {
		v.Letters = append(v.Letters, NewRevealedLetter(revealed))
	}
	return v
}

// OperationsOf are the ids of the operations that an investigation is in, for access.Store.EntryHistory.
func OperationsOf(d dlq.Detail) []string {
	return each(func(t dlq.Treatment) string { return t.Operation.String() }, d.Operations)
}

// Treatment is an operation that an investigation is in, with what became of the investigation there.
type Treatment struct {
	// Operation is the id of the operation.
	Operation uuid.UUID `json:"operation_uuid"`
	// Kind is what the operation does.
	Kind dlq.OperationKind `json:"kind"`
	// Name is the operation's.
	Name string `json:"name"`
	// Actor is who planned it.
	Actor string `json:"actor"`
	// State is where the operation stands.
	State dlq.OperationState `json:"state"`
	// PlannedAt is when it was planned.
	PlannedAt time.Time `json:"planned_at"`
	// StartedAt is when it was started; null before.
	StartedAt *time.Time `json:"started_at"`
	// ItemState is what became of the investigation: waiting, done, skipped or failed.
	ItemState string `json:"item_state"`
	// ItemReason is why it was skipped, or failed.
	ItemReason *dlq.SkipReason `json:"item_reason"`
	// ItemOutcome is what became of its message where that was sent again: sent, delivered or came_back; null otherwise.
	ItemOutcome *string `json:"item_outcome"`
}

// NewTreatment is an operation of an investigation as it is shown.
func NewTreatment(t dlq.Treatment) Treatment {
	return Treatment{
		Operation: t.Operation, Kind: t.Kind, Name: t.Name, Actor: t.Actor, State: t.State, PlannedAt: Time(t.PlannedAt), StartedAt: TimeOrNull(t.StartedAt),
		ItemState: t.Item, ItemReason: OrNull(t.Reason), ItemOutcome: OrNull(t.Outcome),
	}
}

// Redrive is one redrive of an investigation.
type Redrive struct {
	// ID is what its message has as the header replay_id.
	ID string `json:"redrive_id"`
	// Generation is the number of the redrive, from 1.
	Generation int `json:"generation"`
	// Operation is the operation that it belongs to; null for none.
	Operation *uuid.UUID `json:"operation_uuid"`
	// EventID is the event that carries the message.
	EventID uuid.UUID `json:"event_id"`
	// OutboxID is the number of that event.
	OutboxID string `json:"outbox_id"`
	// InPlace says that the same row of the outbox was redriven.
	InPlace bool `json:"in_place"`
	// Target is the topic that the message was sent to.
	Target string `json:"target"`
	// Edited says that the message was changed before.
	Edited bool `json:"edited"`
	// Actor is who sent it.
	Actor string `json:"actor"`
	// State is queued, delivered or came_back.
	State dlq.RedriveState `json:"state"`
	// CreatedAt is when it was begun.
	CreatedAt time.Time `json:"created_at"`
	// FinishedAt is when its outcome was seen; null while it is on its way.
	FinishedAt *time.Time `json:"finished_at"`
}

// NewRedrive is a redrive as it is shown.
func NewRedrive(r dlq.Redrive) Redrive {
	return Redrive{
		ID: r.ID, Generation: r.Generation, Operation: OrNull(r.Operation), EventID: r.EventID, OutboxID: strconv.FormatInt(r.OutboxID, 10),
		InPlace: r.InPlace, Target: r.Target, Edited: r.Edited, Actor: r.Actor, State: r.State, CreatedAt: Time(r.CreatedAt),
		FinishedAt: TimeOrNull(r.FinishedAt),
	}
}
