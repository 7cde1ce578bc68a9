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
	for name, v := range map[string]*operationView{
		"none":     with(func(o *api.Operation) { o.Skipped = 4 }),
		"one came": with(func(o *api.Operation) { o.Done, o.Delivered, o.CameBack = 4, 3, 1 }),
	} {
		if v.Words.Word != "Done in part" || v.Say.Mark != "failing" || v.Road[4].State == "done" || !v.Road[4].Held {
			t.Errorf("%s: %+v %+v %+v", name, v.Words, v.Say, v.Road[4])
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
