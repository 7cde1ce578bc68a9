package postgres

import (
	"errors"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
)

// TestAnOperationIsAboutWhatItsFilterFinds: no part of a filter is forgotten when a scope is frozen.
func TestAnOperationIsAboutWhatItsFilterFinds(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	all := various(t, r.subject, 120)
	var one dlq.Entry
	for _, e := range all {
		if e.Assignee != "" && e.ErrorCode != "" && e.Status == dlq.Pending {
			one = e
		}
	}
	for name, f := range map[string]dlq.Filter{
		"error code": {ErrorCode: one.ErrorCode}, "assignee": {Assignee: one.Assignee}, "message": {Message: "NETWORK time"}, "wildcard": {Message: "_"},
		"group": {Group: one.GroupUUID}, "from": {From: one.CreatedAt}, "to": {To: one.CreatedAt}, "topic": {Topic: one.Topic}, "reason": {Reason: one.Reason},
		"subject": {Subject: one.Subject},
	} {
		pending := f
		pending.Status = dlq.Pending
		want := len(answer(dlq.Search{Filter: pending}, all))
		o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpResolve, Name: name, Actor: "ada", Scope: dlq.Scope{Filter: &f}})
		if err != nil || int(o.Plan.Items) != want || want == 0 || want == len(all) {
			t.Errorf("%s: %d of %d investigations, want %d, %v", name, o.Plan.Items, len(all), want, err)
		}
	}
	// A purge may be about closed investigations; to be sent or closed, they must be pending.
	for _, status := range dlq.Statuses() {
		want := len(answer(dlq.Search{Filter: dlq.Filter{Status: status}}, all))
		scope := dlq.Scope{Filter: &dlq.Filter{Status: status}}
		o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpPurge, Name: "purge " + string(status), Actor: "ada", Scope: scope})
		if err != nil || int(o.Plan.Items) != want || want == 0 || want == len(all) {
			t.Errorf("purging what is %s: %d of %d investigations, want %d, %v", status, o.Plan.Items, len(all), want, err)
		}
		for _, kind := range []dlq.OperationKind{dlq.OpRedrive, dlq.OpResolve} {
			o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: kind, Name: string(kind), Actor: "ada", Scope: scope})
			if status == dlq.Pending && (err != nil || int(o.Plan.Items) != want) || status != dlq.Pending && !errors.Is(err, dlq.ErrRequest) {
				t.Errorf("%s of what is %s: %d investigations, %v", kind, status, o.Plan.Items, err)
			}
		}
	}
	for name, f := range map[string]dlq.Filter{"status": {Status: "open"}, "reason": {Reason: "x"}, "text": {Message: "\x00"}, "times": {From: one.CreatedAt, To: one.CreatedAt.Add(-1e9)}} {
		if _, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpPurge, Name: "n", Actor: "ada", Scope: dlq.Scope{Filter: &f}}); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("a bad %s: %v", name, err)
		}
	}
}

// TestOneNameAtATime: of many callers that plan under one name at once, one succeeds.
func TestOneNameAtATime(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(3)
	const planners = 8
	errs := make(chan error, planners)
	for range planners {
		go func() {
			_, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpRedrive, Name: "n", Actor: "a", Scope: all})
			errs <- err
		}()
	}
	planned := 0
	for range planners {
		if err := <-errs; err == nil {
			planned++
		} else if !errors.Is(err, dlq.ErrExists) {
			t.Error(err)
		}
	}
	if planned != 1 {
		t.Errorf("%d were planned", planned)
	}
}
