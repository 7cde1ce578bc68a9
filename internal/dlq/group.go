package dlq

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// GroupState says where a group of investigations stands.
type GroupState string

const (
	// GroupNew: seen for less than a day, and no operator has acted on it.
	GroupNew GroupState = "new"
	// GroupOngoing: some of it is pending.
	GroupOngoing GroupState = "ongoing"
	// GroupRegressed: it came back after all of it had been closed.
	GroupRegressed GroupState = "regressed"
	// GroupResolved: none of it is pending.
	GroupResolved GroupState = "resolved"
	// GroupMuted: operators do not want to hear of it, until a time or for good.
	GroupMuted GroupState = "muted"
)

// GroupStates returns every state.
func GroupStates() []GroupState {
	return []GroupState{GroupNew, GroupOngoing, GroupRegressed, GroupResolved, GroupMuted}
}

// Group is the investigations of one cause.
type Group struct {
	UUID        uuid.UUID
	Fingerprint string
	// Version is the rule that made the fingerprint.
	Version int
	// Parts are what the fingerprint is of.
	Parts Parts
	// Title is Parts.Title.
	Title string
	Topic string
	// Word is the reason in one word; see the function Word.
	Word  string
	State GroupState
	// MutedUntil is when a muted group becomes ongoing again; zero is never.
	MutedUntil time.Time
	// Total is how many investigations it ever had, Entries how many were not purged, Pending how many of these are
	// open.
	Total, Entries, Pending int64
	// Source is the source of all of its investigations.
	Source string
	// Occurrences counts the letters of the investigations that were not purged.
	Occurrences int64
	// FirstSeenAt and LastSeenAt are when the first and the newest of its letters failed.
	FirstSeenAt, LastSeenAt time.Time
	// ResolvedThrough is when it was last resolved; what failed before does not make it regressed.
	ResolvedThrough time.Time
	// LastEntryUUID is its newest investigation; uuid.Nil when all are purged.
	LastEntryUUID        uuid.UUID
	Assignee, Note       string
	CreatedAt, UpdatedAt time.Time
	// MergedInto is the group in which its new investigations are opened, after people merged it into that; uuid.Nil
	// otherwise.
	MergedInto uuid.UUID
}

// GroupOrder is what groups are listed by.
type GroupOrder string

// What groups are listed by.
const (
	// GroupsByWorst: open before muted before resolved ones; of the open ones, groups that failed in the last two hours before
	// others; then by how many of its investigations are open.
	GroupsByWorst     GroupOrder = "worst"
	GroupsByLastSeen  GroupOrder = "last_seen_at"
	GroupsByFirstSeen GroupOrder = "first_seen_at"
	GroupsByPending   GroupOrder = "pending"
	GroupsByTotal     GroupOrder = "total"
)

// GroupOrders returns every order.
func GroupOrders() []GroupOrder {
	return []GroupOrder{GroupsByWorst, GroupsByLastSeen, GroupsByFirstSeen, GroupsByPending, GroupsByTotal}
}

// GroupSearch asks for one page of a list of groups.
type GroupSearch struct {
	// State, Source, Topic, ErrorCode and Assignee, where not empty, are the only ones wanted.
	State                              GroupState
	Source, Topic, ErrorCode, Assignee string
	// Text, if not empty, is a part of the title, the error code, the topic or the template, in large or small letters.
	Text string
	// OrderBy defaults to GroupsByLastSeen.
	OrderBy GroupOrder
	// Ascending lists the smallest first. Defaults to false.
	Ascending bool
	// After is the Next of the page before, in the same order. Defaults to the beginning.
	After string
	// Limit is how many to return, at most MaxLimit. Defaults to DefaultLimit.
	Limit int
}

// Check reports why a search is invalid, and sets the defaults.
func (s *GroupSearch) Check() error {
	switch {
	case s.State != "" && !slices.Contains(GroupStates(), s.State):
		return fmt.Errorf("%w: there is no state %q of groups; it is one of %v", ErrRequest, s.State, GroupStates())
	case s.Source != "" && !ValidSource(s.Source):
		return refuseSource(s.Source)
	case s.OrderBy != "" && !slices.Contains(GroupOrders(), s.OrderBy):
		return fmt.Errorf("%w: groups are not ordered by %q; it is one of %v", ErrRequest, s.OrderBy, GroupOrders())
	case s.Limit < 0 || s.Limit > MaxLimit:
		return fmt.Errorf("%w: the limit is %d, it must be 1 to %d", ErrRequest, s.Limit, MaxLimit)
	}
	for _, text := range []string{s.Topic, s.ErrorCode, s.Assignee, s.Text} {
		if err := plain("a filter", text, MaxFilterText); err != nil {
			return err
		}
	}
	if s.OrderBy == "" {
		s.OrderBy = GroupsByLastSeen
	}
	if s.Limit == 0 {
		s.Limit = DefaultLimit
	}
	return nil
}

// GroupPage is one page of a list of groups.
type GroupPage struct {
	Groups []Group
	// Total is how many there are on all pages.
	Total int64
	// Next goes into GroupSearch.After for the page that follows; empty on the last.
	Next string
}

// GroupDetail is a group with what helps to understand it.
type GroupDetail struct {
	Group
	// Why says, part by part, why its investigations are in one group.
	Why []string
	// Recommended is the investigation to look at first: the newest pending one whose letter has its payload, else
	// the newest.
	Recommended uuid.UUID
	// Statuses counts its investigations.
	Statuses map[Status]int64
	// Hours counts them by the hour in which they were opened, the oldest first, for the last GroupHours.
	Hours []HourCount
	// Partitions counts the letters of its newest investigations, GroupSample at most, by where they were read.
	Partitions []PartitionCount
	// Variants are its messages, told apart by their narrower fingerprints, the newest first: at most GroupVariants, of its newest
	// GroupSample investigations.
	Variants []GroupVariant
	// Related are other groups of its source, of the same error code or topic, that are not resolved, the newest first, at most GroupRelated.
	Related []Group
}

// Bounds of GroupDetail, and of the closings of a group.
const (
	GroupHours    = 72
	GroupSample   = 200
	GroupRelated  = 10
	GroupVariants = 5
	GroupClosings = 5
)

// GroupVariant is one of the messages of a group.
type GroupVariant struct {
	// Message is the error message of its newest investigation, at most 500 characters.
	Message string
	// Entries is how many of the newest GroupSample investigations of the group have it.
	Entries int64
	// Newest is its newest investigation, and OpenedAt is when that was opened.
	Newest   uuid.UUID
	OpenedAt time.Time
}

// Closing is how investigations of a group were closed: by one person, in the same words, within a minute.
type Closing struct {
	Status    Status
	Notes, By string
	// Entries is how many of the newest GroupSample closed investigations it closed.
	Entries         int64
	FirstAt, LastAt time.Time
}

// HourCount is how many investigations were opened in an hour.
type HourCount struct {
	Hour   time.Time
	Opened int64
}

// SourceCount is how many investigations of a source were opened in a minute.
type SourceCount struct {
	Minute time.Time
	Source string
	Opened int64
}

// PartitionCount is how many letters came from a partition: of the topic that the message came from, where the
// letter says so, otherwise of the dead-letter topic.
type PartitionCount struct {
	Topic     string
	Partition int32
	Letters   int64
}

// GroupChange changes the note, the assignee and the muting of a group. Fields that are nil stay as they are.
type GroupChange struct {
	// Note is free text; empty takes it away.
	Note *string
	// Assignee is the person who looks at it; empty means no person.
	Assignee *string
	// IfAssignee is with whom it must be until now, as in Change. Defaults to nil: with whomever it is.
	IfAssignee *string
	// Muted mutes it or ends that.
	Muted *bool
	// MutedUntil is when muting ends by itself; zero is never. It goes with Muted.
	MutedUntil time.Time
	// Actor is who changes it. Required.
	Actor string
}

// Check reports why a change is invalid.
func (c GroupChange) Check() error {
	switch {
	case c.Actor == "":
		return fmt.Errorf("%w: the actor is missing", ErrRequest)
	case c.Note == nil && c.Assignee == nil && c.Muted == nil:
		return fmt.Errorf("%w: nothing is to be changed", ErrRequest)
	case c.IfAssignee != nil && c.Assignee == nil:
		return fmt.Errorf("%w: if_assignee goes with assignee", ErrRequest)
	case !c.MutedUntil.IsZero() && (c.Muted == nil || !*c.Muted):
		return fmt.Errorf("%w: muted_until goes with muted", ErrRequest)
	case !storableTime(c.MutedUntil).Equal(c.MutedUntil):
		return fmt.Errorf("%w: muted_until must be in the years 1 to 9999", ErrRequest)
	}
	if c.Note != nil {
		if err := plain("note", *c.Note, MaxNotes); err != nil {
			return err
		}
	}
	if c.Assignee != nil {
		return plain("assignee", *c.Assignee, MaxName)
	}
	return nil
}

// GroupResolution closes the pending investigations of a group.
type GroupResolution struct {
	// Status defaults to ManuallyResolved.
	Status Status
	// Notes are written into each. Defaults to none.
	Notes string
	// ResolvedBy defaults to Actor.
	ResolvedBy string
	// Until leaves alone the investigations that were opened later: the operator has not seen them. Defaults to now.
	Until time.Time
	// Actor is who closes them. Required.
	Actor string
}

// Check reports why it is invalid, and sets the defaults.
func (r *GroupResolution) Check() error {
	if r.Status == "" {
		r.Status = ManuallyResolved
	}
	if r.ResolvedBy == "" {
		r.ResolvedBy = r.Actor
	}
	switch {
	case r.Actor == "":
		return fmt.Errorf("%w: the actor is missing", ErrRequest)
	case r.Status == Pending || !slices.Contains(Statuses(), r.Status):
		return fmt.Errorf("%w: investigations are not closed as %q; it is one of %v", ErrRequest, r.Status, Statuses()[1:])
	case !storableTime(r.Until).Equal(r.Until):
		return fmt.Errorf("%w: until must be in the years 1 to 9999", ErrRequest)
	}
	if err := plain("resolution_notes", r.Notes, MaxNotes); err != nil {
		return err
	}
	return plain("resolved_by", r.ResolvedBy, MaxName)
}

// MaxGroupResolve is how many investigations ResolveGroup closes at once; more is the work of an operation.
const MaxGroupResolve = 10_000

// ResolvedGroup says what a GroupResolution did.
type ResolvedGroup struct {
	// Closed is how many investigations were closed.
	Closed int
	// Left is how many of the investigations meant are still pending. If there are more than MaxGroupResolve, ask again. If
	// a redrive of some is on its way, the redrive decides about them.
	Left int64
	// Until is the cut-off time that counted.
	Until time.Time
}

// MaxFilterText is how long the text of a filter may be, in bytes.
const MaxFilterText = 1024

// plain refuses what a text column would.
func plain(name, text string, limit int) error {
	switch {
	case len(text) > limit:
		return fmt.Errorf("%w: %s has %d bytes; it must have at most %d", ErrRequest, name, len(text), limit)
	case storableText(text, limit) != text:
		return fmt.Errorf("%w: %s must be UTF-8 text without NUL characters", ErrRequest, name)
	}
	return nil
}
