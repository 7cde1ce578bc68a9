package dlq

import (
	"time"

	"github.com/google/uuid"
)

// CommandKind is what a command asks for.
type CommandKind string

const (
	// CommandRedrive: send an event again.
	CommandRedrive CommandKind = "redrive"
	// CommandClose: the investigation is closed or gone. The source may remove the event, and lets the key go that it halts.
	CommandClose CommandKind = "close"
	// CommandRelease: let the key go that the event halts, and keep the event.
	CommandRelease CommandKind = "release"
)

// CommandKinds returns every kind.
func CommandKinds() []CommandKind { return []CommandKind{CommandRedrive, CommandClose, CommandRelease} }

// CommandState says whether a source has answered a command.
type CommandState string

const (
	// CommandWaiting: the source has not answered yet.
	CommandWaiting CommandState = "waiting"
	// CommandAnswered: it has.
	CommandAnswered CommandState = "answered"
)

// CommandStates returns every state.
func CommandStates() []CommandState { return []CommandState{CommandWaiting, CommandAnswered} }

// What a source answers. Every other answer is the SkipReason for which it did nothing.
const (
	// AnswerInPlace: the event was redriven in its place.
	AnswerInPlace = "in_place"
	// AnswerNew: its message was sent as a new event.
	AnswerNew = "new"
	// AnswerClosed: the event was closed.
	AnswerClosed = "closed"
	// AnswerReleased: the key that the event halts goes on.
	AnswerReleased = "released"
	// AnswerAbandoned: the source was forgotten before it answered.
	AnswerAbandoned = "abandoned"
	// AnswerUndone: the source had answered, and was set back to a time before.
	AnswerUndone = "undone"
	// AnswerBusy: the relay has the event or its key in work. This is no answer yet: the command is sent again.
	AnswerBusy = "busy"
)

// ActAnswer reports whether an answer says that the source acted. It answers an act the same when it is asked again; a refusal
// leaves nothing behind there, and is judged again.
func ActAnswer(answer string) bool {
	switch answer {
	case AnswerInPlace, AnswerNew, AnswerClosed, AnswerReleased:
		return true
	}
	return false
}

// SourceCommand is what the desk wants done to an event of another source, in the database of that.
type SourceCommand struct {
	// UUID is its identity, by which the source knows that it has obeyed.
	UUID uuid.UUID
	// Number is its place among the commands: they are sent to a source in this order.
	Number int64
	// Source is who is to obey.
	Source string
	Kind   CommandKind
	// Entry is the investigation that it follows from; it may be gone by now.
	Entry uuid.UUID
	// Redrive is the id of the redrive; empty for other commands.
	Redrive string
	// OutboxID, Event and Episode are the event as the letter says it. The source does nothing if it has moved on.
	OutboxID int64
	Event    uuid.UUID
	Episode  int32
	Actor    string
	// CreatedAt is when it was asked for; AnsweredAt is zero until the source has answered.
	CreatedAt, AnsweredAt time.Time
	// Answer is what the source answered, and Detail why it refused, in its words; empty until then.
	Answer, Detail string
}

// CommandFilter selects commands. Its zero value selects all.
type CommandFilter struct {
	// Source is the source; empty for all.
	Source string
	// State is waiting or answered; empty for both.
	State CommandState
	// Before is a SourceCommand.Number: only earlier commands are selected. 0 is no limit.
	Before int64
	// Limit is how many are returned at most, the newest first. Required.
	Limit int
}

// WaitingCommands says how many commands a source has not answered.
type WaitingCommands struct {
	Source string
	Count  int64
	// Oldest is when the oldest of them was asked for.
	Oldest time.Time
}

// sourcePatience is how long a command waits until its source counts as away.
const sourcePatience = 10 * time.Second

// Away reports whether the source counts as away: it has left a command unanswered for too long. busy is when it last said
// that it could not obey yet.
func (w WaitingCommands) Away(busy, now time.Time) bool {
	return w.Count > 0 && now.Sub(w.Oldest) > sourcePatience && now.Sub(busy) > sourcePatience
}
