package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

const (
	// operationBatch is how many items are treated in one transaction at most.
	operationBatch = 1000
	// operationTick is how much of a rate a batch is: small enough to be even, large enough to cost little.
	operationTick = 100 * time.Millisecond
	// operationPatience is how long an operation waits for the outcomes of its redrives. Then it is completed, and its
	// numbers go on.
	operationPatience = time.Hour
	// operationRetry is after how long a batch that failed is made again.
	operationRetry = 2 * time.Second
	// operationPause is how long an operation waits where only time can help.
	operationPause = 500 * time.Millisecond
	// postponeLimit bounds the noting of a batch that failed.
	postponeLimit = 5 * time.Second
)

// batch is what a step does with an operation.
type batch struct {
	done, skipped, failed int
	state                 dlq.OperationState
	problem               string
	pause                 time.Duration
	treated               bool // the last item was
	// through is the place up to which all items are treated by now; 0 where that is not known.
	through int64
}

// Step implements dlq.Operations. The operation's row is locked meanwhile, so no other process treats it, and the
// items, the redrives and the count are committed together.
func (r *Redriver) Step(ctx context.Context) (int, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	found, treated := dlq.Operation{}, 0
	var span redriveSpan
	err := transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		found, treated, span.redriveOutcome = dlq.Operation{}, 0, redriveOutcome{}
		rows, err := tx.Query(ctx, operationDue)
		if err != nil {
			return translate("look for operations", err)
		}
		o, err := pgx.CollectExactlyOneRow(rows, scanOperation)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		found = o.Operation // known even of one whose options cannot be read, which must not stop the others
		if err != nil {
			return translate("look for operations", err)
		}
		o.span = &span
		b, err := r.treat(ctx, tx, &o)
		if err != nil {
			return fmt.Errorf("operation %s (%s): %w", o.UUID, o.Name, err)
		}
		treated = b.done + b.skipped + b.failed
		_, err = tx.Exec(ctx, operationAdvance, o.UUID, b.done, b.skipped, b.failed, b.state, b.problem, b.pause.Microseconds(), b.treated, b.through)
		return translate("advance an operation", err)
	})
	span.end(err)
	switch {
	case err != nil && found.UUID != uuid.Nil:
		return 0, 0, errors.Join(err, r.postpone(ctx, found, err))
	case err != nil:
		return 0, 0, err
	case found.UUID != uuid.Nil:
		return treated, 0, nil
	}
	next, err := r.next(ctx)
	return 0, next, err
}

// postpone lets the other operations have their turn, and says in this one what went wrong. It has a timeout of its own,
// because the batch's may have run out. The server may need a moment to see that the batch is over. If another process
// goes on with the operation meanwhile, it treats an item, and then there is nothing to postpone.
func (r *Redriver) postpone(ctx context.Context, o dlq.Operation, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), postponeLimit)
	defer cancel()
	_, err := r.pool.Exec(ctx, operationPostpone, o.UUID, operationRetry.Microseconds(), strings.ToValidUTF8("failed for now: "+why.Error(), "?"), o.Done+o.Skipped+o.Failed)
	return translate("postpone an operation", err)
}

// waiting is how many of an operation's items are to be treated.
func waiting(o dlq.Operation) int64 { return o.Items - o.Done - o.Skipped - o.Failed }

// inCanary reports whether the first few are still to be sent, or waited for.
func inCanary(o dlq.Operation) bool {
	canary := int64(o.Options.Canary)
	return canary > 0 && waiting(o) > 0 && (o.Done < canary || o.Done == canary && o.Delivered+o.CameBack < o.Done)
}

// treat decides what an operation does next, and does it.
func (r *Redriver) treat(ctx context.Context, tx pgx.Tx, o *operation) (batch, error) {
	ended := o.Delivered + o.CameBack
	if waiting(o.Operation) <= 0 {
		return awaited(o), nil
	}
	back, good := o.CameBack-o.options.Forgiven, o.Delivered-o.options.ForgivenDelivered
	ratio, atLeast := o.Options.HaltsAt()
	minimum := int64(atLeast)
	if canary := int64(o.Options.Canary); canary > 0 && o.Done == canary && ended >= canary {
		minimum = 1 // all that the canary can say is said
	}
	if back >= minimum && float64(back) > ratio*float64(back+good) {
		return batch{state: dlq.Halted, problem: fmt.Sprintf("%d of %d came back dead, more than %g of them", back, back+good, ratio)}, nil
	}
	limit := pace(o.Options.Rate)
	if o.State == dlq.Canary {
		switch left := o.Options.Canary - int(o.Done); {
		case left > 0:
			limit = min(limit, left)
		case inCanary(o.Operation):
			return batch{state: dlq.Canary, pause: operationPause}, nil
		default:
			o.State = dlq.Running
		}
	}
	items, err := nextItems(ctx, tx, o.UUID, limit)
	if err != nil {
		return batch{}, err
	}
	if len(items) == 0 { // whatever the count says
		return awaited(o), nil
	}
	b := batch{state: o.State}
	err = r.treatItems(ctx, tx, o, items, &b)
	return b, err
}

// awaited decides about an operation whose items all were treated: it ends when all its redrives have ended.
func awaited(o *operation) batch {
	b := batch{state: o.State, treated: true, pause: operationPause}
	if o.Kind != dlq.OpRedrive || o.Delivered+o.CameBack >= o.Done || !o.TreatedAt.IsZero() && time.Since(o.TreatedAt) > operationPatience {
		b.state = dlq.Completed
	}
	return b
}

// pace returns how many items a batch has.
func pace(rate float64) int {
	if rate <= 0 {
		return operationBatch
	}
	return min(max(int(math.Ceil(rate*operationTick.Seconds())), 1), operationBatch)
}

// lasts returns how long a batch of n lasts.
func lasts(rate float64, n int) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(n) / rate * float64(time.Second))
}

// item is a piece of an operation, and what became of it.
type item struct {
	Place         int64
	Entry         uuid.UUID
	state, reason string // empty as long as it waits
	soon          bool   // it waits for nothing but the next batch
}

func (i *item) done()                   { i.state, i.reason = "done", "" }
func (i *item) skip(why dlq.SkipReason) { i.state, i.reason = "skipped", string(why) }
func (i *item) fail(why dlq.SkipReason) { i.state, i.reason = "failed", string(why) }

// nextItems returns the next items.
func nextItems(ctx context.Context, tx pgx.Tx, id uuid.UUID, limit int) ([]*item, error) {
	const doing = "read the items of an operation"
	rows, err := tx.Query(ctx, operationWaiting, id, limit)
	if err != nil {
		return nil, translate(doing, err)
	}
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*item, error) {
		i := &item{}
		return i, row.Scan(&i.Place, &i.Entry)
	})
	return items, translate(doing, err)
}

// treatItems treats items and notes what became of each. An item whose investigation was purged is skipped.
func (r *Redriver) treatItems(ctx context.Context, tx pgx.Tx, o *operation, items []*item, b *batch) error {
	lock := redriveLock
	if o.Kind == dlq.OpPurge {
		lock = purgeLock
	}
	there, err := lockEntries(ctx, tx, lock, column(items, func(i *item) uuid.UUID { return i.Entry }))
	if err != nil {
		return err
	}
	byEntry := make(map[uuid.UUID]*item, len(items))
	for _, i := range items {
		i.skip(dlq.EntryPurged)
		byEntry[i.Entry] = i
	}
	if len(there) > 0 {
		if o.Kind == dlq.OpRedrive {
			ctx = o.span.begin(ctx, r.tracer, len(there), o.Options.Target, o.UUID)
		}
		treat := map[dlq.OperationKind]func(context.Context, pgx.Tx, *operation, []uuid.UUID, map[uuid.UUID]*item) error{
			dlq.OpRedrive: r.redriveItems, dlq.OpResolve: r.resolveItems, dlq.OpPurge: r.purgeItems,
		}[o.Kind]
		if err := treat(ctx, tx, o, there, byEntry); err != nil {
			return err
		}
	}
	return r.noteItems(ctx, tx, o, items, b)
}

func (r *Redriver) redriveItems(ctx context.Context, tx pgx.Tx, o *operation, there []uuid.UUID, byEntry map[uuid.UUID]*item) error {
	ws, err := r.redrive(ctx, tx, dlq.RedriveRequest{Entries: there, Target: o.Options.Target, MaxHops: o.Options.MaxHops, Repair: o.Options.Repair(), Operation: o.UUID, Actor: o.Actor}, putOff)
	for _, w := range ws {
		switch i := byEntry[w.entry]; w.skip {
		case "":
			i.done()
		case dlq.Busy, later: // it stays where it is, and is looked at again
			i.state, i.reason, i.soon = "", "", w.skip == later
		case dlq.Refused:
			i.fail(w.skip)
		default:
			i.skip(w.skip)
		}
	}
	if err != nil {
		return err
	}
	return o.span.treated(ctx, tx, ws)
}

func (r *Redriver) resolveItems(ctx context.Context, tx pgx.Tx, o *operation, there []uuid.UUID, byEntry map[uuid.UUID]*item) error {
	going, err := underWay(ctx, tx, there)
	if err != nil {
		return err
	}
	there = slices.DeleteFunc(there, func(id uuid.UUID) bool { return slices.Contains(going, id) })
	closed, err := closeEntries(ctx, tx, r.exceptions, closing{
		entries: there, notes: column(there, func(uuid.UUID) string { return o.Options.Notes }), status: o.Options.Status, by: o.Actor,
	})
	for _, id := range going {
		byEntry[id].skip(dlq.AlreadyQueued)
	}
	for _, id := range there {
		byEntry[id].skip(dlq.NotPending)
	}
	for _, id := range closed {
		byEntry[id].done()
	}
	return err
}

func (r *Redriver) purgeItems(ctx context.Context, tx pgx.Tx, o *operation, there []uuid.UUID, byEntry map[uuid.UUID]*item) error {
	gone, holding, err := purgeEntries(ctx, tx, r.exceptions, there, o.Options.ReleaseKeys)
	for _, id := range gone {
		byEntry[id].done()
	}
	for _, id := range holding {
		byEntry[id].skip(dlq.HoldsKey)
	}
	return err
}

// noteItems notes what became of items, and writes the audit log: a row for all of them.
func (r *Redriver) noteItems(ctx context.Context, tx pgx.Tx, o *operation, items []*item, b *batch) error {
	var treated []*item
	waits := false // one before does, and is next
	left := 0
	for _, i := range items {
		switch i.state {
		case "done":
			b.done++
		case "skipped":
			b.skipped++
		case "failed":
			b.failed++
		default:
			if waits = true; i.soon {
				left++
			} else {
				b.pause = operationPause
			}
			continue
		}
		treated = append(treated, i)
		if !waits {
			b.through = i.Place
		}
	}
	b.pause = max(b.pause, lasts(o.Options.Rate, len(items)-left))
	if len(treated) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, operationTreated, o.UUID,
		column(treated, func(i *item) int64 { return i.Place }),
		column(treated, func(i *item) string { return i.state }),
		column(treated, func(i *item) string { return i.reason }))
	if err != nil || b.done == 0 {
		return translate("note the items of an operation", err)
	}
	action := map[dlq.OperationKind]string{dlq.OpRedrive: "dlq.requeue", dlq.OpResolve: "dlq.resolve", dlq.OpPurge: "dlq.purge"}[o.Kind]
	details := map[string]any{
		"done": b.done, "skipped": b.skipped, "failed": b.failed, "items": [2]int64{treated[0].Place, treated[len(treated)-1].Place},
		"target": o.Options.Target, "status": o.Options.Status, "release_keys": o.Options.ReleaseKeys}
	if o.Kind == dlq.OpResolve { // a redrive names its operation itself, and nothing is asked about purged investigations
		details["entries"] = column(slices.DeleteFunc(treated, func(i *item) bool { return i.state != "done" }), func(i *item) uuid.UUID { return i.Entry })
	}
	return r.audit.Audit(ctx, tx, o.Actor, action, "operation", o.UUID.String(), details)
}
