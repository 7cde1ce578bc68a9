package relay

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Store is what the relay needs of the database.
type Store interface {
	// Lead begins a term, or returns nil when another relay leads. The leadership must be ended by End.
	Lead(ctx context.Context, worker string) (Leadership, error)
	// ClaimLetters locks up to limit exhausted events that are free and due, oldest first within each
	// topic, and whose dead-letter topic is not held; letterTopic returns the dead-letter topic for an event's topic.
	// It returns nil when there are none. Any relay may call it, a standby too.
	ClaimLetters(ctx context.Context, letterTopic func(topic string) string, limit int) (LetterClaim, error)
	Purger
	BacklogReader
}

// ErrNotLeading is wrapped by the error of a leadership that is over: another relay leads, or the session that held it
// is gone.
var ErrNotLeading = errors.New("this relay does not lead the outbox any more")

// Leadership is one term: the time in which one relay reads the log, and no other.
type Leadership interface {
	// Began is where the term begins.
	Began() Began
	// Lost is closed when the session that leads is known to be gone.
	Lost() <-chan struct{}
	// Sure reports whether the session that leads answered lately enough that no other relay can lead. Without it
	// nothing is sent.
	Sure() bool
	// Read reads the gaps that it is given and what lies behind a position, in one statement.
	Read(ctx context.Context, q Question) (Page, error)
	// Glance says whether there is anything to do, where the log was read up to a position and has no gaps. It costs less
	// than any other question, and needs no further connection where the session that leads can be asked. Without all it
	// asks for events behind the position alone, which costs half.
	Glance(ctx context.Context, position int64, all bool) (Glance, error)
	// Look finds out the newest id, and then the transactions that may still commit an id up to it.
	Look(ctx context.Context) (Look, error)
	// Settle writes receipts, in order, in one transaction. After an error the outcome is unknown: the term is over,
	// and the next one begins where the newest receipt is. The database must be sure that the session which led when
	// the events were read is alive; otherwise the error wraps ErrNotLeading.
	Settle(ctx context.Context, rs []*Receipt) error
	// DueHolds returns holds that are due for a probe, that drain, or for which an operator asked something, at most limit
	// of each. It also returns how long nothing more is due, as far as the database knows.
	DueHolds(ctx context.Context, limit int) ([]DueHold, time.Duration, error)
	// Take puts parked events of holds, and scheduled events that are due, in hand: people leave them alone until a
	// receipt says what became of them. Scheduled events that others have in hand are passed over. If others have a parked
	// event in hand, nothing behind it is taken from its hold.
	Take(ctx context.Context, t Taking) ([]Taken, error)
	// HoldIDs returns n ids for holds that are to be put in place.
	HoldIDs(ctx context.Context, n int) ([]int64, error)
	// ResolveSkips does what was asked of events that the position has passed: it gives up the events that wait, and forgets
	// the requests for events that have gone.
	ResolveSkips(ctx context.Context) error
	// End hands over: a standby may lead at once. With ctx ended it only lets go.
	End(ctx context.Context)
}

// Glance is what there is to do in an outbox.
type Glance struct {
	// Events says that there are events behind the position, or that ids stand below it.
	Events bool
	// Tend says that holds or scheduled events are due, or that people asked something of holds or events.
	Tend bool
	// Letters says that events wait for their dead-letter topics, held or not.
	Letters bool
	// Waits says that there are holds or scheduled events, due or not.
	Waits bool
}

// Began is where a term begins.
type Began struct {
	// Number is the number of the receipt that begins the term; Term counts the terms.
	Number, Term int64
	// Position is the highest id that was disposed of, and Gaps the ids below it that may still come.
	Position int64
	Gaps     Ranges
	// Holds are all holds that there are, except the holds of dead-letter topics.
	Holds []Hold
	// Deaths is how many terms have ended one after the other without handing over and without getting further than a few
	// batches, since the last that got further.
	Deaths int
	// Trying is the event that was tried alone when relays died last, and Tried how often; 0 where none was.
	Trying int64
	Tried  int
}

// Question is what a read asks for.
type Question struct {
	// Gaps are read first, then what lies behind Position.
	Gaps     Ranges
	Position int64
	// Events is how many to read of each at most; Bytes is about how many bytes of keys and payloads. One event is read
	// in any case.
	Events int
	Bytes  int64
}

// Page is what one statement saw.
type Page struct {
	Snapshot Snapshot
	// Now is the time by the database's clock.
	Now time.Time
	// Events are in the order of ids; the first Filled of them were in gaps.
	Events []Event
	Filled int
	// Complete says that all rows in the gaps were read. Otherwise there is nothing from behind the position.
	Complete bool
	// More says that there is more behind the position.
	More bool
	// Skips are the reasons, by id, for which people asked to give up events that the log still has before it.
	Skips map[int64]string
}

// Receipt is what became of a batch, or of some exceptions.
type Receipt struct {
	// Position is the highest id that is disposed of now; 0 leaves it.
	Position int64
	// Events were disposed of: acknowledged, or made exceptions here. Forgotten never come. Gaps are the gaps that are left;
	// nil is not written down, and follows from the receipts before.
	Events, Forgotten, Gaps Ranges
	// Sent counts the events that their topics acknowledged.
	Sent int
	// Trying is the event that is tried alone next.
	Trying int64

	// Holds are put in place or changed, before Exceptions refers to them; Ended go, after.
	Holds []HoldChange
	Ended []int64
	// Exceptions did not simply go. Gone are exceptions that their topics acknowledged. Putback are exceptions that
	// were taken and stay as they are.
	Exceptions []Exception
	Gone       []int64
	Putback    []int64
	// Tasks are the events of tasks among Events, by which they are found later.
	Tasks []TaskEvent
	// Skipped are events of Page.Skips that are given up here.
	Skipped []int64
}

// Plain reports whether a receipt only moves the position.
func (r *Receipt) Plain() bool {
	return len(r.Holds)+len(r.Ended)+len(r.Exceptions)+len(r.Gone)+len(r.Putback)+len(r.Skipped) == 0 && r.Trying == 0
}

// rows is how many exceptions a receipt writes or removes.
func (r *Receipt) rows() int { return len(r.Exceptions) + len(r.Gone) + len(r.Putback) }

// TaskEvent is an event of a task.
type TaskEvent struct {
	ID       int64
	TaskUUID uuid.UUID
}

// Counts is what a receipt comes to.
type Counts struct{ Processed, Failed, Exhausted, Scheduled, Parked int }

// Counts counts the events of a receipt. Failed are the events that failed now by their own fault, or were given up.
func (r *Receipt) Counts() (c Counts) {
	c.Processed = r.Sent + len(r.Exceptions)
	for i := range r.Exceptions {
		x := &r.Exceptions[i]
		if x.Failure.Class != "" {
			c.Failed++
		}
		switch x.State {
		case Exhausted:
			c.Exhausted++
		case Scheduled:
			c.Scheduled++
		case Parked:
			c.Parked++
		}
	}
	return c
}

// Exception is an event that does not simply go.
type Exception struct {
	ID      int64
	EventID uuid.UUID
	Topic   string
	// State is Scheduled, Parked or Exhausted.
	State State
	// Hold keeps a parked event.
	Hold int64
	// In is how long a scheduled event waits; zero waits for the event's own available_at.
	In time.Duration
	// Attempts is how many failed by now, of MaxAttempts, which is 0 where none did and the event has no limit of its own.
	Attempts, MaxAttempts int
	// Failure is the failure of this attempt; its Class is empty where the event did not fail.
	Failure Failure
	// TaskUUID is the linked task, or uuid.Nil.
	TaskUUID uuid.UUID
}

// DueHold is a hold to be looked after.
type DueHold struct {
	ID int64
	// Probe says that it is due for a probe.
	Probe bool
	// Asked is what an operator asked for: AskedRelease, AskedGiveUp, or nothing.
	Asked string
}

// The requests that an operator can make of a hold.
const (
	AskedRelease = "release"
	AskedGiveUp  = "give_up"
)

// Taking says which exceptions to take.
type Taking struct {
	// Holds are the holds whose parked events are taken, in the order of ids.
	Holds []TakingHold
	// Scheduled is how many of the scheduled events that are due are taken at most.
	Scheduled int
	// Bytes is about how many bytes of keys and payloads there may be; one event is taken in any case.
	Bytes int64
}

// TakingHold says how many parked events of a hold are taken at most: events with ids behind After, and up to Until unless
// that is 0.
type TakingHold struct {
	ID, After, Until int64
	Events           int
}

// Taken is an exception in hand.
type Taken struct {
	Event Event
	// Hold is the hold that kept the event; 0 for a scheduled event.
	Hold int64
	// Left says that there is no event: the hold has some and none could be taken now, because another session has the
	// first one locked, or it did not fit.
	Left bool
}
