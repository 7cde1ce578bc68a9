package dlq

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestPlanRelease: an outbox is asked about pending investigations of events alone, and a named source only about an event that the
// letter names.
func TestPlanRelease(t *testing.T) {
	t.Parallel()
	of := func(source string) func(*Candidate) { return func(c *Candidate) { c.Source = source } }
	for name, c := range map[string]struct {
		candidate *Candidate
		want      SkipReason
	}{
		"an event of the desk":            {candidate(1), ""},
		"an event of a source":            {candidate(1, of("orders")), ""},
		"it is closed":                    {candidate(1, func(c *Candidate) { c.Status = ManuallyResolved }), NotPending},
		"it is on its way":                {candidate(1, of("orders"), func(c *Candidate) { c.UnderWay = true }), AlreadyQueued},
		"a record of a source":            {record(1, of("orders")), NoKey},
		"its letter does not name it":     {candidate(1, of("orders"), func(c *Candidate) { c.OutboxID = nil }), EventGone},
		"the letter names no event":       {candidate(1, of("orders"), func(c *Candidate) { c.Event = uuid.Nil }), EventGone},
		"a closed one that is on its way": {candidate(1, func(c *Candidate) { c.Status, c.UnderWay = ManuallyResolved, true }), NotPending},
	} {
		p := PlanRelease(ReleaseRequest{Entries: []uuid.UUID{c.candidate.Entry}, Actor: "ada"}, []*Candidate{c.candidate})
		if got := p.Candidates[0].Skip; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if p.Request.Actor != "ada" {
			t.Errorf("%s: %+v", name, p.Request)
		}
	}
}

// TestReleaseCheck: who asks must be named, and no investigation twice.
func TestReleaseCheck(t *testing.T) {
	t.Parallel()
	right := ReleaseRequest{Entries: []uuid.UUID{planID(1)}, Wait: time.Second, Actor: "ada"}
	if err := right.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*ReleaseRequest){
		"actor": func(r *ReleaseRequest) { r.Actor = "" },
		"twice": func(r *ReleaseRequest) { r.Entries = []uuid.UUID{planID(1), planID(1)} },
	} {
		r := right
		change(&r)
		if err := r.Check(); err == nil || !strings.Contains(strings.ToLower(err.Error()), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
