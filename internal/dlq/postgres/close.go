package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
)

// closing says which investigations are closed, and as what.
type closing struct {
	entries []uuid.UUID
	notes   []string // of each
	status  dlq.Status
	by      string
}

// entriesUnderWay returns the locked investigations that have a redrive on its way: until the redrive ends, their outcome is
// unknown.
func entriesUnderWay(ctx context.Context, tx pgx.Tx, entries []uuid.UUID) ([]uuid.UUID, error) {
	const doing = "look for redrives on their way"
	rows, err := tx.Query(ctx, redriveUnderWay, entries)
	if err != nil {
		return nil, translate(doing, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return found, translate(doing, err)
}

// closeEntries closes the pending ones among the investigations, lets the keys go that their events halt, and
// returns the closed ones.
func closeEntries(ctx context.Context, tx pgx.Tx, exceptions Exceptions, c closing) ([]uuid.UUID, error) {
	closed, err := closePending(ctx, tx, c)
	if err != nil || len(closed) == 0 {
		return nil, err
	}
	_, err = releaseKeys(ctx, tx, exceptions, closed)
	return closed, err
}

func closePending(ctx context.Context, tx pgx.Tx, c closing) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, entryClose, c.entries, string(c.status), c.notes, c.by)
	if err != nil {
		return nil, translate("close investigations", err)
	}
	closed, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return closed, translate("close investigations", err)
}

// releaseKeys lets the keys go that the events of closed investigations halt, and returns these events: no person works any
// more on them.
func releaseKeys(ctx context.Context, tx pgx.Tx, exceptions Exceptions, closed []uuid.UUID) ([]int64, error) {
	halting, err := haltingEvents(ctx, tx, exceptions, closed)
	if err != nil || len(halting) == 0 {
		return nil, err
	}
	events := slices.Sorted(maps.Keys(halting))
	return events, exceptions.ReleaseKeys(ctx, tx, events)
}

// auditEvents adds to the details of a row of the audit log the events that went back to their place, or whose keys were let
// go: an operator's transaction owes the log for them, too (access_owe).
func auditEvents(details map[string]any, events []int64) map[string]any {
	if len(events) > 0 {
		details["events"] = events
	}
	return details
}

// haltingEvents returns the events of investigations that halt their key, each with its investigation.
func haltingEvents(ctx context.Context, tx pgx.Tx, exceptions Exceptions, entries []uuid.UUID) (map[int64]uuid.UUID, error) {
	const doing = "look for the events of investigations"
	rows, err := tx.Query(ctx, haltingOf, entries)
	if err != nil {
		return nil, translate(doing, err)
	}
	events := map[int64]uuid.UUID{}
	var event int64
	var entry uuid.UUID
	if _, err = pgx.ForEachRow(rows, []any{&event, &entry}, func() error { events[event] = entry; return nil }); err != nil || len(events) == 0 {
		return nil, translate(doing, err)
	}
	halting, _, err := exceptions.Halting(ctx, tx, slices.Sorted(maps.Keys(events)))
	if err != nil {
		return nil, err
	}
	out := make(map[int64]uuid.UUID, len(halting))
	for _, id := range halting {
		out[id] = events[id]
	}
	return out, nil
}

// origin is the investigation that a dead letter's message was redriven from; its zero value is none.
type origin struct {
	entry, group uuid.UUID
	// closes says that the relay gave the message up again: the work goes on in the new investigation.
	closes bool
}

// findOrigins sets the openings' origins. A redrive was committed before its message could die again.
func findOrigins(ctx context.Context, tx pgx.Tx, cs []*opening) error {
	const doing = "look for what was redriven"
	var asked []*opening
	var events []pgtype.UUID
	var redrives, sources []string
	for _, c := range cs {
		if event, redrive := c.first.CameFrom(); event != uuid.Nil || redrive != "" {
			asked, events, redrives, sources = append(asked, c), append(events, nullUUID(event)), append(redrives, redrive), append(sources, source(c.first))
		}
	}
	if len(asked) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, entryCameFrom, events, redrives, sources)
	if err != nil {
		return translate(doing, err)
	}
	var place int
	var from origin
	_, err = pgx.ForEachRow(rows, []any{&place, &from.entry, &from.group, &from.closes}, func() error { asked[place-1].origin = from; return nil })
	return translate(doing, err)
}

// nameOrigins lets investigations of messages that were redriven and died again name the investigations that they come from.
// If the relay gave the message up, nameOrigins closes the old investigation, which is locked, and the audit log says so, if
// there is one. No key is released: a message that was sent as a new event halts no key by its old event.
func nameOrigins(ctx context.Context, tx pgx.Tx, audit Auditor, opened []*opening) error {
	opened = slices.DeleteFunc(opened, func(c *opening) bool { return c.origin.entry == uuid.Nil })
	if len(opened) == 0 {
		return nil
	}
	of := func(c *opening) uuid.UUID { return c.origin.entry }
	if _, err := tx.Exec(ctx, entrySucceed, column(opened, func(c *opening) uuid.UUID { return c.entry }), column(opened, of)); err != nil {
		return translate("name predecessors", err)
	}
	opened = slices.DeleteFunc(opened, func(c *opening) bool { return !c.origin.closes })
	if len(opened) == 0 {
		return nil
	}
	closed, err := closePending(ctx, tx, closing{
		entries: column(opened, of),
		notes: column(opened, func(c *opening) string {
			return "its redrive was given up again: investigation " + c.entry.String() + " goes on"
		}),
		status: dlq.Cancelled, by: "postrider",
	})
	if err != nil || len(closed) == 0 || audit == nil {
		return err
	}
	sources, err := sourcesOfEntries(ctx, tx, closed)
	if err != nil {
		return err
	}
	return audit.Audit(ctx, tx, "postrider", "dlq.resolve", "entry", "", sources, map[string]any{
		"entries": closed, "after": dlq.Cancelled, "because": "redriven, and given up again: another investigation goes on"})
}
