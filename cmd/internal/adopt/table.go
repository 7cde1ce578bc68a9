package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Table is an outbox table as the database describes it.
type Table struct {
	// Name is the table with its schema, quoted where SQL needs it.
	Name string
	oid  uint32
	// schema and base are the two parts of the name, unquoted.
	schema  string
	base    string
	kind    string // relkind
	columns []column
	// kept is the table itself, where a view has its name; empty otherwise.
	kept string
	// owner owns postrider.outbox_event, and with it the function of the trigger.
	owner string
}

// column is a column with the type that counts, under a domain, and the digits of a second that a time of it has; -1 is all.
type column struct {
	name, typ string
	digits    int
}

func (t *Table) column(name string) (column, bool) {
	i := slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
	if i < 0 {
		return column{}, false
	}
	return t.columns[i], true
}

// Has says whether the table has a column.
func (t *Table) Has(name string) bool {
	_, ok := t.column(name)
	return ok
}

// rowwise says that the trigger works row by row. A partitioned table gives its trigger for rows to all partitions, the coming
// ones included; rows that are inserted into a partition itself would pass a trigger for statements by.
func (t *Table) rowwise() bool { return t.kind == "p" }

const findTable = `select c.oid, n.nspname, c.relname, c.relkind::text, format('%I.%I', n.nspname, c.relname), c.relpersistence::text, c.relispartition,
	exists (select from pg_catalog.pg_inherits i where i.inhparent = c.oid),
	pg_has_role(c.relowner, 'usage'), (select pg_catalog.pg_get_userbyid(e.relowner) from pg_catalog.pg_class e where e.oid = to_regclass('postrider.outbox_event')),
	has_schema_privilege('postrider', 'create'), pg_has_role((select e.relowner from pg_catalog.pg_class e where e.oid = to_regclass('postrider.outbox_event')), 'usage'),
	current_user
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass($1)`

const findColumns = `select a.attname::text, pg_catalog.format_type(coalesce(nullif(t.typbasetype, 0), t.oid), null), coalesce(nullif(a.atttypmod, -1), t.typtypmod)
from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped order by a.attnum`

// FindTable reads what the database says of a table. name is as in SQL: quoted where it needs it, with or without its schema.
// A table that cannot be adopted, and a login that may not do it, are refused.
func FindTable(ctx context.Context, db querier, name string) (*Table, error) {
	if err := checkInstalled(ctx, db); err != nil {
		return nil, err
	}
	return readTable(ctx, db, name)
}

// readTable is FindTable on a server that was checked.
func readTable(ctx context.Context, db querier, name string) (*Table, error) {
	t := &Table{}
	var persistence, login string
	var owner *string
	var partition, children, owns, create, member bool
	err := db.QueryRow(ctx, findTable, name).Scan(&t.oid, &t.schema, &t.base, &t.kind, &t.Name, &persistence, &partition, &children,
		&owns, &owner, &create, &member, &login)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, noTable(ctx, db, name)
	} else if err != nil {
		return nil, fmt.Errorf("look for the table %s: %w", name, err)
	}
	kinds := map[string]string{"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index", "c": "a type"}
	if t.kind == "v" {
		kept, err := keptAs(ctx, db, t.Name)
		if err != nil {
			return nil, err
		}
		if kept != "" {
			table, err := readTable(ctx, db, kept)
			if err == nil {
				table.Name, table.schema, table.base, table.kept = t.Name, t.schema, t.base, kept
			}
			return table, err
		}
	}
	switch {
	case t.kind != "r" && t.kind != "p":
		return nil, fmt.Errorf("%s is %s, and only a table has rows that a trigger can forward: name the table", t.Name, kinds[t.kind])
	case t.schema == "postrider":
		return nil, fmt.Errorf("%s is Postrider's own table: name the table of the other outbox", t.Name)
	case persistence == "t":
		return nil, fmt.Errorf("%s is a temporary table, which each session has for itself: name the table of the other outbox", t.Name)
	case partition:
		return nil, fmt.Errorf("%s is a partition: name the table that it is a partition of, whose trigger all partitions get", t.Name)
	case children && t.kind == "r":
		return nil, fmt.Errorf("%s has tables that inherit from it, whose rows its trigger would not see: adopt each of them, after the inheritance is gone", t.Name)
	case !owns:
		return nil, fmt.Errorf("%s is not the owner of %s, nor a member of its owner, and may not make its trigger: connect as the owner", login, t.Name)
	case !create:
		return nil, fmt.Errorf("%s may not make functions in the schema postrider: connect as its owner, or grant create on schema postrider to %s", login, login)
	case !member:
		return nil, fmt.Errorf("%s is not a member of %s, which owns postrider.outbox_event and is to own the trigger's function: grant %s to %s", login, *owner, quote(*owner), quote(login))
	}
	t.owner = *owner
	if err := t.readColumns(ctx, db); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Table) readColumns(ctx context.Context, db querier) error {
	rows, err := db.Query(ctx, findColumns, t.oid)
	if err == nil {
		t.columns, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) { return c, row.Scan(&c.name, &c.typ, &c.digits) })
	}
	if err != nil {
		return fmt.Errorf("read the columns of %s: %w", t.Name, err)
	}
	return nil
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// checkInstalled refuses a server that takes no changes, and a database without the schema.
func checkInstalled(ctx context.Context, db querier) error {
	if err := checkPrimary(ctx, db); err != nil {
		return err
	}
	var there bool
	if err := db.QueryRow(ctx, `select to_regclass('postrider.outbox_forward') is not null`).Scan(&there); err != nil {
		return fmt.Errorf("look for the schema postrider: %w", err)
	}
	if !there {
		return errors.New("the database has no outbox of this version: run postrider migrate up first")
	}
	return nil
}

// noTable says what there is instead of a table that is not there.
func noTable(ctx context.Context, db querier, name string) error {
	_, last, found := strings.Cut(name, ".")
	if !found {
		last = name
	}
	rows, err := db.Query(ctx, `select format('%I.%I', n.nspname, c.relname) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
		where c.relkind in ('r', 'p') and lower(c.relname) = lower($1) and n.nspname <> 'postrider' order by 1`, strings.ReplaceAll(last, `"`, ""))
	var others []string
	if err == nil {
		others, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	switch {
	case err != nil:
		return fmt.Errorf("look for the table %s: %w", name, err)
	case len(others) > 0:
		return fmt.Errorf("there is no table %s; there is %s (name it so, in single quotes where a shell reads it)", name, strings.Join(others, ", "))
	}
	return fmt.Errorf("there is no table %s in this database: write it as in SQL, with its schema", name)
}

// quote returns an identifier as SQL takes it.
func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// literalSQL returns a text as SQL takes it, whatever standard_conforming_strings is.
func literalSQL(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}
