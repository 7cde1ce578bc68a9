package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// seenOf are the statements that tell which things are of some sources.
var seenOf = map[dlq.Thing]string{dlq.AnEntry: seenEntries, dlq.AGroup: seenGroups, dlq.AnOperation: seenOperations}

// Seen implements dlq.Investigations.
func (d *Investigations) Seen(ctx context.Context, what dlq.Thing, ids []uuid.UUID) (seen []uuid.UUID, err error) {
	if dlq.SourcesOf(ctx) == nil || len(ids) == 0 {
		return ids, nil
	}
	return seen, d.readByKey(ctx, fmt.Sprintf("whether an %s is seen", what), func(ctx context.Context, tx pgx.Tx) (err error) {
		seen, err = seenAmong(ctx, tx, what, ids)
		return err
	})
}

// seenAmong is Seen in a transaction.
func seenAmong(ctx context.Context, tx pgx.Tx, what dlq.Thing, ids []uuid.UUID) ([]uuid.UUID, error) {
	limit := dlq.SourcesOf(ctx)
	if limit == nil || len(ids) == 0 {
		return ids, nil
	}
	rows, err := tx.Query(ctx, seenOf[what], ids, limit)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return !slices.Contains(found, id) }), err
}

// hideOverlaps takes out of the plans of operations the other operations that are not seen.
func (r *Redriver) hideOverlaps(ctx context.Context, operations []dlq.Operation) error {
	if dlq.SourcesOf(ctx) == nil {
		return nil
	}
	var named []uuid.UUID
	for i := range operations {
		named = append(named, column(operations[i].Plan.Overlaps, func(o dlq.Overlap) uuid.UUID { return o.UUID })...)
	}
	if len(named) == 0 {
		return nil
	}
	rows, err := r.pool.Query(ctx, seenOperations, named, dlq.SourcesOf(ctx))
	if err != nil {
		return err
	}
	seen, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for i := range operations {
		p := &operations[i].Plan
		p.Overlaps = slices.DeleteFunc(p.Overlaps, func(o dlq.Overlap) bool { return !slices.Contains(seen, o.UUID) })
	}
	return err
}

// sourcesOfEntries are the sources of investigations, sorted, for the audit log.
func sourcesOfEntries(ctx context.Context, tx pgx.Tx, entries []uuid.UUID) (sources []string, err error) {
	err = tx.QueryRow(ctx, entrySources, entries).Scan(&sources)
	return sources, translate("look for the sources of investigations", err)
}

// sourcesOfThread are those of what a comment is about.
func sourcesOfThread(ctx context.Context, tx pgx.Tx, t dlq.Thread) ([]string, error) {
	if t.Group == uuid.Nil {
		return sourcesOfEntries(ctx, tx, []uuid.UUID{t.Entry})
	}
	g, err := oneGroup(ctx, tx, t.Group)
	return []string{g.Source}, err
}
