package dlq

import (
	"errors"
	"testing"
)

// TestPlansThatDoNothing: a plan of closed investigations is refused, except to remove them, and a redrive that skips all its items
// is known as one.
func TestPlansThatDoNothing(t *testing.T) {
	t.Parallel()
	for kind, refused := range map[OperationKind]bool{OpRedrive: true, OpResolve: true, OpPurge: false} {
		if err := kind.RefuseClosed(true, 3); errors.Is(err, ErrRequest) != refused {
			t.Errorf("%s of closed ones: %v", kind, err)
		}
		if err := kind.RefuseClosed(false, 3); err != nil {
			t.Errorf("%s of open ones: %v", kind, err)
		}
	}
	for _, c := range []struct {
		plan Plan
		all  bool
	}{
		{Plan{}, false},
		{Plan{Items: 3, LeftOut: map[SkipReason]int64{NotPending: 2}}, false},
		{Plan{Items: 3, LeftOut: map[SkipReason]int64{NotPending: 2, UnreadableHeaders: 1}}, true},
		{Plan{Items: 3, LeftOut: map[SkipReason]int64{NotPending: 2, Busy: 1}}, false}, // started later, it may send that one
		{Plan{Items: 1, LeftOut: map[SkipReason]int64{PayloadGone: 1}}, false},         // the record may be fetched meanwhile
		{Plan{Items: MaxForeseen + 1, Foreseen: MaxForeseen, LeftOut: map[SkipReason]int64{NotPending: MaxForeseen}}, false},
	} {
		if got := c.plan.SkipsAll(); got != c.all {
			t.Errorf("%+v skips all: %t", c.plan, got)
		}
	}
}
