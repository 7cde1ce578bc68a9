package check

import (
	"context"
	_ "embed"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/cmd/internal/adopt"
)

//go:embed queries/publication.sql
var publicationQuery string

//go:embed queries/filters.sql
var filtersQuery string

//go:embed queries/slot.sql
var slotQuery string

//go:embed queries/lag.sql
var lagQuery string

// refused reports whether the server refused something for want of rights.
func refused(err error) bool { return hasCode(err, "42501") }

func hasCode(err error, code string) bool {
	refusal, is := errors.AsType[*pgconn.PgError](err)
	return is && refusal.Code == code
}

// lookAtPublication is about what the connector is sent, and how the table can leave it.
func (e *examination) lookAtPublication(ctx context.Context) error {
	name := e.connector.Publication
	if e.connector.Plugin != "pgoutput" {
		e.notLooked("publication", "%s reads none", e.connector.Plugin)
		return nil
	}
	var all, inserts, changes, owns, direct, has bool
	var owner string
	var tables int
	err := e.Database.QueryRow(ctx, publicationQuery, name, e.table.oid).Scan(&all, &inserts, &changes, &owner, &owns, &tables, &direct, &has)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		e.refuse("publication", "see that database.url is the database of the connector", "there is no publication %s here", name)
		return nil
	case err != nil:
		return err
	case !inserts:
		e.refuse("publication", "see that publication.name is the one that the connector reads", "%s sends no inserts", name)
		return nil
	case !has:
		e.differs("publication", "if the table is adopted and cut over already, nothing is to be done", "%s does not have %s: the connector is not sent its rows", name, e.table)
		return nil
	case all, !direct:
		e.same("publication", "%s has %s with all tables, or all of its schema: none can leave it, so the cutover renames the table and puts a view in its place", name, e.table)
	case tables > 1:
		e.same("publication", "%s has %d tables; the cutover takes %s out and leaves the others to the connector", name, tables, e.table)
	default:
		e.same("publication", "%s has %s alone; the cutover takes it out", name, e.table)
	}
	if owns {
		e.same("rights on the publication", "this login owns it or is a member of its owner, %s", owner)
	} else {
		e.differs("rights on the publication", "cut over as "+owner+", or as a member of it", "this login does not own %s, and may not take the table out", name)
	}
	var rows, columns bool
	err = e.Database.QueryRow(ctx, filtersQuery, name, e.table.oid).Scan(&rows, &columns)
	switch {
	case errors.Is(err, pgx.ErrNoRows), hasCode(err, "42703"): // before PostgreSQL 15 there is no such column
		return nil
	case err != nil:
		return err
	case rows:
		e.refuse("row filter", "give adopt the same condition, or take the filter out of the publication", "%s sends some rows of %s alone", name, e.table)
	case columns:
		e.differs("column list", "see that it has all columns that the router reads", "%s sends some columns of %s alone", name, e.table)
	}
	return nil
}

// lookAtFence is about the position in the write-ahead log, which a cutover notes.
func (e *examination) lookAtFence(ctx context.Context) error {
	err := adopt.CanFence(ctx, e.Database)
	if refusal, is := errors.AsType[*adopt.NoFenceError](err); is {
		e.refuse("fence", "give the endpoint of the primary in database.url", "%v", refusal)
		return nil
	} else if err != nil {
		return err
	}
	e.same("fence", "the server says its position in the write-ahead log")
	return nil
}

// lookAtSlot is about the slot of the connector, which a cutover waits for.
func (e *examination) lookAtSlot(ctx context.Context) error {
	name := e.connector.Slot
	var plugin, database, status, confirmed string
	var here, active bool
	err := e.Database.QueryRow(ctx, slotQuery, name).Scan(&plugin, &database, &here, &active, &status, &confirmed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		e.differs("slot", "see that database.url is the server of the connector; without its slot a cutover cannot know what the connector has sent", "there is no slot %s here", name)
		return nil
	case err != nil:
		return err
	case !here:
		e.differs("slot", "give the database of the connector in database.url", "the slot %s is of the database %s", name, database)
		return nil
	case status == "lost":
		e.refuse("slot", "make the connector whole first: events that were written since are in no topic", "the slot %s is lost: the server has removed the write-ahead log that it needs", name)
		return nil
	}
	var behind *int64
	err = e.Database.QueryRow(ctx, lagQuery, name).Scan(&behind)
	text := "the server does not say how far it is behind"
	switch {
	case err == nil && behind != nil:
		text = bytesText(max(*behind, 0)) + " of the write-ahead log behind"
	case err != nil && !hasCode(err, "55000") && !hasCode(err, "42883") && !refused(err): // object_not_in_prerequisite_state, undefined_function
		return err
	}
	switch {
	case !active:
		e.differs("slot", "start the connector: a cutover needs it", "the slot %s is read by no connector now (%s, %s, confirmed up to %s)", name, status, text, confirmed)
	case status == "unreserved":
		e.differs("slot", "let the connector catch up, or raise max_slot_wal_keep_size", "the server is about to remove write-ahead log that the slot %s needs (%s)", name, text)
	default:
		e.same("slot", "%s is read now, %s, confirmed up to %s", name, text, confirmed)
	}
	return nil
}
