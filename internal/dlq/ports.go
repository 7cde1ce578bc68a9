package dlq

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

var (
	// ErrLetter is wrapped by a Store's error when it refuses a letter for its content, so that storing the same again
	// cannot succeed. Every other error of a Store is taken as passing.
	ErrLetter = errors.New("letter refused")
	// ErrNotFound is wrapped by errors about an investigation, group, letter or operation that does not exist; the error
	// says which.
	ErrNotFound = errors.New("not found")
)

// Source reads dead-letter topics. It is used by one goroutine at a time.
type Source interface {
	// Poll waits for records and returns them, in order per partition. An error may come together with records: it is about
	// other partitions, and the records are good. When ctx ends, it returns ctx's error. A Poll comes after the Commit of
	// the records that the Poll before returned.
	Poll(ctx context.Context) ([]Record, error)
	// Commit makes the given records, all of the last Poll, never be read again by the group. After an error they may be
	// read again.
	Commit(ctx context.Context, records []Record) error
	// Close ends reading; what was not committed will be read again. Closing twice does nothing.
	Close()
}

// Recorded counts what became of letters; New + Repeated of them were given, Opened + Added are New.
type Recorded struct {
	// New letters were stored now, Repeated ones had been stored before.
	New, Repeated int
	// Opened is the number of investigations that were opened, Added that of further letters that were
	// added to a pending one.
	Opened, Added int
}

func (r Recorded) plus(o Recorded) Recorded {
	return Recorded{r.New + o.New, r.Repeated + o.Repeated, r.Opened + o.Opened, r.Added + o.Added}
}

// Store keeps letters and opens investigations. It is safe for concurrent use.
type Store interface {
	// RecordLetters stores the letters whose ids it does not have yet. For each subject of them it opens an investigation
	// or adds to the pending one. All is in one transaction: an error means that either nothing or, where the outcome of
	// the commit is unknown, everything was stored. Calling it again with the same letters is safe. An error wraps
	// ErrLetter if and only if trying again cannot help.
	RecordLetters(ctx context.Context, letters []Letter) (Recorded, error)
}

// Filter selects investigations. Its zero value selects all. As JSON, operations are stored with it, by the names that the
// API has for its parameters.
type Filter struct {
	// Status, if not empty, is the only status wanted.
	Status Status `json:"resolution_status,omitempty"`
	// Reason, if not empty, is the only reason wanted.
	Reason Reason `json:"dlq_reason,omitempty"`
	// Subject's fields, where not empty, are the only type and id wanted. It is embedded for its JSON to be flat.
	Subject
	// Topic, if not empty, is the only topic wanted.
	Topic string `json:"topic,omitempty"`
	// ErrorCode, if not empty, is the only error code wanted.
	ErrorCode string `json:"error_code,omitempty"`
	// Group, if not uuid.Nil, is the only group wanted.
	Group uuid.UUID `json:"group,omitzero"`
	// Assignee, if not empty, is the only one wanted.
	Assignee string `json:"assignee,omitempty"`
	// Message, if not empty, is a part of the error message, in large or small letters.
	Message string `json:"reason,omitempty"`
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

// MaxLetters is how many letters Reader.Get returns at most.
const MaxLetters = 100

// Reader looks investigations up.
type Reader interface {
	// List returns the investigations that f selects, newest first and without their snapshots, and how
	// many there are in all; of more than ExactTotal, about how many. A Browser says which.
	List(ctx context.Context, f Filter) ([]Entry, int, error)
	// Get returns an investigation and its newest letters, newest first, at most MaxLetters of them;
	// Entry.Occurrences says how many there were. Keys and payloads of more than MaxSnapshotBytes are
	// left out of the letters: nil with a kind of Inline. An unknown id is an error that wraps ErrNotFound.
	Get(ctx context.Context, entry uuid.UUID) (Entry, []Letter, error)
}
