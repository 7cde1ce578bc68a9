package api

import (
	"time"

	"github.com/postrider/postrider/internal/dlq"
)

// Source is a database whose outbox is carried beside that of database.url, as one look at it found it.
type Source struct {
	// Name is the name of the source.
	Name string `json:"name"`
	// Database is its address, without a password.
	Database string `json:"database"`
	// Origin is where it stands in the settings, FILE:LINE.
	Origin string `json:"origin"`
	// OK says that it can be carried.
	OK bool `json:"ok"`
	// Reason is why it cannot be carried, in a word; null where it can.
	Reason *string `json:"reason"`
	// Error is why it cannot be carried, in full; null where it can.
	Error *string `json:"error"`
	// Led says that a relay leads it now.
	Led bool `json:"led"`
	// Leader is the relay that led it last; null where none did.
	Leader *string `json:"leader"`
	// LedSince is when that began; null where none did.
	LedSince *time.Time `json:"led_since"`
	// Pending is how many events wait for their turn.
	Pending int64 `json:"pending"`
	// Parked is how many events wait behind a hold.
	Parked int64 `json:"parked"`
	// Scheduled is how many events wait for their next attempt, or for their time.
	Scheduled int64 `json:"scheduled"`
	// Exhausted is how many events are given up, and wait for their dead letter to arrive.
	Exhausted int64 `json:"exhausted"`
	// DeadLettered is how many events are given up, and stay until their investigation is closed.
	DeadLettered int64 `json:"dead_lettered"`
	// Holds is how many holds there are.
	Holds int64 `json:"holds"`
	// OldestDueSeconds is the age of the oldest event that should have gone by now; 0 where there is none.
	OldestDueSeconds float64 `json:"oldest_due_seconds"`
	// WaitingCommands is how many commands of the desk it has not answered; null where no desk was asked.
	WaitingCommands *int64 `json:"waiting_commands"`
	// OldestCommandAt is when the oldest of these was written; null where there is none.
	OldestCommandAt *time.Time `json:"oldest_command_at"`
	// Desk is the identity of the desk that it obeys; null where none has commanded it yet, and where it cannot be carried.
	Desk *string `json:"desk"`
	// OtherDesk says that this is another desk than the one that was asked: it refuses the commands of that one. False where no
	// desk was asked.
	OtherDesk bool `json:"other_desk"`
}

// Sources are the sources that the settings name, as one look at each found them.
type Sources struct {
	List[Source]
	// LookedAt is when the look began.
	LookedAt time.Time `json:"looked_at"`
	// Removed are sources that the desk knows and the settings do not name.
	Removed []RemovedSource `json:"removed"`
}

// RemovedSource is a source that the desk knows and the settings do not name.
type RemovedSource struct {
	// Name is the name of the source.
	Name string `json:"name"`
	// ForgottenAt is when people said that it is gone for good; null where they did not.
	ForgottenAt *time.Time `json:"forgotten_at"`
	// WaitingCommands is how many commands of the desk it has not answered.
	WaitingCommands int64 `json:"waiting_commands"`
	// Pending is how many of its investigations are open.
	Pending int64 `json:"pending"`
}

// NewRemovedSource is a source that the desk knows, as it is shown.
func NewRemovedSource(k dlq.KnownSource) RemovedSource {
	v := RemovedSource{Name: k.Name, WaitingCommands: k.Waiting, Pending: k.Pending}
	if k.Stopped == dlq.StopForgotten {
		v.ForgottenAt = TimeOrNull(k.StoppedAt)
	}
	return v
}

// OtherSource is the name of a source that is not the desk's own database; empty for that.
func OtherSource(source string) string {
	if source == dlq.MainSource {
		return ""
	}
	return source
}
