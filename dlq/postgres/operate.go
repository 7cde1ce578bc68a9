package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dlq"
)

const (
	// operationBatch is how many items are treated in one transaction at most.
	operationBatch = 1000
	// operationTick is how much of a rate a batch is: small enough to be even, large enough to cost little.
	operationTick = 100 * time.Millisecond
	// operationPatience is how long an operation waits for what became of its redriven messages; after it, it is
	// completed, and its numbers go on.
	operationPatience = time.Hour
	// operationPause is how long an operation waits where only time can help.
	operationPause = 500 * time.Millisecond
)

// batch is what a step does with an operation.
type batch struct {
	done, skipped, failed int
	state                 dlq.OperationState
	problem               string
	pause                 time.Duration
	treated               bool // the last item was
}

// Step implements dlq.Operations. The operation's row is locked meanwhile, so nobody else treats it, and the
// items, the redrives and the count are committed together.
func (r *Redriver) Step(ctx context.Context) (int, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	found, treated := false, 0
	err := pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, operationDue)
		if err != nil {
			return translate("look for operations", err)
		}
		o, err := pgx.CollectExactlyOneRow(rows, scanOperation)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translate("look for operations", err)
		}
		found = true
		b, err := r.treat(ctx, tx, &o)
		if err != nil {
			return fmt.Errorf("operation %s (%s): %w", o.UUID, o.Name, err)
		}
		treated = b.done + b.skipped + b.failed
		_, err = tx.Exec(ctx, operationAdvance, o.UUID, b.done, b.skipped, b.failed, b.state, b.problem, b.pause.Microseconds(), b.treated)
		return translate("advance an operation", err)
	})
	if err != nil || found {
		return treated, 0, err
	}
	next, err := r.next(ctx)
	return 0, next, err
}

// treat decides what an operation does next, and does it.
func (r *Redriver) treat(ctx context.Context, tx pgx.Tx, o *operation) (batch, error) {
	back, good := o.CameBack-o.options.Forgiven, o.Delivered-o.options.ForgivenDelivered
	if back >= int64(o.Options.HaltMinimum) && float64(back) > o.Options.HaltRatio*float64(back+good) {
		return batch{state: dlq.Halted, problem: fmt.Sprintf("%d of %d came back dead, more than %g of them", back, back+good, o.Options.HaltRatio)}, nil
	}
	limit, pause := pace(o.Options.Rate)
	ended := o.Delivered + o.CameBack
	if o.State == dlq.Canary {
		left := o.Options.Canary - int(o.Done+o.Skipped+o.Failed)
		switch {
		case left > 0:
			limit = min(limit, left)
		case ended < o.Done:
			return batch{state: dlq.Canary, pause: operationPause}, nil
		default:
			return batch{state: dlq.Running}, nil
		}
	}
	items, entries, b, err := waiting(ctx, tx, o.UUID, limit)
	if err != nil {
		return batch{}, err
	}
	b.state, b.pause = o.State, pause
	if len(items) == 0 {
		b.treated = true
		if o.Kind != dlq.OpRedrive || ended >= o.Done || (!o.TreatedAt.IsZero() && time.Since(o.TreatedAt) > operationPatience) {
			b.state = dlq.Completed
		}
		b.pause = operationPause
		return b, nil
	}
	if len(entries) > 0 {
		err = r.treatEntries(ctx, tx, o, items, entries, &b)
	}
	return b, err
}

// pace returns how many items a batch has, and how long it lasts.
func pace(rate float64) (int, time.Duration) {
	if rate <= 0 {
		return operationBatch, 0
	}
	n := min(max(int(math.Ceil(rate*operationTick.Seconds())), 1), operationBatch)
	return n, time.Duration(float64(n) / rate * float64(time.Second))
}

// waiting returns the next items by investigation, and those whose investigation is there. The others were
// purged, and are noted as skipped.
func waiting(ctx context.Context, tx pgx.Tx, id uuid.UUID, limit int) (items map[uuid.UUID]int64, entries []uuid.UUID, b batch, err error) {
	rows, err := tx.Query(ctx, operationWaiting, id, limit)
	if err != nil {
		return nil, nil, b, translate("read the items of an operation", err)
	}
	items = map[uuid.UUID]int64{}
	var gone []int64
	var item int64
	var entry uuid.UUID
	var there bool
	_, err = pgx.ForEachRow(rows, []any{&item, &entry, &there}, func() error {
		items[entry] = item
		if there {
			entries = append(entries, entry)
		} else {
			gone = append(gone, item)
		}
		return nil
	})
	if err != nil || len(gone) == 0 {
		return items, entries, b, translate("read the items of an operation", err)
	}
	b.skipped = len(gone)
	return items, entries, b, noteItems(ctx, tx, id, gone, func(int) (string, string) { return "skipped", "purged" })
}

// treatEntries treats investigations and notes what became of each.
func (r *Redriver) treatEntries(ctx context.Context, tx pgx.Tx, o *operation, items map[uuid.UUID]int64, entries []uuid.UUID, b *batch) error {
	type note struct{ state, reason string }
	notes := map[uuid.UUID]note{}
	switch o.Kind {
	case dlq.OpResolve:
		closed, err := closeEntries(ctx, tx, entries, o.Options.Status, o.Options.Notes, o.Actor)
		if err != nil {
			return err
		}
		for _, id := range entries {
			notes[id] = note{"skipped", string(dlq.NotPending)}
		}
		for _, id := range closed {
			notes[id] = note{"done", ""}
		}
		if len(closed) > 0 {
			if err := r.audit.Audit(ctx, tx, o.Actor, "dlq.resolve", "operation", o.UUID.String(), map[string]any{"entries": closed, "status": o.Options.Status}); err != nil {
				return err
			}
		}
	case dlq.OpRedrive:
		done, err := r.redrive(ctx, tx, dlq.RedriveRequest{Entries: entries, Target: o.Options.Target, Operation: o.UUID, Actor: o.Actor})
		if err != nil {
			return err
		}
		for _, id := range done.Entries {
			notes[id] = note{"done", ""}
		}
		for _, s := range done.Skipped {
			if s.Reason == dlq.Busy { // it stays where it is, and is looked at again
				b.pause = max(b.pause, operationPause)
				continue
			}
			notes[s.Entry] = note{"skipped", string(s.Reason)}
		}
	}
	var places []int64
	var states []note
	for id, n := range notes {
		places, states = append(places, items[id]), append(states, n)
		if n.state == "done" {
			b.done++
		} else {
			b.skipped++
		}
	}
	return noteItems(ctx, tx, o.UUID, places, func(i int) (string, string) { return states[i].state, states[i].reason })
}

func noteItems(ctx context.Context, tx pgx.Tx, id uuid.UUID, places []int64, what func(int) (state, reason string)) error {
	states, reasons := make([]string, len(places)), make([]string, len(places))
	for i := range places {
		states[i], reasons[i] = what(i)
	}
	_, err := tx.Exec(ctx, operationTreated, id, places, states, reasons)
	return translate("note the items of an operation", err)
}
