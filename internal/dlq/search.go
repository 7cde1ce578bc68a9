package dlq

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Filter selects investigations. Its zero value selects all. As JSON, operations are stored with it, by the names that the
// API has for its parameters.
type Filter struct {
	// Status, if not empty, is the only status wanted.
	Status Status `json:"resolution_status,omitempty"`
	// Reason, if not empty, is the only reason wanted.
	Reason Reason `json:"dlq_reason,omitempty"`
	// Subject's fields, where not empty, are the only type and id wanted. It is embedded for its JSON to be flat.
	Subject
	// Source, if not empty, is the only source wanted.
	Source string `json:"source,omitempty"`
	// Topic, if not empty, is the only topic wanted.
	Topic string `json:"topic,omitempty"`
	// ErrorCode, if not empty, is the only error code wanted.
	ErrorCode string `json:"error_code,omitempty"`
	// Group, if not uuid.Nil, is the only group wanted.
	Group uuid.UUID `json:"group,omitzero"`
	// Assignee, if not empty, is the only one wanted.
	Assignee string `json:"assignee,omitempty"`
	// ConsumerGroup, if not empty, is the only consumer group wanted that gave the message up.
	ConsumerGroup string `json:"consumer_group,omitempty"`
	// DLQTopic, if not empty, is the only dead-letter topic wanted from which the first dead letter was read.
	DLQTopic string `json:"dlq_topic,omitempty"`
	// EventID, if not uuid.Nil, is the event that one of the dead letters is about.
	EventID uuid.UUID `json:"event_id,omitzero"`
	// Word, if not empty, is the reason in one word, as lists and Stats report it, in large or small letters. If no group
	// has it, Find takes it for a part of the message, as Message is; a purge or an operation has nothing to do then. It does
	// not go with Message.
	Word string `json:"reason,omitempty"`
	// Message, if not empty, is a part of the error message, of the root cause or of its frame, in large or small letters.
	Message string `json:"text,omitempty"`
	// From and To, where not zero, bound the time when an investigation was opened, both inclusive.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Limit is how many to return, at most MaxLimit. Defaults to DefaultLimit.
	Limit int `json:"limit,omitempty"`
	// Offset is how many of the newest to pass over. Defaults to 0.
	Offset int `json:"offset,omitempty"`
}

// Bounds of Filter.Limit.
const (
	DefaultLimit = 25
	MaxLimit     = 1000
)

// OrderBy is the time by which investigations are listed.
type OrderBy string

const (
	// ByCreated lists by when an investigation was opened.
	ByCreated OrderBy = "created_at"
	// ByUpdated lists by when it last changed.
	ByUpdated OrderBy = "updated_at"
)

// MaxOffset is how many investigations a list passes over at most; further on, After is the way.
const MaxOffset = 100_000

// ExactTotal is up to how many investigations are counted one by one where no counter has their number.
const ExactTotal = 10_000

// MaxSkim is how many investigations a search looks at, in their order, for a text in which no three letters or digits
// stand in a row: the index of messages has trigrams and cannot find it.
const MaxSkim = 10_000

// Search asks for one page of a list of investigations.
type Search struct {
	// Filter selects, and says how many to return and to pass over.
	Filter Filter
	// OrderBy defaults to ByCreated.
	OrderBy OrderBy
	// Ascending lists the oldest first. Defaults to false.
	Ascending bool
	// After is the Next of the page before. It goes with the same order, and without an offset. Defaults to the
	// beginning.
	After string
	// WithoutTotal leaves the counting out. Defaults to false.
	WithoutTotal bool
}

// Check reports why a search is invalid, and sets the defaults.
func (s *Search) Check() error {
	f := &s.Filter
	switch {
	case f.Status != "" && !slices.Contains(Statuses(), f.Status):
		return fmt.Errorf("%w: there is no status %q; it is one of %v", ErrRequest, f.Status, Statuses())
	case f.Reason != "" && !slices.Contains(Reasons(), f.Reason):
		return fmt.Errorf("%w: there is no reason %q; it is one of %v", ErrRequest, f.Reason, Reasons())
	case f.Source != "" && !ValidSource(f.Source):
		return refuseSource(f.Source)
	case f.Limit < 0 || f.Limit > MaxLimit:
		return fmt.Errorf("%w: the limit is %d, it must be 1 to %d", ErrRequest, f.Limit, MaxLimit)
	case f.Offset < 0 || f.Offset > MaxOffset:
		return fmt.Errorf("%w: the offset is %d, it must be 0 to %d; further on, ask for what comes after a page", ErrRequest, f.Offset, MaxOffset)
	case s.After != "" && f.Offset != 0:
		return fmt.Errorf("%w: give either after or an offset", ErrRequest)
	case f.Word != "" && f.Message != "":
		return fmt.Errorf("%w: give either a reason or a text", ErrRequest)
	case s.OrderBy != "" && s.OrderBy != ByCreated && s.OrderBy != ByUpdated:
		return fmt.Errorf("%w: investigations are not ordered by %q; it is %s or %s", ErrRequest, s.OrderBy, ByCreated, ByUpdated)
	case !f.From.IsZero() && !f.To.IsZero() && f.From.After(f.To):
		return fmt.Errorf("%w: from is after to", ErrRequest)
	case !storableTime(f.From).Equal(f.From) || !storableTime(f.To).Equal(f.To):
		return fmt.Errorf("%w: from and to must be in the years 1 to 9999", ErrRequest)
	}
	for _, text := range []struct{ name, value string }{
		{"subject_type", string(f.Subject.Type)}, {"subject_id", f.Subject.ID}, {"topic", f.Topic}, {"error_code", f.ErrorCode},
		{"assignee", f.Assignee}, {"consumer_group", f.ConsumerGroup}, {"dlq_topic", f.DLQTopic}, {"text", f.Message}, {"reason", f.Word},
	} {
		if err := plain(text.name, text.value, MaxFilterText); err != nil {
			return err
		}
	}
	if f.Limit == 0 {
		f.Limit = DefaultLimit
	}
	if s.OrderBy == "" {
		s.OrderBy = ByCreated
	}
	return nil
}

// Page is one page of a list.
type Page struct {
	// Entries are without their snapshots.
	Entries []Entry
	// Total is how many there are on all pages. It is counted up to ExactTotal, and exact beyond where counters
	// have it; TotalExact says whether it is, and not an estimate. Where a text is looked for that many messages have,
	// it may be an estimate below that, too.
	Total      int64
	TotalExact bool
	// Next goes into Search.After for the page that follows; empty on the last.
	Next string
	// Incomplete says that the search ended after MaxSkim investigations, before the page was full: there may be others
	// behind Next. What was found is right and in its order.
	Incomplete bool
}

// Neighbours are the investigations before and behind one in a list.
type Neighbours struct {
	// Previous comes before it, Next behind it; uuid.Nil where there is none.
	Previous, Next uuid.UUID
	// Incomplete says that one of them was looked for among MaxSkim investigations in vain, and there may be one further on.
	Incomplete bool
}

// RedriveState says where the newest redrive of an investigation stands.
type RedriveState string

const (
	// NotRedriven: there was none.
	NotRedriven RedriveState = ""
	// Queued: it is on its way.
	Queued RedriveState = "queued"
	// Delivered: its topic has acknowledged it.
	Delivered RedriveState = "delivered"
	// CameBack: it was given up again.
	CameBack RedriveState = "came_back"
	// Unknown: its source was forgotten before it was seen.
	Unknown RedriveState = "unknown"
)

// Redrive is one redrive of an investigation.
type Redrive struct {
	// ID is what its message has as the header replay_id.
	ID         string
	Generation int
	// Operation made it; uuid.Nil if none did.
	Operation uuid.UUID
	// EventID and OutboxID name the event that carries it.
	EventID  uuid.UUID
	OutboxID int64
	// InPlace says that the same row was redriven.
	InPlace bool
	Target  string
	Edited  bool
	Actor   string
	State   RedriveState
	// FinishedAt is zero while it is on its way.
	CreatedAt, FinishedAt time.Time
}

// MaxLetters is how many letters, how many redrives, and how many operations, a Detail has at most.
const MaxLetters = 100

// Detail is an investigation with what belongs to it.
type Detail struct {
	Entry
	// Letters are the newest, newest first, at most MaxLetters. Keys and payloads are left out, and header values
	// that a rule of redaction names are replaced: see Investigations.Reveal.
	Letters []Letter
	// Redrives are the newest first, at most MaxLetters.
	Redrives []Redrive
	// Operations are the operations that it is in, the newest first, at most MaxLetters.
	Operations []Treatment
	// Stopped is the task that its event belongs to, while the investigation is pending and only a retry moves that task; nil
	// otherwise.
	Stopped *StoppedTask
	// Archived is the task that it is about, or that its event belongs to, where that was archived; nil otherwise.
	Archived *ArchivedTask
}

// ArchivedTask is a task that was archived. It is not retried any more.
type ArchivedTask struct {
	// UUID is the id of the task.
	UUID uuid.UUID
	// State is the state that it is in.
	State string
	// At is when it was archived.
	At time.Time
	// InArchive says that it was moved to the archive. Otherwise it is in the archived state of its machine: it was
	// dead-lettered, and read after seven days without a change.
	InArchive bool
}

// Stats are numbers of all investigations.
type Stats struct {
	// Total is how many there are, Pending how many of them are open.
	Total, Pending int64
	// ByReason counts them by Word; beyond MaxWords words the rest is counted as "other".
	ByReason map[string]int64
	// ByErrorCode counts the open ones by error code; "" means that there is none. It is bounded as ByReason is.
	ByErrorCode map[string]int64
	// Last24h is how many were opened during the last 24 hours.
	Last24h int64
	// Reasons has a row for each reason that occurs, in the order of Reasons.
	Reasons []ReasonStats
	// OldestPending is when the oldest open one was opened; zero when none is.
	OldestPending time.Time
	// Recent are the newest open ones, at most RecentSamples.
	Recent []uuid.UUID
}

// Bounds of Stats.
const (
	MaxWords      = 200
	RecentSamples = 5
)

// OtherWord is what the words beyond MaxWords are counted as.
const OtherWord = "other"

// ReasonStats are the numbers of one reason.
type ReasonStats struct {
	Reason                                                         Reason
	Total, Pending, ManuallyResolved, PermanentFailures, Cancelled int64
	// Oldest and Newest are when the first and the last of them were dead-lettered.
	Oldest, Newest time.Time
}

// RevealRequest asks for the bytes of a letter.
type RevealRequest struct {
	// Entry is the investigation. Required.
	Entry uuid.UUID
	// LetterID is one of its letters. Defaults to the newest.
	LetterID string
	// Reason is why the bytes are looked at, for the audit log. Defaults to none.
	Reason string
	// Actor is who looks. Required.
	Actor string
}

// Check reports why a request is invalid.
func (r RevealRequest) Check() error {
	switch {
	case r.Actor == "":
		return fmt.Errorf("%w: the actor is missing", ErrRequest)
	case r.Entry == uuid.Nil:
		return fmt.Errorf("%w: no investigation is named", ErrRequest)
	}
	if err := plain("letter_id", r.LetterID, maxIDBytes); err != nil {
		return err
	}
	return plain("reason", r.Reason, MaxNotes)
}
