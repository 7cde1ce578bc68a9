package relay

import (
	"context"
	"fmt"
	"time"
)

// returnBatch is how many events come back to a shard in one transaction.
const returnBatch = 1000

// returnHeld brings back what waited long enough: scheduled events, parked events behind draining
// holds, and one probe for each hold that is due.
func (r *Relay) returnHeld(ctx context.Context) (int, error) {
	// A probe that was let through has this long to show an outcome before the next one goes.
	grace := 2*r.cfg.PublishTimeout + 5*time.Second
	began := time.Now()
	got, err := r.cfg.Store.Return(ctx, returnBatch, grace)
	if got.Events > 0 || got.Holds > 0 {
		r.tracing.note(ctx, began, figures{action: actionReturn, batch: returnBatch, processed: got.Events, succeeded: got.Events}, err)
	}
	if err != nil {
		return 0, fmt.Errorf("return held events: %w", err)
	}
	r.returning.rest(got.Next)
	r.reminder.hear(r, got.Standstill)
	r.metrics.settled(actionReturn, got.Events)
	if got.Events > 0 {
		r.idle.busy(r.cfg.BatchSize) // these have waited long enough: wake somebody for them
	}
	if got.Holds > 0 {
		r.cfg.Logger.Info("holds ended", "holds", got.Holds)
	}
	return got.Events + got.Holds, nil
}
