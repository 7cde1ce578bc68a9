package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
)

const (
	// operationBytes bounds what an operation sends in one transaction, which has its investigations locked until all of
	// that is in the log: a thousand messages of the largest size would never be written within the time that a call has.
	operationBytes = 4 * statementBytes
	// operationRetry is after how long a batch that failed is made again.
	operationRetry = 2 * time.Second
	// operationInHand is how soon to look again for an operation that is due: another process has it in hand.
	operationInHand = 10 * time.Millisecond
	// postponeLimit bounds the noting of a batch that failed.
	postponeLimit = 5 * time.Second
)

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
		found = o // known even of one whose options cannot be read, which must not stop the others
		if err != nil {
			return translate("look for operations", err)
		}
		if treated, err = r.advance(ctx, tx, o, &span); err != nil {
			return fmt.Errorf("operation %s (%s): %w", o.UUID, o.Name, err)
		}
		return nil
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
	next, err := r.nextDue(ctx)
	return 0, next, err
}

// postpone lets the other operations have their turn, and says in this one what went wrong. It has a timeout of its own,
// because the batch's may have run out. The server may need a moment to see that the batch is over. If another process
// goes on with the operation meanwhile, it treats an item, and then there is nothing to postpone.
func (r *Redriver) postpone(ctx context.Context, o dlq.Operation, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), postponeLimit)
	defer cancel()
	_, err := r.pool.Exec(ctx, operationPostpone, o.UUID, operationRetry.Microseconds(),
		strings.ToValidUTF8("failed for now: "+why.Error(), "?"), o.Done+o.Skipped+o.Failed)
	return translate("postpone an operation", err)
}

// nextDue returns after how long an operation is due; negative when none waits.
func (r *Redriver) nextDue(ctx context.Context) (time.Duration, error) {
	var wait pgtype.Int8
	if err := r.pool.QueryRow(ctx, operationNext).Scan(&wait); err != nil || !wait.Valid {
		return -1, translate("look for operations", err)
	}
	return max(time.Duration(wait.Int64)*time.Microsecond, operationInHand), nil
}

// advance does what an operation, which is locked, does next, and returns how many items were treated.
func (r *Redriver) advance(ctx context.Context, tx pgx.Tx, o dlq.Operation, span *redriveSpan) (int, error) {
	step := o.NextStep(time.Now())
	var result dlq.BatchResult
	if o.State = step.State; step.Items > 0 {
		items, err := waitingItems(ctx, tx, o.UUID, step.Items)
		if err != nil {
			return 0, err
		}
		if len(items) == 0 {
			step = o.AwaitRedrives(time.Now())
		} else if result, err = r.treatItems(ctx, tx, o, items, span); err != nil {
			return 0, err
		}
	}
	_, err := tx.Exec(ctx, operationAdvance, o.UUID, result.Done, result.Skipped, result.Failed, step.State, step.Error,
		max(step.Pause, result.Pause).Microseconds(), step.AllTreated, result.Through)
	return len(result.Treated), translate("advance an operation", err)
}

// waitingItems returns the next items.
func waitingItems(ctx context.Context, tx pgx.Tx, id uuid.UUID, limit int) ([]dlq.Item, error) {
	const doing = "read the items of an operation"
	rows, err := tx.Query(ctx, operationWaiting, id, limit)
	if err != nil {
		return nil, translate(doing, err)
	}
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i dlq.Item, err error) {
		return i, row.Scan(&i.Place, &i.Entry)
	})
	return items, translate(doing, err)
}

// treatItems treats items, and writes what became of each.
func (r *Redriver) treatItems(ctx context.Context, tx pgx.Tx, o dlq.Operation, items []dlq.Item, span *redriveSpan) (dlq.BatchResult, error) {
	b := dlq.NewOperationBatch(o.Options.Rate, items)
	lock := redriveLock
	if o.Kind == dlq.OpPurge {
		lock = purgeLock
	}
	there, err := lockEntries(ctx, tx, lock, b.Entries())
	if err != nil {
		return dlq.BatchResult{}, err
	}
	if len(there) > 0 {
		switch o.Kind {
		case dlq.OpRedrive:
			err = r.redriveItems(ctx, tx, o, there, b, span)
		case dlq.OpResolve:
			err = r.resolveItems(ctx, tx, o, there, b)
		case dlq.OpPurge:
			err = r.purgeItems(ctx, tx, o, there, b)
		}
		if err != nil {
			return dlq.BatchResult{}, err
		}
	}
	result := b.Result()
	return result, r.writeItems(ctx, tx, o, result)
}

func (r *Redriver) redriveItems(ctx context.Context, tx pgx.Tx, o dlq.Operation, there []uuid.UUID, b *dlq.OperationBatch, span *redriveSpan) error {
	ctx = span.begin(ctx, r.tracer, len(there), o.Options.Target, o.UUID)
	plan, err := r.planRedrive(ctx, tx, operationRequest(o.UUID, o.Actor, o.Options, there))
	if err != nil {
		return err
	}
	plan.LeaveForLater(operationBytes)
	if _, err := r.carryOut(ctx, tx, plan); err != nil {
		return err
	}
	for _, c := range plan.Candidates {
		b.Treat(c.Skip, c.Entry)
	}
	return span.treated(ctx, tx, plan.Sent())
}

func (r *Redriver) resolveItems(ctx context.Context, tx pgx.Tx, o dlq.Operation, there []uuid.UUID, b *dlq.OperationBatch) error {
	underWay, err := entriesUnderWay(ctx, tx, there)
	if err != nil {
		return err
	}
	there = slices.DeleteFunc(there, func(id uuid.UUID) bool { return slices.Contains(underWay, id) })
	closed, err := closeEntries(ctx, tx, r.exceptions, closing{
		entries: there, notes: column(there, func(uuid.UUID) string { return o.Options.Notes }), status: o.Options.Status, by: o.Actor,
	})
	b.Treat(dlq.AlreadyQueued, underWay...)
	b.Treat(dlq.NotPending, there...) // but for the ones that were closed now
	b.Treat("", closed...)
	return err
}

func (r *Redriver) purgeItems(ctx context.Context, tx pgx.Tx, o dlq.Operation, there []uuid.UUID, b *dlq.OperationBatch) error {
	gone, holding, _, err := purgeEntries(ctx, tx, r.exceptions, there, o.Options.ReleaseKeys)
	b.Treat("", gone...)
	b.Treat(dlq.HoldsKey, holding...)
	return err
}

// writeItems writes what became of items, and the audit log: a row for all of them.
func (r *Redriver) writeItems(ctx context.Context, tx pgx.Tx, o dlq.Operation, result dlq.BatchResult) error {
	treated := result.Treated
	if len(treated) == 0 {
		return nil
	}
	outcome := ""
	if o.Kind == dlq.OpRedrive {
		outcome = dlq.ItemSent
	}
	_, err := tx.Exec(ctx, operationTreated, o.UUID,
		column(treated, func(i dlq.Item) int64 { return i.Place }),
		column(treated, func(i dlq.Item) string { return i.State }),
		column(treated, func(i dlq.Item) string { return i.Reason }), outcome)
	if err != nil || result.Done == 0 {
		return translate("note the items of an operation", err)
	}
	action := map[dlq.OperationKind]string{dlq.OpRedrive: "dlq.requeue", dlq.OpResolve: "dlq.resolve", dlq.OpPurge: "dlq.purge"}[o.Kind]
	details := map[string]any{
		"done": result.Done, "skipped": result.Skipped, "failed": result.Failed, "items": [2]int64{treated[0].Place, treated[len(treated)-1].Place},
		"target": o.Options.Target, "status": o.Options.Status, "release_keys": o.Options.ReleaseKeys}
	if o.Kind == dlq.OpResolve { // a redrive names its operation itself, and nothing is asked about purged investigations
		done := slices.DeleteFunc(slices.Clone(treated), func(i dlq.Item) bool { return i.State != dlq.ItemDone })
		details["entries"] = column(done, func(i dlq.Item) uuid.UUID { return i.Entry })
	}
	return r.audit.Audit(ctx, tx, o.Actor, action, "operation", o.UUID.String(), o.Sources, details)
}
