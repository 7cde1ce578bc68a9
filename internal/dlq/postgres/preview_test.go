package postgres

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// TestAPlanSaysWhereMessagesGo: an operation and a preview have the topics that the redrive then sends to: by default the
// retry topic of the group that failed. A preview changes nothing.
func TestAPlanSaysWhereMessagesGo(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"":               "[{orders 1 [] false false [] no broker was asked} {orders.billing.retry 2 [billing] true false [] no broker was asked}]",
		dlq.TargetOrigin: "[{orders 3 [billing] true false [] no broker was asked}]",
		"other":          "[{other 3 [billing] true false [] no broker was asked}]",
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
