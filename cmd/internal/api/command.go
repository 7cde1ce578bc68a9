package api

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// Command is what the desk wants done to an event of another source, in the database of that.
type Command struct {
	// ID is the command. The source has it in its audit log, as command.
	ID uuid.UUID `json:"id"`
	// Source is the source that is to obey.
	Source string `json:"source"`
	// Kind is redrive (send the event again), close (its investigation is closed or gone: the source may remove the event, and
	// lets the key go that it halts) or release (let the key go, and keep the event).
	Kind dlq.CommandKind `json:"kind"`
	// State is waiting or answered.
	State dlq.CommandState `json:"state"`
	// EntryID is the investigation that it follows from; it may be gone by now.
	EntryID uuid.UUID `json:"entry_id"`
	// RedriveID is the redrive; null for other commands.
	RedriveID *string `json:"redrive_id"`
	// OutboxID is the number of the event in the source.
	OutboxID int64 `json:"outbox_id"`
	// EventID is the event.
	EventID uuid.UUID `json:"event_id"`
	// Episode is how often the event had been given up. The source does nothing with an event that has moved on since.
	Episode int32 `json:"episode"`
	// Actor is the person or program that asked for it.
	Actor string `json:"actor"`
	// CreatedAt is when it was asked for.
	CreatedAt time.Time `json:"created_at"`
	// AnsweredAt is when the source had answered; null until then.
	AnsweredAt *time.Time `json:"answered_at"`
	// Answer is in_place, new, closed, released, abandoned (the source was forgotten before it answered), undone (it was set back after it had), or why nothing was done: a reason as in skipped of POST /dlq/requeue. Null until the source
	// has answered.
	Answer *string `json:"answer"`
	// Detail is why the source refused, in its words; null where it did not.
	Detail *string `json:"detail"`
}

// NewCommand is a command as it is shown.
func NewCommand(c dlq.SourceCommand) Command {
	v := Command{ID: c.UUID, Source: c.Source, Kind: c.Kind, State: dlq.CommandWaiting, EntryID: c.Entry, RedriveID: OrNull(c.Redrive), OutboxID: c.OutboxID,
		EventID: c.Event, Episode: c.Episode, Actor: c.Actor, CreatedAt: Time(c.CreatedAt), Answer: OrNull(c.Answer), Detail: OrNull(c.Detail)}
	if !c.AnsweredAt.IsZero() {
		at := Time(c.AnsweredAt)
		v.State, v.AnsweredAt = dlq.CommandAnswered, &at
	}
	return v
}

// CommandPlace is where a list of commands goes on behind one.
func CommandPlace(c dlq.SourceCommand) string { return strconv.FormatInt(c.Number, 10) }
