package postgres

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
)

// TestAnOperationHaltsAtTheFirst: with a ratio of 0 it halts at the first that comes back dead beyond the minimum.
func TestAnOperationHaltsAtTheFirst(t *testing.T) {
	t.Parallel()
	for _, minimum := range []int{1, 4} {
		r := newRedriving(t)
		r.many(12)
		o := r.plan(all, dlq.OperationOptions{HaltRatio: new(0.0), HaltMinimum: &minimum, Rate: 40})
		if ratio, at := o.Options.HaltsAt(); ratio != 0 || at != minimum {
			t.Errorf("planned: at %g of %d", ratio, at)
		}
		r.command(o.UUID, dlq.Start)
		r.step()
		r.dieAgain(minimum - 1)
		r.deliver(1)
		r.step()
		if o = r.operation(o.UUID); o.State != dlq.Running || o.Done != 8 || o.CameBack != int64(minimum-1) {
			t.Errorf("with a minimum of %d, before: %+v", minimum, o)
		}
		r.dieAgain(1)
		r.step()
		if o = r.operation(o.UUID); o.State != dlq.Halted || o.Done != 8 || o.CameBack != int64(minimum) || !strings.HasSuffix(o.Error, "came back dead, more than 0 of them") {
			t.Errorf("with a minimum of %d, at the first beyond: %+v", minimum, o)
		}
	}
}
