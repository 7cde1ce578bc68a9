package adopt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Forward is a row of outbox_forward: how a table is forwarded.
type Forward struct {
	// Table is the table with its schema, quoted where SQL needs it.
	Table string
	// Definition is what the function was made of.
	Definition Definition
	// Mode is what becomes of the rows, and Prefix what topics of a shadow begin with.
	Mode   Mode
	Prefix string
	// Slot and Publication are the connector's; empty without one.
	Slot, Publication string
	// Fence is the position in the write-ahead log at which the table left the publication; empty before.
	Fence string
	// Since is when the mode began.
	Since time.Time
}

const readForward = `select definition, mode, prefix, coalesce(slot, ''), coalesce(publication, ''), coalesce(fence::text, ''), changed_at
from postrider.outbox_forward where source_table = $1`

// Read returns how a table is forwarded; nil where it is not.
func Read(ctx context.Context, db querier, table string) (*Forward, error) {
	f := &Forward{Table: table}
	err := db.QueryRow(ctx, readForward, table).Scan(&f.Definition, &f.Mode, &f.Prefix, &f.Slot, &f.Publication, &f.Fence, &f.Since)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read postrider.outbox_forward: %w", err)
	}
	return f, nil
}

// ReadShadow returns how a table with a shadow is forwarded, and refuses any other. table is as in SQL. It needs the right to read
// outbox_forward, and none on the table.
func ReadShadow(ctx context.Context, db querier, table string) (*Forward, error) {
	var name string
	err := db.QueryRow(ctx, `select format('%I.%I', n.nspname, c.relname)
		from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass($1)`, table).Scan(&name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, noTable(ctx, db, table)
	} else if err != nil {
		return nil, fmt.Errorf("look for the table %s: %w", table, err)
	}
	now, err := Read(ctx, db, name)
	switch {
	case err != nil:
		return nil, err
	case now == nil:
		return nil, fmt.Errorf("%s has no shadow: postrider debezium shadow %s --run makes one", name, name)
	case now.Mode != ModeShadow:
		return nil, fmt.Errorf("%s has no shadow any more (%s since %s): there is nothing to compare", name, now.Mode, now.Since.UTC().Format(time.RFC3339))
	}
	return now, nil
}

// trigger is the trigger of a table as it is in the database.
type trigger struct {
	// ours says that its function is one of Postrider's.
	ours bool
	// enabled says that it fires in sessions of writers.
	enabled bool
	// body is the source of its function.
	body string
}

const readTrigger = `select n.nspname = 'postrider' and starts_with(p.proname, 'outbox_forward_'), t.tgenabled in ('O', 'A'), p.prosrc
from pg_catalog.pg_trigger t join pg_catalog.pg_proc p on p.oid = t.tgfoid join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where t.tgrelid = $1 and t.tgname = $2 and not t.tgisinternal`

// trigger returns the trigger of the table; nil where it has none.
func (t *Table) currentTrigger(ctx context.Context, db querier) (*trigger, error) {
	var now trigger
	err := db.QueryRow(ctx, readTrigger, t.oid, TriggerName).Scan(&now.ours, &now.enabled, &now.body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the trigger of %s: %w", t.Name, err)
	}
	if !now.ours {
		return nil, fmt.Errorf("%s has a trigger %s that is not Postrider's: drop or rename it first", t.Name, TriggerName)
	}
	return &now, nil
}

// fires says whether the trigger fires in sessions of writers: that of the view, where one has the name of the table.
func (t *Table) fires(ctx context.Context, db querier) (yes bool, err error) {
	function := t.functionName()
	if t.kept != "" {
		function = t.viewFunction()
	}
	err = db.QueryRow(ctx, `select exists (select from pg_catalog.pg_trigger g join pg_catalog.pg_proc p on p.oid = g.tgfoid
		where g.tgrelid = to_regclass($1) and g.tgname = $2 and p.proname = $3 and g.tgenabled in ('O', 'A'))`, t.Name, TriggerName, function).Scan(&yes)
	if err != nil {
		err = fmt.Errorf("read the trigger of %s: %w", t.Name, err)
	}
	return yes, err
}

// publications are the publications that have the table itself.
func (t *Table) publications(ctx context.Context, db querier) ([]string, error) {
	rows, err := db.Query(ctx, `select p.pubname::text from pg_catalog.pg_publication_tables p
		join pg_catalog.pg_namespace n on n.nspname = p.schemaname join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = p.tablename
		where c.oid = $1 order by 1`, t.oid)
	var names []string
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("read the publications of %s: %w", t.Name, err)
	}
	return names, nil
}

// prove has PostgreSQL read the expressions of a definition, as the function will, without a row.
func (t *Table) prove(ctx context.Context, tx pgx.Tx, d Definition) error {
	values, err := t.values(d, "")
	if err != nil {
		return err
	}
	var expressions []string
	for _, v := range values {
		expressions = append(expressions, v.sql)
	}
	sql := "select " + strings.Join(expressions, ", ") + " from (select * from " + t.Name + " limit 0) as r"
	if d.Where != "" {
		sql += " where " + d.Where
	}
	sub, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Rollback(ctx) }()
	if _, err := sub.Exec(ctx, "set local search_path = pg_catalog, pg_temp"); err != nil {
		return err
	}
	if _, err := sub.Exec(ctx, sql); err != nil {
		return fmt.Errorf("PostgreSQL refuses what is to become of the rows of %s: %w; functions and types need their schema here", t.Name, err)
	}
	return nil
}
