package dlq

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// The ports of this room are here, each named after what it gives to the one that uses it. Kafka is behind Source and
// Originals, the database behind the others.

var (
	// ErrLetter is wrapped by an error of Letters when it refuses a letter for its content, so that storing the same again
	// cannot succeed. Every other error of Letters is taken as passing.
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

// Originals reads records by their places, for the Collector and the Fetcher.
type Originals interface {
	// Fetch asks for records, and answers for each in order. It takes as long as ctx allows at most; records that it could
	// not ask for by then are OriginalUnanswered.
	Fetch(ctx context.Context, places []Place) []Original
}

// ErrReadersRefused is wrapped by errors of Readers when the login may not ask.
var ErrReadersRefused = errors.New("the login of Kafka may not ask for consumer groups (Describe on groups)")

// Readers knows who reads topics, for Reaching.
type Readers interface {
	// Readers says who reads each of the topics: consumer groups with committed offsets or with members there. Groups that
	// the brokers do not list for this login are left out. A group that gives no answer hides no other one: it is named. An
	// error means that nothing is known. It takes as long as ctx allows at most.
	Readers(ctx context.Context, topics []string) (Reading, error)
}

// Reading is what brokers said about the readers of topics.
type Reading struct {
	// Groups are the consumer groups that read a topic, by topic.
	Groups map[string][]string
	// Unasked are the groups that could not be asked about, by name: each of them may read any of the topics.
	Unasked []UnaskedGroup
	// Unlisted is how many brokers did not say which groups they have.
	Unlisted int
	// Missing are the topics that do not exist.
	Missing []string
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

// Letters keeps letters and opens investigations, for the Collector. It is safe for concurrent use.
type Letters interface {
	// RecordLetters stores the letters whose ids it does not have yet. For each subject of them it opens an investigation
	// or adds to the pending one. All is in one transaction: an error means that either nothing or, where the outcome of
	// the commit is unknown, everything was stored. Calling it again with the same letters is safe. An error wraps
	// ErrLetter if and only if trying again cannot help.
	RecordLetters(ctx context.Context, letters []Letter) (Recorded, error)
}

// Pointers keeps letters that only point to a record, for the Fetcher.
type Pointers interface {
	// Pointing returns the newest letter of each of these investigations, if it points to a record whose bytes are not
	// here; of the others nothing. EntryUUID and the fields needed to ask for the record are set. An unknown id is an error
	// that wraps ErrNotFound.
	Pointing(ctx context.Context, entries []uuid.UUID) ([]Letter, error)
	// PointingNext is Pointing of the investigations that running operations are about to send again, of limit of each. It
	// leaves out letters for which asking again cannot help.
	PointingNext(ctx context.Context, limit int) ([]Letter, error)
	// Complete stores what became of asking, in one transaction with the audit log. A letter whose bytes are here by now
	// stays as it is.
	Complete(ctx context.Context, letters []Letter, actor string) error
}

// Investigations are what people look at and change. Each change is in one transaction with the audit log. An unknown id
// is an error that wraps ErrNotFound, an invalid request one that wraps ErrRequest; then nothing was changed.
type Investigations interface {
	Seer
	// Find returns a page of the investigations that a search asks for.
	Find(ctx context.Context, s Search) (Page, error)
	// Neighbours returns the investigations before and behind one in the list that a search asks for. The one itself need not
	// be in that list.
	Neighbours(ctx context.Context, entry uuid.UUID, s Search) (Neighbours, error)
	// Show returns one with its letters and redrives.
	Show(ctx context.Context, entry uuid.UUID) (Detail, error)
	// ShowTask returns the investigation of a task, or of an event of it: the newest that is pending, else the newest. When
	// there is none, the error wraps ErrNotFound.
	ShowTask(ctx context.Context, task uuid.UUID) (Detail, error)
	// Stats counts them.
	Stats(ctx context.Context) (Stats, error)
	// Reveal returns a letter with its own bytes, whatever the rules of redaction say; first the audit log notes who looks.
	// A message that the letter only refers to is read from its place. If it is no longer there, the kind stays Reference.
	Reveal(ctx context.Context, r RevealRequest) (Letter, error)
	// Change writes into an investigation, and returns it. Closing one whose event halts its key lets the key go. A change
	// of the status of a closed one is an error that wraps ErrClosed.
	Change(ctx context.Context, entry uuid.UUID, c Change) (Entry, error)
	// Purge removes investigations. One that holds a key is an error that wraps ErrHoldsKey; then nothing is removed.
	Purge(ctx context.Context, p Purge) (Purged, error)
	// Purgeable counts the investigations that OlderThan and the filter of p select, also the ones that hold keys. exact says
	// whether that was counted, and is no estimate; see Page.Total.
	Purgeable(ctx context.Context, p Purge) (total int64, exact bool, err error)

	// Comments returns the comments of a thread behind the comment after, the oldest first, at most limit of them.
	Comments(ctx context.Context, t Thread, after int64, limit int) ([]Comment, error)
	// AddComment writes a comment, and returns it.
	AddComment(ctx context.Context, n NewComment) (Comment, error)
	// DeleteComment takes away the text of a comment of the actor, and returns the rest, which stays in the thread.
	// Deleting again changes nothing. A comment of another person is an error that wraps ErrNotAuthor.
	DeleteComment(ctx context.Context, t Thread, comment int64, actor, actorID string) (Comment, error)

	// ListGroups returns a page of groups.
	ListGroups(ctx context.Context, s GroupSearch) (GroupPage, error)
	// ShowGroup returns one with what helps to understand it.
	ShowGroup(ctx context.Context, group uuid.UUID) (GroupDetail, error)
	// ChangeGroup writes about a group, and returns it.
	ChangeGroup(ctx context.Context, group uuid.UUID, c GroupChange) (Group, error)
	// ResolveGroup closes its pending investigations, the oldest first, at most MaxGroupResolve of them. Investigations
	// with a redrive on its way are left.
	ResolveGroup(ctx context.Context, group uuid.UUID, r GroupResolution) (ResolvedGroup, error)
	// GroupTasks returns a page of the tasks behind its pending investigations.
	GroupTasks(ctx context.Context, g GroupTasks) (GroupTasksPage, error)
	// MergeGroups puts the investigations of a group into another, at most MaxGroupMerge of them, and the ones that are opened
	// later.
	MergeGroups(ctx context.Context, m GroupMerge) (MergedGroup, error)
	// SplitGroup takes investigations out of a group and returns the groups that they are in then. If they cannot be told
	// from the others, the error wraps ErrAlike.
	SplitGroup(ctx context.Context, s GroupSplit) ([]Group, error)
}

// Redriver sends dead letters' messages again for people: a few at once, or many by an operation. An unknown id is an
// error that wraps ErrNotFound, an invalid request one that wraps ErrRequest; then nothing was changed.
type Redriver interface {
	// Redrive claims the investigations and writes their messages into the outbox, in their order per key, in
	// one transaction with the audit log. What comes from other sources these are asked to send, in the same transaction; then it
	// calls r.Written, and waits a moment for their answers.
	Redrive(ctx context.Context, r RedriveRequest) (Requeued, error)
	// Preview returns what Redrive would do as things stand, and does nothing: the messages that would be skipped with
	// their reasons, and the tasks that only a retry moves. Redrive alone finds what the outbox refuses for its content
	// (Refused), a key that the relay has in work (Busy), and an edit that would replace the only copy (OnlyCopy).
	Preview(ctx context.Context, r RedriveRequest) (Requeued, error)
	// Release lets the keys go that the events of investigations halt: the later events of the keys come back, in order. The events stay
	// given up, and the investigations open. Other sources are asked, as by Redrive. Investigations whose event halts no key are
	// skipped (NoKey).
	Release(ctx context.Context, r ReleaseRequest) (Requeued, error)

	// PlanOperation freezes the scope and returns the plan. Nothing is treated before Command says Start. If an operation
	// that has not ended has the name, the error wraps ErrExists and says which.
	PlanOperation(ctx context.Context, n NewOperation) (Operation, error)
	// Command changes the state of an operation. One that does not fit its state is an error that wraps ErrState. The audit
	// log has the reason, which may be empty.
	Command(ctx context.Context, id uuid.UUID, c Command, reason string) (Operation, error)
	// Commands returns the newest commands to other sources that the filter selects.
	Commands(ctx context.Context, f CommandFilter) ([]SourceCommand, error)
	// Operation returns one.
	Operation(ctx context.Context, id uuid.UUID) (Operation, error)
	// ListOperations returns the newest that the filter selects, at most limit of them. If after is not uuid.Nil, they are
	// operations that were planned before that one.
	ListOperations(ctx context.Context, f OperationFilter, after uuid.UUID, limit int) ([]Operation, error)
	// Items returns the items of an operation that the filter selects after a place, in order.
	Items(ctx context.Context, id uuid.UUID, f ItemFilter, after int64, limit int) ([]Item, error)
}

// Operations are what the Operator works on: the items of operations, and the redrives on their way.
type Operations interface {
	// Step treats the next batch of an operation that is due. It returns how many items were treated, and after
	// how long there may be more to do; 0 is at once, and negative when no operation waits.
	Step(ctx context.Context) (treated int, next time.Duration, err error)
	// Follow looks for what became of redriven messages, limit of them in a transaction: investigations of delivered
	// ones are closed, if resolve says so. It returns how many it has seen end. Where very many are on their way, a
	// call sees a part of them, and the next one goes on from there: at once, if Followed.More says so.
	Follow(ctx context.Context, limit int, resolve bool) (Followed, error)
}

// Standings is what a Watch reads, at a price that does not grow with the number of investigations.
type Standings interface {
	// Standing counts the pending investigations and the groups, at most limit of each state of groups; ages are of the
	// oldest investigations, at most limit.
	Standing(ctx context.Context, limit int) (Standing, error)
	// Closed returns investigations that changed after a place, at most limit of them, were closed after since and
	// are closed; and the place of the last that was looked at. more says that there may be further ones. From
	// nowhere it returns the place of now.
	Closed(ctx context.Context, from ClosedPlace, since time.Time, limit int) (closed []Closed, to ClosedPlace, more bool, err error)
	// Opened counts the groups that were made, or came back, after a time, and returns up to when it looked. From no time
	// it returns now.
	Opened(ctx context.Context, after time.Time) (n OpenedGroups, to time.Time, err error)
}
