package dlq

import (
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
)

// The rules of an operation are in this file, and the rules of a redrive in redrive_plan.go. They decide and do nothing:
// a store reads, asks them, and writes what they say.

const (
	// operationBatch is how many items are treated in one transaction at most.
	operationBatch = 1000
	// operationTick is how much of a rate a batch is: small enough to be even, large enough to cost little.
	operationTick = 100 * time.Millisecond
	// operationPatience is how long an operation waits for the outcomes of its redrives. Then it is completed, and its
	// numbers go on.
	operationPatience = time.Hour
	// operationPause is how long an operation waits where only time can help.
	operationPause = 500 * time.Millisecond
)

// OperationStep is what an operation does next.
type OperationStep struct {
	// State is the state that the operation has after the step.
	State OperationState
	// Items is how many of the waiting items are treated, at most; 0 is none.
	Items int
	// Pause is how long the operation waits after a step without items. The pause after a batch is BatchResult.Pause.
	Pause time.Duration
	// AllTreated says that no item waits any more.
	AllTreated bool
	// Error is why the operation halts; empty where it does not.
	Error string
}

// NextStep decides what an operation does next.
func (o *Operation) NextStep(now time.Time) OperationStep {
	if o.waiting() <= 0 {
		return o.AwaitRedrives(now)
	}
	if why := o.reasonToHalt(); why != "" {
		return OperationStep{State: Halted, Error: why}
	}
	step := OperationStep{State: o.State, Items: batchItems(o.Options.Rate)}
	if o.State != Canary {
		return step
	}
	switch left := o.Options.Canary - int(o.Done); {
	case left > 0:
		step.Items = min(step.Items, left)
	case o.InCanary():
		return OperationStep{State: Canary, Pause: operationPause}
	default:
		step.State = Running
	}
	return step
}

// AwaitRedrives decides about an operation without an item left, whatever its counts say: it is completed when its
// redrives have ended, or when they took longer than operationPatience.
func (o *Operation) AwaitRedrives(now time.Time) OperationStep {
	step := OperationStep{State: o.State, AllTreated: true, Pause: operationPause}
	if o.Kind != OpRedrive || o.ended() >= o.Done || !o.TreatedAt.IsZero() && now.Sub(o.TreatedAt) > operationPatience {
		step.State = Completed
	}
	return step
}

// InCanary reports whether the first few are still to be sent, or waited for.
func (o *Operation) InCanary() bool {
	canary := int64(o.Options.Canary)
	return canary > 0 && o.waiting() > 0 && (o.Done < canary || o.Done == canary && o.ended() < o.Done)
}

// waiting is how many items are to be treated.
func (o *Operation) waiting() int64 { return o.Items - o.Done - o.Skipped - o.Failed }

// ended is how many redrives have an outcome.
func (o *Operation) ended() int64 { return o.Delivered + o.CameBack }

// reasonToHalt says why too many messages came back dead; it is empty where not too many did.
func (o *Operation) reasonToHalt() string {
	ratio, atLeast := o.Options.HaltsAt()
	minimum := int64(atLeast)
	if canary := int64(o.Options.Canary); canary > 0 && o.Done == canary && o.ended() >= canary {
		minimum = 1 // all outcomes of the canary are known
	}
	back, good := o.CameBack-o.ForgivenCameBack, o.Delivered-o.ForgivenDelivered
	if back < minimum || float64(back) <= ratio*float64(back+good) {
		return ""
	}
	return fmt.Sprintf("%d of %d became dead letters again, more than %g %%", back, back+good, math.Round(ratio*1e6)/1e4)
}

// batchItems returns how many items a batch has at a rate of so many a second; 0 does not limit.
func batchItems(rate float64) int {
	if rate <= 0 {
		return operationBatch
	}
	return min(max(int(math.Ceil(rate*operationTick.Seconds())), 1), operationBatch)
}

// batchPause returns how long n items take at a rate.
func batchPause(rate float64, n int) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(n) / rate * float64(time.Second))
}

// OperationBatch is the items that an operation treats in one transaction, with what becomes of each.
type OperationBatch struct {
	rate    float64
	items   []Item // by their places
	byEntry map[uuid.UUID]*Item
}

// NewOperationBatch makes a batch of items, given by their places. An item whose investigation is not there any more is
// skipped: each item counts as EntryPurged until Treat says something else.
func NewOperationBatch(rate float64, items []Item) *OperationBatch {
	b := &OperationBatch{rate: rate, items: items, byEntry: make(map[uuid.UUID]*Item, len(items))}
	for i := range items {
		items[i].State, items[i].Reason = ItemSkipped, string(EntryPurged)
		b.byEntry[items[i].Entry] = &items[i]
	}
	return b
}

// Entries are the investigations of the items, by the items' places.
func (b *OperationBatch) Entries() []uuid.UUID {
	ids := make([]uuid.UUID, len(b.items))
	for i := range b.items {
		ids[i] = b.items[i].Entry
	}
	return ids
}

// Treat notes what became of items of the batch: why is the reason for which their investigations were skipped, and
// empty where they were not.
func (b *OperationBatch) Treat(why SkipReason, entries ...uuid.UUID) {
	state := ItemSkipped
	switch why {
	case "":
		state = ItemDone
	case Busy, leftForLater: // the item stays where it is, and its turn comes again
		state = ItemWaiting
	case Refused:
		state = ItemFailed
	}
	for _, id := range entries {
		i := b.byEntry[id]
		i.State, i.Reason = state, string(why)
	}
}

// BatchResult is what a batch leaves behind.
type BatchResult struct {
	// Done, Skipped and Failed count the items that were treated.
	Done, Skipped, Failed int
	// Treated are these items, by their places.
	Treated []Item
	// Through is the place up to which no item waits any more; 0 where the first of the batch waits.
	Through int64
	// Pause is how long the operation waits before its next step.
	Pause time.Duration
}

// Result adds up what became of the items. An item that waits for a key keeps the operation for a moment. The others take
// as long as the rate says; items left for later count in the batch that treats them.
func (b *OperationBatch) Result() BatchResult {
	var r BatchResult
	waits, forLater := false, 0 // waits: an item before this one does, and comes next
	for _, i := range b.items {
		switch i.State {
		case ItemDone:
			r.Done++
		case ItemSkipped:
			r.Skipped++
		case ItemFailed:
			r.Failed++
		default:
			if waits = true; i.Reason == string(leftForLater) {
				forLater++
			} else {
				r.Pause = operationPause
			}
			continue
		}
		r.Treated = append(r.Treated, i)
		if !waits {
			r.Through = i.Place
		}
	}
	r.Pause = max(r.Pause, batchPause(b.rate, len(b.items)-forLater))
	return r
}
