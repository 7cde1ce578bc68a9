package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// keptSuffix is what the name of a table ends with while a view has its name.
const keptSuffix = "_before_postrider"

// keptAs returns the table that a view of Postrider stands for, quoted; empty for any other view.
func keptAs(ctx context.Context, db querier, view string) (string, error) {
	var kept string
	err := db.QueryRow(ctx, `select coalesce(kept_as, '') from postrider.outbox_forward where source_table = $1`, view).Scan(&kept)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("read postrider.outbox_forward: %w", err)
	}
	return kept, nil
}

// noView refuses a table whose name a view has.
func (t *Table) noView() error {
	if t.kept == "" {
		return nil
	}
	return fmt.Errorf("%s is a view that stands for the table, which is %s now: postrider adopt --as-table --run puts the table back first", t.Name, t.kept)
}

// viewColumns are the columns of a table with what a view has to say of them: the default, and the sequence of an identity.
const viewColumns = `select a.attname::text, coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), ''), a.attgenerated <> '',
	case when a.attidentity <> '' then coalesce(pg_catalog.pg_get_serial_sequence($2, a.attname), '') else '' end
from pg_catalog.pg_attribute a left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped order by a.attnum`

// tableRights are the rights on a table and on its columns that others have.
const tableRights = `select lower(a.privilege_type), a.col, case a.grantee when 0 then 'public' else quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end, a.is_grantable,
	quote_ident(pg_catalog.pg_get_userbyid(a.relowner))
from (select c.relowner, '' as col, x.* from pg_catalog.pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) x where c.oid = $1
	union all
	select c.relowner, quote_ident(k.attname), x.* from pg_catalog.pg_class c join pg_catalog.pg_attribute k on k.attrelid = c.oid, aclexplode(k.attacl) x
	where c.oid = $1 and k.attnum > 0 and not k.attisdropped) a
where a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
order by a.grantee, a.privilege_type, a.col`

// beforeInsert is what PostgreSQL does with a row before it is in the table: its policies of row-level security, and triggers.
const beforeInsert = `select c.relrowsecurity, coalesce((select string_agg(quote_ident(g.tgname), ', ' order by g.tgname) from pg_catalog.pg_trigger g
	where g.tgrelid = c.oid and not g.tgisinternal and g.tgenabled <> 'D' and g.tgtype & 2 <> 0 and g.tgtype & 4 <> 0), '')
from pg_catalog.pg_class c where c.oid = $1`

// whatAViewDoes is said in front of the SQL that makes it.
const whatAViewDoes = "-- %s becomes a view: SELECT finds no rows from then on, UPDATE and DELETE change 0,\n-- and INSERT ... ON CONFLICT (column) is refused by PostgreSQL.\n"

// asView is the SQL that puts a view in the place of the table; mode is what becomes of its rows.
func (t *Table) asView(ctx context.Context, tx pgx.Tx, now *Forward, mode Mode) (string, error) {
	kept := t.base + keptSuffix
	if len(kept) > 63 {
		return "", fmt.Errorf("the name of %s is too long for %s behind it: rename the table first", t.Name, keptSuffix)
	}
	if now.Definition.Where != "" {
		return "", fmt.Errorf("%s is forwarded with a condition (--where), and rows that are not forwarded would be nowhere: a view cannot take its place", t.Name)
	}
	var secured bool
	var triggers string
	if err := tx.QueryRow(ctx, beforeInsert, t.oid).Scan(&secured, &triggers); err != nil {
		return "", fmt.Errorf("read the triggers of %s: %w", t.Name, err)
	}
	switch {
	case secured:
		return "", fmt.Errorf("%s has row-level security, which a view of its name would not have: a view cannot take its place", t.Name)
	case triggers != "":
		return "", fmt.Errorf("%s has triggers before an insert (%s), which would not see the rows: a view cannot take its place until they are dropped or disabled", t.Name, triggers)
	}
	var out strings.Builder
	fmt.Fprintf(&out, whatAViewDoes, t.Name)
	full := pgx.Identifier{t.schema, kept}.Sanitize()
	fmt.Fprintf(&out, "alter table %s rename to %s;\ncreate view %s as select * from %s where false;\n", t.Name, quote(kept), t.Name, full)
	defaults, sequences, err := t.viewDefaults(ctx, tx)
	if err != nil {
		return "", err
	}
	for _, d := range defaults {
		fmt.Fprintf(&out, "alter view %s alter column %s set default %s;\n", t.Name, quote(d.column), d.sql)
	}
	rows, err := tx.Query(ctx, tableRights, t.oid)
	if err != nil {
		return "", err
	}
	var privilege, column, grantee, owner, inserts string
	var grantable bool
	if _, err := pgx.ForEachRow(rows, []any{&privilege, &column, &grantee, &grantable, &owner}, func() error {
		if grantee == owner {
			return nil
		}
		if column != "" {
			column = " (" + column + ")"
		}
		option := ""
		if grantable {
			option = " with grant option"
		}
		fmt.Fprintf(&out, "grant %s%s on %s to %s%s;\n", privilege, column, t.Name, grantee, option)
		if privilege == "insert" && inserts != grantee {
			inserts = grantee
			for _, s := range sequences {
				fmt.Fprintf(&out, "grant usage on sequence %s to %s;\n", s, grantee)
			}
		}
		return nil
	}); err != nil {
		return "", fmt.Errorf("read the rights on %s: %w", t.Name, err)
	}
	fmt.Fprintf(&out, "alter view %s owner to %s;\n", t.Name, owner)
	function, err := t.functionOfView(now.Definition, mode)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&out, `%s%scomment on view %s is %s;
update postrider.outbox_forward set kept_as = %s where source_table = %s;
`, function, t.triggerOfView(), t.Name,
		literalSQL("Takes the inserts that were meant for the table "+kept+", and writes them into postrider.outbox_event alone. Made by postrider adopt."),
		literalSQL(full), literalSQL(t.Name))
	return out.String(), nil
}

// triggerOfView is the statement that makes the trigger of the view.
func (t *Table) triggerOfView() string {
	return fmt.Sprintf("create or replace trigger %s instead of insert on %s for each row execute function postrider.%s();\n", TriggerName, t.Name, quote(t.viewFunction()))
}

// functionOfView is the statement that makes the function of the view's trigger.
func (t *Table) functionOfView(d Definition, mode Mode) (string, error) {
	body, err := t.source(d, mode, "", "(select new.*)", "new")
	if err != nil {
		return "", err
	}
	return t.functionOf(t.viewFunction(), body), nil
}

func (t *Table) viewFunction() string { return t.functionName() + "_v" }

// viewDefaults are the defaults of the table's columns, and the sequences that they draw from.
func (t *Table) viewDefaults(ctx context.Context, tx pgx.Tx) (defaults []value, sequences []string, err error) {
	sub, err := tx.Begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = sub.Rollback(ctx) }()
	// Names in the defaults get their schemas.
	if _, err := sub.Exec(ctx, "set local search_path = ''"); err != nil {
		return nil, nil, err
	}
	rows, err := sub.Query(ctx, viewColumns, t.oid, t.Name)
	if err != nil {
		return nil, nil, err
	}
	var name, expression, sequence string
	var generated bool
	_, err = pgx.ForEachRow(rows, []any{&name, &expression, &generated, &sequence}, func() error {
		switch {
		case generated:
			return fmt.Errorf("the column %q of %s is generated, which a column of a view cannot be: a view cannot take the place of the table", name, t.Name)
		case sequence != "":
			sequences = append(sequences, sequence)
			defaults = append(defaults, value{name, "nextval(" + literalSQL(sequence) + ")"})
		case expression != "":
			defaults = append(defaults, value{name, expression})
		}
		return nil
	})
	return defaults, sequences, err
}

// AsView puts a view in the place of a table that is forwarded: its rows are written into the log alone.
func (a *Adopter) AsView(ctx context.Context, table string) error {
	return a.change(ctx, table, toView)
}

// ShowView returns what AsView would do, as a script.
func (a *Adopter) ShowView(ctx context.Context, table string) (string, error) {
	return a.show(ctx, table, toView)
}

func toView(ctx context.Context, tx pgx.Tx, t *Table) (step, error) {
	s := step{lock: "access exclusive"}
	if t.kept != "" {
		s.say("a view is in the place of %s already: nothing was done", t.Name)
		return s, nil
	}
	now, err := known(ctx, tx, t)
	if err != nil {
		return s, err
	}
	if now.Mode != ModeForward {
		return s, fmt.Errorf("%s is not forwarded by Postrider alone (%s): a view can take its place after the cutover", t.Name, now.Mode)
	}
	s.say("%s is a view now, and what is inserted into it becomes events alone; the table is kept as %s", t.Name, t.base+keptSuffix)
	s.sql, err = t.asView(ctx, tx, now, ModeForward)
	return s, err
}

// AsTable puts the table back in the place of its view. Its trigger forwards its rows, as before.
func (a *Adopter) AsTable(ctx context.Context, table string) error {
	return a.change(ctx, table, toTable)
}

// ShowTable returns what AsTable would do, as a script.
func (a *Adopter) ShowTable(ctx context.Context, table string) (string, error) {
	return a.show(ctx, table, toTable)
}

func toTable(ctx context.Context, tx pgx.Tx, t *Table) (step, error) {
	s := step{lock: "access exclusive"}
	if t.kept == "" {
		s.say("no view is in the place of %s: nothing was done", t.Name)
		return s, nil
	}
	now, err := known(ctx, tx, t)
	if err != nil {
		return s, err
	}
	published, err := t.publications(ctx, tx)
	if err != nil {
		return s, err
	}
	if slices.Contains(published, now.Publication) {
		return s, fmt.Errorf("the connector's publication has every table, and would send the rows of %s as soon as it has its name again: postrider debezium rollback goes back to the connector", t.kept)
	}
	s.say("%s is the table again, and its rows are forwarded", t.Name)
	s.sql = t.back()
	return s, nil
}

// back is the SQL that puts a table back in the place of its view.
func (t *Table) back() string {
	return fmt.Sprintf(`drop view %s;
drop function postrider.%s();
alter table %s rename to %s;
update postrider.outbox_forward set kept_as = null where source_table = %s;
`, t.Name, quote(t.viewFunction()), t.kept, quote(t.base), literalSQL(t.Name))
}
