package dlq

import (
	"time"

	"github.com/google/uuid"
)

// ReleaseRequest asks to let the keys go that the events of investigations halt.
type ReleaseRequest struct {
	// Entries are the investigations, each once, MaxRedrive at most. Required.
	Entries []uuid.UUID
	// Wait is as in RedriveRequest.
	Wait time.Duration
	// Actor is who asks. Required.
	Actor string
}

func (r ReleaseRequest) redrive() RedriveRequest {
	return RedriveRequest{Entries: r.Entries, Wait: r.Wait, Actor: r.Actor}
}

// Check reports why a request is invalid.
func (r ReleaseRequest) Check() error { return r.redrive().Check() }

// PlanRelease decides what can be told without looking at an outbox. Whether an event halts a key its outbox alone knows.
func PlanRelease(req ReleaseRequest, candidates []*Candidate) *RedrivePlan {
	for _, c := range candidates {
		switch {
		case c.Status != Pending:
			c.Skip = NotPending
		case c.UnderWay:
			c.Skip = AlreadyQueued
		case isMain(c.Source):
		case c.Subject != SubjectEvent:
			c.Skip = NoKey
		case !c.namesEvent():
			c.Skip = EventGone
		}
	}
	return &RedrivePlan{Request: req.redrive(), Candidates: candidates}
}
