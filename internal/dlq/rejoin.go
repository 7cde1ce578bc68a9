package dlq

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// StopReason is why nothing is sent for a source, and nothing to it, until people lead it back.
type StopReason string

const (
	// StopRewound: the database of the source was set back: it lacks what the desk has seen of it.
	StopRewound StopReason = "rewound"
	// StopDeskRewound: the database of the desk was set back: the source has obeyed what the desk does not know.
	StopDeskRewound StopReason = "desk_rewound"
	// StopIdentity: another database has the name of the source.
	StopIdentity StopReason = "identity"
	// StopForgotten: people said that the source is gone for good, and it is in the settings again.
	StopForgotten StopReason = "forgotten"
)

// StopReasons returns every reason.
func StopReasons() []StopReason {
	return []StopReason{StopRewound, StopDeskRewound, StopIdentity, StopForgotten}
}

// StoppedError says that a source is stopped.
type StoppedError struct {
	Source string
	Reason StopReason
	// Detail is what was seen, where that is known.
	Detail string
}

func (e *StoppedError) Error() string {
	says := map[StopReason]string{
		StopRewound:     "its database was set back to an earlier time: it lacks what the desk has seen of it",
		StopDeskRewound: "the database of the desk was set back to an earlier time: the source has obeyed what the desk does not know",
		StopIdentity:    "another database has its name",
		StopForgotten:   "it was forgotten",
	}[e.Reason]
	if e.Detail != "" {
		says += " (" + e.Detail + ")"
	}
	return fmt.Sprintf("the source %s is stopped: %s; `postrider sources rejoin %s --dry-run` says what leads it back", e.Source, says, e.Source)
}

// KnownSource is a source as the desk knows it.
type KnownSource struct {
	Name string
	// Stopped is why it is stopped; empty if it is not.
	Stopped StopReason
	// StoppedAt is since when; zero if it is not.
	StoppedAt time.Time
	// Waiting is how many commands it has not answered.
	Waiting int64
	// Pending is how many of its investigations are open.
	Pending int64
}

// SourceAct is what a source did for its desk, by its audit log.
type SourceAct struct {
	// Command is the id of the command.
	Command uuid.UUID
	// Answer is AnswerInPlace, AnswerNew, AnswerClosed or AnswerReleased.
	Answer string
	// OutboxID, Event and Episode are the event that it was done to.
	OutboxID int64
	Event    uuid.UUID
	Episode  int32
	// Sent is outbox_event.id of the event that carries the message, of a redrive.
	Sent int64
	// Actor is who asked for it.
	Actor string
	// At is when, by the clock of the source.
	At time.Time
	// Known says that the desk has the command. HasLetter says that it has the dead letter of the event.
	Known, HasLetter bool
}

// UndoneCommand is a command that a source answered, and that it does not know any more.
type UndoneCommand struct {
	SourceCommand
	// Outcome is what became of the redrive, as far as the desk saw it: delivered, came_back, unknown, or empty.
	Outcome string
}

// Rejoin says what leads a source back, or what did.
type Rejoin struct {
	Source string
	// Reason is why it is stopped; empty where it is not.
	Reason StopReason
	// Copied says that the database is another one than the one that was named: it was moved, or is a copy.
	Copied bool
	// Undone are commands that the source answered and that are undone in it, in the order in which they were asked for.
	Undone []UndoneCommand
	// Acts is what the source did and the desk does not know, in order.
	Acts []SourceAct
	// Done says that it was done, and is no plan.
	Done bool
	// Forgotten is how many redrives are undone now, and can be asked for again. Again is how many commands to close are
	// sent again. Noted is how many redrives of the source the desk has noted.
	Forgotten, Again, Noted int64
}

// Nothing reports whether there is nothing to lead back.
func (r Rejoin) Nothing() bool {
	return r.Reason == "" && !r.Copied && len(r.Undone) == 0 && len(r.Acts) == 0
}

// MissingLetters is how many redrives the source did about events whose dead letters the desk does not have.
func (r Rejoin) MissingLetters() (n int) {
	for _, a := range r.Acts {
		if !a.HasLetter && a.Sent > 0 {
			n++
		}
	}
	return n
}

// RejoinRequest asks for a source to be led back.
type RejoinRequest struct {
	// Desk is the identity of this desk. Source is the name of the source.
	Desk, Source string
	// WithoutLetters also leads it back where the desk does not have the dead letters of what the source redrove: what is
	// redriven of them may then be sent twice.
	WithoutLetters bool
	// Actor is who asks.
	Actor string
}

// ForgottenSource says what came of forgetting a source.
type ForgottenSource struct {
	Source string
	// Commands are abandoned now. Of Redrives is unknown now what became of them.
	Commands, Redrives int64
	// Since is when it was forgotten first.
	Since time.Time
}
