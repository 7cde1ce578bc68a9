package api

import (
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// Rejoin says what leads a source back, or what did.
type Rejoin struct {
	// Source is the name of the source.
	Source string `json:"source"`
	// Reason is why it is stopped: rewound (its database was set back), desk_rewound (that of the desk was), identity (another
	// database has its name) or forgotten; null where it is not.
	Reason *dlq.StopReason `json:"reason"`
	// Copied says that its database is another one than the one that was named: it was moved, or is a copy.
	Copied bool `json:"copied"`
	// Done says that it was led back now.
	Done bool `json:"done"`
	// Undone are commands that the source answered and that are undone in it.
	Undone []UndoneCommand `json:"undone"`
	// Acts is what the source did for this desk, and the desk does not know.
	Acts []SourceAct `json:"acts"`
	// MissingLetters is how many redrives among these are of events whose dead letters the desk does not have.
	MissingLetters int `json:"missing_letters"`
	// Forgotten is how many redrives the desk has forgotten: people can redrive them again, where they have not arrived.
	Forgotten int64 `json:"forgotten"`
	// Again is how many commands to close are sent again.
	Again int64 `json:"again"`
	// Noted is how many redrives of the source the desk has noted.
	Noted int64 `json:"noted"`
}

// UndoneCommand is a command that a source answered, and that it does not know any more.
type UndoneCommand struct {
	Command
	// Outcome is what had become of the redrive: delivered (its topic has it), came_back or unknown; null where that was not seen.
	Outcome *string `json:"outcome"`
}

// SourceAct is what a source did for its desk.
type SourceAct struct {
	// Command is the id of the command.
	Command uuid.UUID `json:"command"`
	// Answer is in_place, new (both a redrive), closed or released.
	Answer string `json:"answer"`
	// OutboxID is the number of the event in the source.
	OutboxID int64 `json:"outbox_id"`
	// EventID is the event.
	EventID uuid.UUID `json:"event_id"`
	// Episode is how often the event had been given up.
	Episode int32 `json:"episode"`
	// Actor is the person or program that asked for it.
	Actor string `json:"actor"`
	// At is when, by the clock of the source.
	At time.Time `json:"at"`
	// HasLetter says that the desk has the dead letter of the event.
	HasLetter bool `json:"has_letter"`
}

// NewRejoin is a dlq.Rejoin as it is shown.
func NewRejoin(r dlq.Rejoin) Rejoin {
	v := Rejoin{Source: r.Source, Reason: OrNull(r.Reason), Copied: r.Copied, Done: r.Done, Undone: []UndoneCommand{}, Acts: []SourceAct{},
		MissingLetters: r.MissingLetters(), Forgotten: r.Forgotten, Again: r.Again, Noted: r.Noted}
	for _, u := range r.Undone {
		v.Undone = append(v.Undone, UndoneCommand{NewCommand(u.SourceCommand), OrNull(u.Outcome)})
	}
	for _, a := range r.Acts {
		v.Acts = append(v.Acts, SourceAct{a.Command, a.Answer, a.OutboxID, a.Event, a.Episode, a.Actor, Time(a.At), a.HasLetter})
	}
	return v
}

// ForgottenSource says what came of forgetting a source.
type ForgottenSource struct {
	// Source is the name of the source.
	Source string `json:"source"`
	// Commands is how many commands were abandoned now.
	Commands int64 `json:"commands"`
	// Redrives is how many redrives were on their way: what became of them is unknown.
	Redrives int64 `json:"redrives"`
	// ForgottenAt is when it was forgotten first.
	ForgottenAt time.Time `json:"forgotten_at"`
}

// NewForgottenSource is a dlq.ForgottenSource as it is shown.
func NewForgottenSource(f dlq.ForgottenSource) ForgottenSource {
	return ForgottenSource{f.Source, f.Commands, f.Redrives, Time(f.Since)}
}
