package postgres

import (
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
)

// wantFollowed wants this of one call of Follow.
func (r *redriving) wantFollowed(when string, want dlq.Followed) {
	r.t.Helper()
	if f, err := r.Follow(r.t.Context(), 1, true); err != nil || f != want {
		r.t.Fatalf("%s: %+v, %v", when, f, err)
	}
}

// TestADeliveredRedriveClosesItsInvestigation however its event went, and no other investigation.
func TestADeliveredRedriveClosesItsInvestigation(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(*redriving){
		"delivered":       func(r *redriving) { r.settleSent(outboxtest.Published, 2) },
		"taken since":     func(r *redriving) { r.deliverAndForget(2) },
		"after it waited": func(r *redriving) { r.settleSent(outboxtest.Scheduled, 2); r.settleAll(outboxtest.Published) },
		"from a gap": func(r *redriving) {
			r.gap()
			r.wantFollowed("in a gap", dlq.Followed{})
			r.settleSent(outboxtest.Published, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRedriving(t)
			a, b, waiting := r.die(1, nil), r.die(2, nil), r.die(4, nil)
			r.redrive(a, b)
			r.wantFollowed("before it was sent", dlq.Followed{})
			settle(r)
			for delivered, more := 0, true; delivered < 2; { // a slow call leaves the rest to the next one, and says so
				f, err := r.Follow(t.Context(), 1, true)
				if delivered += f.Delivered; err != nil || !more || delivered > 2 {
					t.Fatalf("%d delivered, %+v, %v", delivered, f, err)
				}
				more = f.More
			}
			for _, entry := range []uuid.UUID{a, b} {
				if status, by := r.status(entry); status != dlq.ManuallyResolved || by != "postrider" {
					t.Errorf("%s by %q", status, by)
				}
			}
			if status, _ := r.status(waiting); status != dlq.Pending {
				t.Errorf("another one is %s", status)
			}
			if f, err := r.Follow(t.Context(), 1, true); err != nil || f != (dlq.Followed{}) {
				t.Errorf("once more: %+v, %v", f, err)
			}
		})
	}
}
