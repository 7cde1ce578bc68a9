package dlq

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// ErrClosed is wrapped by errors about changing the status of an investigation that is closed: a closed one is never
// re-opened, and keeps its outcome.
var ErrClosed = errors.New("it is closed already")

// ErrUnderWay is wrapped by errors about closing an investigation whose message is on its way again: its outcome is not
// known yet. A redrive that is delivered closes it; one that does not arrive can be given up (postrider outbox skip).
var ErrUnderWay = errors.New("a redrive of it is on its way (" + string(AlreadyQueued) + "); wait for what becomes of that, or give its event up")

// ErrHoldsKey is wrapped by errors about purging an investigation whose event halts its key.
var ErrHoldsKey = errors.New("the investigation holds a key")

// Change changes the status, notes, metadata or assignee of an investigation. Fields that are nil stay as they are.
type Change struct {
	// Status closes a pending investigation.
	Status *Status
	// Notes and ResolvedBy may be changed at any time. ResolvedBy defaults to Actor when Status closes it.
	Notes, ResolvedBy *string
	// Metadata replaces the metadata there: a JSON object; an empty one takes it away.
	Metadata json.RawMessage
	// Assignee is the person who looks at it; empty means no person.
	Assignee *string
	// IfAssignee is with whom it must be until now: of two people who take it at once, one gets it. Empty means with no person.
	// It goes with Assignee. Defaults to nil: with whomever it is.
	IfAssignee *string
	// Actor is who changes it. Required.
	Actor string
}

// ErrTaken is wrapped by errors about what is with another person than the one who was expected.
var ErrTaken = errors.New("it is with another person")

// NotTaken reports why what is with a person cannot become the assignee's. What is with the assignee already can.
func NotTaken(is string, expected, assignee *string) error {
	if expected == nil || is == *expected || is == *assignee {
		return nil
	}
	with := func(name string) string {
		if name == "" {
			return "unassigned"
		}
		return fmt.Sprintf("with %q", name)
	}
	return fmt.Errorf("%w: %s, and was expected %s; look again before you take it", ErrTaken, with(is), with(*expected))
}

// Bounds of the texts that are written into investigations, in bytes.
const (
	MaxNotes    = 16 << 10
	MaxName     = 255
	MaxMetadata = 64 << 10
)

// Check reports why a change is invalid.
func (c Change) Check() error {
	switch {
	case c.Actor == "":
		return fmt.Errorf("%w: the actor is missing", ErrRequest)
	case c.Status != nil && !slices.Contains(Statuses(), *c.Status):
		return fmt.Errorf("%w: resolution_status %q is not known; it is one of %v", ErrRequest, *c.Status, Statuses())
	case c.Status == nil && c.Notes == nil && c.ResolvedBy == nil && c.Metadata == nil && c.Assignee == nil:
		return fmt.Errorf("%w: nothing is to be changed", ErrRequest)
	case c.IfAssignee != nil && c.Assignee == nil:
		return fmt.Errorf("%w: if_assignee goes with assignee", ErrRequest)
	case c.Metadata != nil && (len(c.Metadata) > MaxMetadata || !isObject(c.Metadata)):
		return fmt.Errorf("%w: metadata must be a JSON object of at most %d bytes, without NUL characters", ErrRequest, MaxMetadata)
	}
	for _, text := range []struct {
		name  string
		value *string
		limit int
	}{{"resolution_notes", c.Notes, MaxNotes}, {"resolved_by", c.ResolvedBy, MaxName}, {"assignee", c.Assignee, MaxName}} {
		if text.value != nil {
			if err := plain(text.name, *text.value, text.limit); err != nil {
				return err
			}
		}
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	_, object := v.(map[string]any)
	return object && storableJSON(raw)
}

// MaxPurge is how many investigations a Purge removes at most; more is the work of an operation.
const MaxPurge = 10_000

// Purge removes investigations with the messages of their dead letters. The ids of the letters stay, so that a late copy
// opens nothing.
type Purge struct {
	// Entries are the investigations, or nil; then OlderThan says which.
	Entries []uuid.UUID
	// OlderThan selects investigations that were opened before. Zero if Entries are given.
	OlderThan time.Time
	// Filter selects among the investigations that OlderThan selects. Its To, limit and offset do not count. Defaults to all
	// of them.
	Filter Filter
	// Limit is how many to remove at most, the oldest first. With OlderThan, investigations that hold a key or that another
	// session has locked are passed over, but no more than ten times as many. 1 to MaxPurge. Required.
	Limit int
	// ReleaseKeys releases the keys that investigations hold. Without it, investigations that hold a key are refused, or
	// passed over where OlderThan selects. Defaults to false.
	ReleaseKeys bool
	// Actor is who removes them. Required.
	Actor string
}

// Check reports why a purge is invalid.
func (p Purge) Check() error {
	switch {
	case p.Actor == "":
		return fmt.Errorf("%w: the actor is missing", ErrRequest)
	case (len(p.Entries) > 0) == !p.OlderThan.IsZero():
		return fmt.Errorf("%w: give either ids or older_than", ErrRequest)
	case len(p.Entries) > 0 && p.Filter != (Filter{}):
		return fmt.Errorf("%w: a filter goes with older_than, not with ids", ErrRequest)
	case p.Limit < 1 || p.Limit > MaxPurge:
		return fmt.Errorf("%w: the limit is %d, it must be 1 to %d; an operation of the kind purge removes more", ErrRequest, p.Limit, MaxPurge)
	case len(p.Entries) > p.Limit:
		return fmt.Errorf("%w: %d ids are given; at most %d are purged at once", ErrRequest, len(p.Entries), p.Limit)
	}
	search := Search{Filter: p.Filter}
	search.Filter.Limit, search.Filter.Offset = 0, 0
	return search.Check()
}

// Purged says what a purge did.
type Purged struct {
	// Entries is how many investigations were removed.
	Entries int
	// Holding is how many were passed over because they hold a key.
	Holding int
	// Left is how many more OlderThan and the filter select, with the ones that were passed over, if OlderThan was given. LeftExact says whether that was counted,
	// and is no estimate; see Page.Total.
	Left      int64
	LeftExact bool
}
