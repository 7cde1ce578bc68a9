package console

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// TestStatesBehindPointers: fields that may be null are pointers, and a page shows the word behind them.
func TestStatesBehindPointers(t *testing.T) {
	t.Parallel()
	state := dlq.RedriveState("delivered")
	if got := statusWords(&state).Word; got != "Arrived" {
		t.Errorf("a pointer to delivered is %q", got)
	}
}

// TestPayloadsThatAreBytes: bytes that are no text are shown, and as hexadecimal digits.
func TestPayloadsThatAreBytes(t *testing.T) {
	t.Parallel()
	v := showCarried(carried{Payload: json.RawMessage(`{"base64":"/wDDKA=="}`), PayloadEncoding: "base64"}, "")
	if v.None != "" || v.As != "hex" || len(v.Pieces) != 1 || !strings.Contains(v.Pieces[0].Text, "ff 00 c3 28") {
		t.Errorf("%+v", v)
	}
	if got := keyText(carried{Key: json.RawMessage(`{"base64":"/w=="}`)}); got != "\xff" {
		t.Errorf("the key is %q", got)
	}
}

// TestHeadersThatAFormWouldChange are not put into a form: what it sent would be others.
func TestHeadersThatAFormWouldChange(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`[["a","1"],["b","x: y"]]`: "a: 1\nb: x: y", `[["a",null]]`: "", `[["a",{"base64":"AAH/"}]]`: "", `[["urn:x","1"]]`: "", `[[" a","1"]]`: "", `[["","1"]]`: "",
	} {
		if got := headerLines(json.RawMessage(raw)); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// TestEndsAreTold: a redrive is well only when all of it arrived, and a plan that would send nothing cannot be started.
func TestEndsAreTold(t *testing.T) {
	t.Parallel()
	group, now := uuid.New(), time.Now()
	ended := api.Operation{Kind: dlq.OpRedrive, State: dlq.Completed, Name: "n", Items: 4, StartedAt: &now, FinishedAt: &now, Scope: api.Scope{Group: &group}}
	with := func(change func(*api.Operation)) *operationView {
		o := ended
		change(&o)
		return viewOperation(o)
	}
	all := with(func(o *api.Operation) { o.Done, o.Delivered = 4, 4 })
	if all.Words.Word != "Done" || all.Say.Mark != "fine" || all.Road[4].State != "done" {
		t.Errorf("all arrived: %+v %+v %+v", all.Words, all.Say, all.Road[4])
	}
	for name, c := range map[string]struct {
		v    *operationView
		word string
		at   int // the step that it ended in
	}{
		"none":             {with(func(o *api.Operation) { o.Skipped = 4 }), "None arrived", 3},
		"none of a canary": {with(func(o *api.Operation) { o.Skipped, o.Options.Canary = 4, 2 }), "None arrived", 2},
		"all came":         {with(func(o *api.Operation) { o.Done, o.CameBack = 4, 4 }), "None arrived", 4},
		"one came":         {with(func(o *api.Operation) { o.Done, o.Delivered, o.CameBack = 4, 3, 1 }), "Done in part", 4},
	} {
		if step := c.v.Road[c.at]; c.v.Words.Word != c.word || c.v.Say.Mark != "failing" || step.State != "ended" || step.Held {
			t.Errorf("%s: %+v %+v %+v", name, c.v.Words, c.v.Say, c.v.Road)
		}
		for _, behind := range c.v.Road[c.at+1:] {
			if behind.State != "" {
				t.Errorf("%s: behind its end, %+v", name, behind)
			}
		}
	}
	plan := with(func(o *api.Operation) {
		o.State, o.StartedAt, o.FinishedAt, o.Plan.Unreadable, o.Options.Canary = dlq.Planned, nil, nil, 4, 2
	})
	address, err := url.Parse(plan.Again)
	if err != nil || plan.CanStart || plan.Say.Mark != "held" || address.Query().Get("group") != group.String() || address.Query().Get("canary") != "2" {
		t.Errorf("a plan that sends nothing: %v, %+v, %q", plan.CanStart, plan.Say, plan.Again)
	}
	mended := with(func(o *api.Operation) {
		o.State, o.StartedAt, o.FinishedAt, o.Plan.Unreadable, o.Options.Headers = dlq.Planned, nil, nil, 4, [][]string{{"a", "1"}}
	})
	if !mended.CanStart {
		t.Error("a plan with headers cannot be started")
	}
}

// TestAnEndedOperationAgreesWithItsItems: no page says that all arrived while the outcome of one is not known, that all is done
// while one was skipped, or that an item waits for a turn that never comes.
func TestAnEndedOperationAgreesWithItsItems(t *testing.T) {
	t.Parallel()
	now := time.Now()
	of := func(kind dlq.OperationKind, state dlq.OperationState, done, skipped, failed, delivered, back int64) *operationView {
		return viewOperation(api.Operation{Kind: kind, State: state, Name: "n", Items: 4, Done: done, Skipped: skipped, Failed: failed, Delivered: delivered, CameBack: back, StartedAt: &now, FinishedAt: &now})
	}
	for _, c := range []struct {
		v               *operationView
		says, mark, was string
	}{
		{of(dlq.OpRedrive, dlq.Completed, 4, 0, 0, 4, 0), "n is done: all 4 arrived.", "fine", "Done"},
		{of(dlq.OpRedrive, dlq.Completed, 4, 0, 0, 2, 0), "n ended: 2 of 4 arrived, 0 failed again, 0 were not sent, 2 are still on the way.", "waiting", "Done in part"},
		{of(dlq.OpRedrive, dlq.Completed, 3, 1, 0, 2, 1), "n ended: 2 of 4 arrived, 1 failed again, 1 was not sent.", "failing", "Done in part"},
		{of(dlq.OpRedrive, dlq.Completed, 3, 0, 1, 2, 0), "n ended: 2 of 4 arrived, 0 failed again, 1 was not sent, 1 is still on the way.", "waiting", "Done in part"},
		{of(dlq.OpRedrive, dlq.Completed, 4, 0, 0, 0, 0), "n ended: 0 of 4 arrived, 0 failed again, 0 were not sent, 4 are still on the way.", "waiting", "Done in part"},
		{of(dlq.OpRedrive, dlq.Aborted, 3, 0, 0, 1, 1), "n was ended: of 4 messages, 3 were sent; 1 arrived, 1 failed again, 1 is still on the way.", "failing", "Ended"},
		{of(dlq.OpResolve, dlq.Completed, 4, 0, 0, 0, 0), "n is done: 4 of 4.", "fine", "Done"},
		{of(dlq.OpResolve, dlq.Completed, 3, 1, 0, 0, 0), "n ended: 3 of 4 investigations were closed, 1 was not.", "quiet", "Done in part"},
		{of(dlq.OpResolve, dlq.Completed, 0, 4, 0, 0, 0), "n ended: 0 of 4 investigations were closed, 4 were not.", "quiet", "Nothing done"},
		{of(dlq.OpPurge, dlq.Completed, 1, 2, 1, 0, 0), "n ended: 1 of 4 investigations was removed, 3 were not.", "quiet", "Done in part"},
	} {
		if c.v.Say.Text != c.says || c.v.Say.Mark != c.mark || c.v.Words.Word != c.was {
			t.Errorf("it says %q (%s, %s), want %q (%s, %s)", c.v.Say.Text, c.v.Say.Mark, c.v.Words.Word, c.says, c.mark, c.was)
		}
		if strings.Contains(c.v.Say.More, "closed") || strings.Contains(c.v.Say.More, "open as before") {
			t.Errorf("it says of investigations that others may have treated: %q", c.v.Say.More)
		}
		if last := c.v.Shares[len(c.v.Shares)-1]; last.Name != "Left out" {
			t.Errorf("what has not been treated is %q", last.Name)
		}
		waiting := itemWords(c.v.Operation, api.OperationItem{State: dlq.ItemWaiting})
		arrived := itemWords(c.v.Operation, api.OperationItem{State: dlq.ItemDone, Outcome: new(dlq.ItemDelivered)})
		if waiting.Word != "Left out" || arrived.Word != "Arrived" {
			t.Errorf("the items are %q and %q", waiting.Word, arrived.Word)
		}
	}
	if words := itemWords(api.Operation{State: dlq.Running}, api.OperationItem{State: dlq.ItemWaiting}); words.Word != "Waits" {
		t.Errorf("an item of an operation that goes on is %q", words.Word)
	}
}
