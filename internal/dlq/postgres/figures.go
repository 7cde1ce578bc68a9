package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// GroupHours counts the investigations of groups by the hour in which they were opened, for the last 24 hours. An hour
// without any is left out.
func (d *Investigations) GroupHours(ctx context.Context, groups []uuid.UUID) (map[uuid.UUID][]dlq.HourCount, error) {
	hours := map[uuid.UUID][]dlq.HourCount{}
	return hours, d.readPlanned(ctx, "hours of groups", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, groupHoursOf, groups)
		if err != nil {
			return err
		}
		var id uuid.UUID
		var h dlq.HourCount
		_, err = pgx.ForEachRow(rows, []any{&id, &h.Hour, &h.Opened}, func() error { hours[id] = append(hours[id], h); return nil })
		return err
	})
}

// GroupStates counts groups by their state, as ListGroups does, and all pending investigations.
func (d *Investigations) GroupStates(ctx context.Context) (groups map[dlq.GroupState]int64, pending int64, err error) {
	groups = map[dlq.GroupState]int64{}
	return groups, pending, d.readPlanned(ctx, "count groups", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, groupStates, dlq.SourcesOf(ctx))
		if err != nil {
			return err
		}
		var state dlq.GroupState
		var n, open int64
		_, err = pgx.ForEachRow(rows, []any{&state, &n, &open}, func() error { groups[state], pending = n, pending+open; return nil })
		return err
	})
}

// Groups returns groups by their ids, in the order of the ids. An unknown id is left out.
func (d *Investigations) Groups(ctx context.Context, ids []uuid.UUID) (groups []dlq.Group, err error) {
	return groups, d.readByKey(ctx, "groups", func(ctx context.Context, tx pgx.Tx) (err error) {
		if ids, err = seenAmong(ctx, tx, dlq.AGroup, ids); err != nil {
			return err
		}
		groups, err = readGroups(ctx, tx, ids)
		return err
	})
}

// PendingOf is how many investigations about subjects of a type are pending.
func (d *Investigations) PendingOf(ctx context.Context, t dlq.SubjectType) (n int64, err error) {
	return n, d.readPlanned(ctx, "count pending investigations", func(ctx context.Context, tx pgx.Tx) error {
		if sources := dlq.SourcesOf(ctx); sources != nil {
			return tx.QueryRow(ctx, pendingOf, t, sources).Scan(&n)
		}
		var counters int64
		return tx.QueryRow(ctx, searchKinds, dlq.Pending, "", t).Scan(&n, &counters)
	})
}

// openedAtOnce is how many investigations one OpenedSince counts.
const openedAtOnce = 20_000

// OpenedSince counts by minute and source the investigations that were opened after a time, the oldest first, and returns the
// time to go on from.
func (d *Investigations) OpenedSince(ctx context.Context, since time.Time) (counts []dlq.SourceCount, next time.Time, err error) {
	next = since
	return counts, next, d.readPlanned(ctx, "opened investigations", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, openedSince, since, openedAtOnce)
		if err != nil {
			return err
		}
		var c dlq.SourceCount
		var newest time.Time
		_, err = pgx.ForEachRow(rows, []any{&c.Minute, &c.Source, &c.Opened, &newest}, func() error {
			if counts = append(counts, c); newest.After(next) {
				next = newest
			}
			return nil
		})
		return err
	})
}

// Messages returns what went wrong, of investigations: at most 500 characters of each. An unknown id is left out.
func (d *Investigations) Messages(ctx context.Context, entries []uuid.UUID) (map[uuid.UUID]string, error) {
	messages := map[uuid.UUID]string{}
	return messages, d.readByKey(ctx, "messages of investigations", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, entryMessages, entries)
		if err != nil {
			return err
		}
		var id uuid.UUID
		var message string
		_, err = pgx.ForEachRow(rows, []any{&id, &message}, func() error { messages[id] = message; return nil })
		return err
	})
}

// AllClosed reports whether all of the investigations that are there are closed. It is false where none is there.
func (d *Investigations) AllClosed(ctx context.Context, entries []uuid.UUID) (closed bool, err error) {
	return closed, d.readByKey(ctx, "whether investigations are closed", func(ctx context.Context, tx pgx.Tx) error {
		seen, err := seenAmong(ctx, tx, dlq.AnEntry, entries)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, entryAllClosed, seen).Scan(&closed)
	})
}

// Closings returns how people closed investigations of a group, the newest first: dlq.GroupClosings at most. What was closed by
// rule is left out.
func (d *Investigations) Closings(ctx context.Context, group uuid.UUID) (closings []dlq.Closing, err error) {
	return closings, d.readPlanned(ctx, "closings of a group", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, groupClosings, group, dlq.GroupSample, dlq.GroupClosings)
		if err != nil {
			return err
		}
		closings, err = pgx.CollectRows(rows, pgx.RowToStructByPos[dlq.Closing])
		return err
	})
}
