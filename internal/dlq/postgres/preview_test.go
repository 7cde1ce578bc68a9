package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// TestAPlanSaysWhereMessagesGo: an operation and a preview have the topics that the redrive then sends to: by default the
// retry topic of the group that failed. A preview changes nothing.
func TestAPlanSaysWhereMessagesGo(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"":               "[{orders 1 [] false false [] [] 0 false no broker was asked} {orders.billing.retry 2 [billing] true false [] [] 0 false no broker was asked}]",
		dlq.TargetOrigin: "[{orders 3 [billing] true false [] [] 0 false no broker was asked}]",
		"other":          "[{other 3 [billing] true false [] [] 0 false no broker was asked}]",
	} {
		r := newRedriving(t)
		entries := []uuid.UUID{r.die(1, nil), r.record(dlq.Decode(givenUpBy(t, "billing", 5, dlq.Place{}))), r.record(dlq.Decode(givenUpBy(t, "billing", 6, dlq.Place{})))}
		o := r.plan(all, dlq.OperationOptions{Target: target})
		if got := fmt.Sprint(o.Reaches); got != want {
			t.Errorf("%q: the plan says %s, want %s", target, got, want)
		}
		req := dlq.RedriveRequest{Entries: entries, Target: target, Actor: "ada"}
		before := len(r.audit.actions)
		would, err := r.Preview(t.Context(), req)
		if got := fmt.Sprint(would.Reaches); err != nil || got != want || len(would.Entries) != 3 || len(r.sent()) != 0 || len(r.audit.actions) != before {
			t.Errorf("%q: the preview says %s, %v; %d were sent", target, got, err, len(r.sent()))
		}
		done, err := r.Redrive(t.Context(), req)
		if got := fmt.Sprint(done.Reaches); err != nil || got != want {
			t.Errorf("%q: the redrive says %s, %v", target, got, err)
		}
		sent := map[string]int{}
		for _, e := range r.sent() {
			sent[e.Topic]++
		}
		for _, reach := range done.Reaches {
			if int64(sent[reach.Topic]) != reach.Messages {
				t.Errorf("%q: sent %v, said %+v", target, sent, done.Reaches)
			}
		}
		again, err := r.Preview(t.Context(), req)
		if err != nil || len(again.Skipped) != 3 || again.Skipped[0].Reason != dlq.AlreadyQueued {
			t.Errorf("%q: once more: %+v, %v", target, again, err)
		}
	}
}

// leftAlone makes investigations, and some are left alone, for reasons that the letters and the outbox tell. It returns
// all of them, and these reasons.
func (r *redriving) leftAlone() (entries []uuid.UUID, reasons map[dlq.SkipReason]int64) {
	r.t.Helper()
	large := func(l *dlq.Letter) { l.Payload = bytes.Repeat([]byte("x"), 1025) }
	refers := func(l *dlq.Letter) { l.Payload, l.PayloadKind = nil, dlq.Reference }
	entries = []uuid.UUID{r.die(1, nil), r.die(2, refers), r.die(3, large), r.dieUnreadable(4), r.die(5, nil),
		r.record(dlq.Decode(givenUpBy(r.t, "billing", 6, dlq.Place{}))), r.die(7, refers)}
	mustExec(r.t, r.subject.pool, `delete from postrider.outbox_exception where event_id = $1`, dlqtest.EventID(2))
	mustExec(r.t, r.subject.pool, `delete from postrider.outbox_event where event_id = $1`, dlqtest.EventID(2))
	mustExec(r.t, r.subject.pool, `select postrider.outbox_set_max_payload_bytes(1024)`)
	return entries, map[dlq.SkipReason]int64{dlq.EventGone: 1, dlq.PayloadTooLarge: 1, dlq.UnreadableHeaders: 1}
}

// settingsSeen notes the settings of the planner, and the timeout, with which items are foreseen and the plan is made.
type settingsSeen struct {
	Exceptions
	Auditor
	foreseeing, behind string
}

const plannerSettings = `select concat_ws(' ', current_setting('enable_seqscan'), current_setting('enable_hashjoin'),
	current_setting('enable_mergejoin'), current_setting('statement_timeout'))`

func (s *settingsSeen) Halting(ctx context.Context, tx pgx.Tx, ids []int64) (halting, behind []int64, err error) {
	if err := tx.QueryRow(ctx, plannerSettings).Scan(&s.foreseeing); err != nil {
		return nil, nil, err
	}
	return s.Exceptions.Halting(ctx, tx, ids)
}

func (s *settingsSeen) Audit(ctx context.Context, tx pgx.Tx, actor, action, targetType, targetID string, sources []string, details any) error {
	if err := tx.QueryRow(ctx, plannerSettings).Scan(&s.behind); err != nil {
		return err
	}
	return s.Auditor.Audit(ctx, tx, actor, action, targetType, targetID, sources, details)
}

// TestItemsAreForeseenByTheirKeys: the statements for single items do not rely on statistics; the ones about the whole scope
// may join as they like. None runs without an end.
func TestItemsAreForeseenByTheirKeys(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(2)
	seen := &settingsSeen{Exceptions: r.exceptions, Auditor: r.Redriver.audit}
	r.exceptions, r.Redriver.audit = seen, seen
	r.plan(all, dlq.OperationOptions{Target: "elsewhere"})
	if seen.foreseeing != "off off off 1min" || seen.behind != "on on on 2min" {
		t.Errorf("items are foreseen with %q, the plan is made with %q", seen.foreseeing, seen.behind)
	}
}

// TestAPreviewNamesWhatIsLeftAlone: the preview, the plan of an operation and the redrive say the same, by reason.
func TestAPreviewNamesWhatIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries, want := r.leftAlone()
	count := func(done dlq.Requeued) map[dlq.SkipReason]int64 {
		reasons := map[dlq.SkipReason]int64{}
		for _, s := range done.Skipped {
			reasons[s.Reason]++
		}
		return reasons
	}
	req := dlq.RedriveRequest{Entries: entries, Actor: "ada"}
	would, err := r.Preview(t.Context(), req)
	if err != nil || !maps.Equal(count(would), want) || len(would.Entries) != 4 {
		t.Errorf("the preview says %+v, %v; want %v", would, err, want)
	}
	if o := r.plan(dlq.Scope{Entries: entries}, dlq.OperationOptions{}); !maps.Equal(o.Plan.LeftOut, want) || o.Plan.Foreseen != int64(len(entries)) {
		t.Errorf("the plan says %+v, want %v of %d", o.Plan, want, len(entries))
	}
	edited := dlq.RedriveRequest{Entries: entries[2:3], Actor: "ada", Edit: &dlq.Edit{Payload: []byte("small")}}
	if would, err := r.Preview(t.Context(), edited); err != nil || len(would.Entries) != 1 {
		t.Errorf("a smaller payload: %+v, %v", would, err)
	}
	edited.Edit.Payload = make([]byte, 1025)
	if would, err := r.Preview(t.Context(), edited); err != nil || len(would.Skipped) != 1 || would.Skipped[0].Reason != dlq.PayloadTooLarge {
		t.Errorf("a payload that is too large: %+v, %v", would, err)
	}
	done, err := r.Redrive(t.Context(), req)
	if err != nil || !maps.Equal(count(done), want) || !slices.Equal(done.Entries, would.Entries) {
		t.Errorf("the redrive says %+v, %v; want %v", done, err, want)
	}
}

// TestAPlanNamesHeadersThatStayBroken: a repair of one header leaves the messages of a mixed group alone that have another
// one, and the plan counts them.
func TestAPlanNamesHeadersThatStayBroken(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	other := r.die(2, func(l *dlq.Letter) {
		l.Headers = []message.Header{{Name: message.HeaderInvalidHeaders, Value: []byte(`{"priority": 5, "trace": 6}`)}}
	})
	entries := []uuid.UUID{r.dieUnreadable(1), other}
	o := r.plan(dlq.Scope{Entries: entries}, dlq.OperationOptions{Headers: [][]string{{"priority", "5"}}})
	if want := map[dlq.SkipReason]int64{dlq.UnreadableHeaders: 1}; !maps.Equal(o.Plan.LeftOut, want) || o.Plan.Unreadable != 2 {
		t.Errorf("%+v", o.Plan)
	}
	r.command(o.UUID, dlq.Start)
	r.step()
	if items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{State: dlq.ItemSkipped}, 0, 10); err != nil || len(items) != 1 || items[0].Entry != other {
		t.Errorf("%+v, %v", items, err)
	}
}

// TestPlansKnowEachOther: a plan names the operations, not ended, that have yet to treat its investigations.
func TestPlansKnowEachOther(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(6)
	plan := func(name string, entries ...uuid.UUID) dlq.Operation {
		t.Helper()
		o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpResolve, Name: name, Actor: "ada", Scope: dlq.Scope{Entries: entries}})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	first := plan("first", entries[:4]...)
	if first.Plan.Overlapping != 0 || len(first.Plan.Overlaps) != 0 {
		t.Errorf("the first one: %+v", first.Plan)
	}
	second := plan("second", entries[3:5]...)
	third := plan("third", entries[1:]...)
	if p := third.Plan; p.Overlapping != 4 || !slices.Equal(p.Overlaps, []dlq.Overlap{{UUID: first.UUID, Name: "first", State: dlq.Planned, Items: 3}, {UUID: second.UUID, Name: "second", State: dlq.Planned, Items: 2}}) {
		t.Errorf("%+v", p)
	}
	r.command(first.UUID, dlq.Start)
	r.step()
	r.command(second.UUID, dlq.Abort)
	if p := plan("fourth", entries[0], entries[1], entries[2], entries[5]).Plan; p.Overlapping != 3 || len(p.Overlaps) != 1 || p.Overlaps[0].Name != "third" {
		t.Errorf("what was treated, or was aborted: %+v", p)
	}
}

// TestACanaryFitsItsPlan: a canary that is larger than the scope would hold nothing back.
func TestACanaryFitsItsPlan(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(3)
	_, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpRedrive, Name: "n", Actor: "ada", Scope: all, Options: dlq.OperationOptions{Canary: 4}})
	if !errors.Is(err, dlq.ErrRequest) || !strings.Contains(err.Error(), "the canary is 4, and 3 investigations") {
		t.Errorf("%v", err)
	}
	if o := r.plan(all, dlq.OperationOptions{Canary: 3}); o.Items != 3 {
		t.Errorf("%+v", o)
	}
}
