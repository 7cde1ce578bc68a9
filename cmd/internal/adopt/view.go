package adopt

import (
	"context"
	"errors"
	"fmt"
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

// tableRights are the rights on a table that others have.
const tableRights = `select lower(a.privilege_type), case a.grantee when 0 then 'public' else quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end, a.is_grantable,
	quote_ident(pg_catalog.pg_get_userbyid(c.relowner))
from pg_catalog.pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
where c.oid = $1 and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
order by a.grantee, a.privilege_type`

// asView is the SQL that puts a view in the place of the table; mode is what becomes of its rows.
func (t *Table) asView(ctx context.Context, tx pgx.Tx, now *Forward, mode Mode) (string, error) {
	schema, _, _ := strings.Cut(t.Name, "."+quoteAsNeeded(t))
	kept := t.base + keptSuffix
	if len(kept) > 63 {
		return "", fmt.Errorf("the name of %s is too long for %s behind it: rename the table first", t.Name, keptSuffix)
	}
	if now.Definition.Where != "" {
		return "", fmt.Errorf("%s is forwarded with a condition (--where), and rows that are not forwarded would be nowhere: a view cannot take its place", t.Name)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "lock table %s in access exclusive mode;\nalter table %s rename to %s;\ncreate view %s as select * from %s.%s where false;\n",
		t.Name, t.Name, quote(kept), t.Name, schema, quote(kept))
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
	var privilege, grantee, owner string
	var grantable bool
	if _, err := pgx.ForEachRow(rows, []any{&privilege, &grantee, &grantable, &owner}, func() error {
		if grantee == owner {
			return nil
		}
		option := ""
		if grantable {
			option = " with grant option"
		}
		fmt.Fprintf(&out, "grant %s on %s to %s%s;\n", privilege, t.Name, grantee, option)
		for _, s := range sequences {
			if privilege == "insert" {
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
	out.WriteString(function)
	fmt.Fprintf(&out, `create trigger %s instead of insert on %s for each row execute function postrider.%s();
comment on view %s is %s;
update postrider.outbox_forward set kept_as = %s, changed_at = clock_timestamp() where source_table = %s;
`, TriggerName, t.Name, quote(t.viewFunction()), t.Name,
		literalSQL("Takes the inserts that were meant for the table "+kept+", and writes them into postrider.outbox_event alone. Made by postrider adopt."),
		literalSQL(schema+"."+quote(kept)), literalSQL(t.Name))
	return out.String(), nil
}

// quoteAsNeeded is the name of the table as it stands at the end of Table.Name.
func quoteAsNeeded(t *Table) string {
	if strings.HasSuffix(t.Name, "."+t.base) {
		return t.base
	}
	return quote(t.base)
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
	// Names in the defaults get their schemas.
	if _, err := tx.Exec(ctx, "set local search_path = ''"); err != nil {
		return nil, nil, err
	}
	rows, err := tx.Query(ctx, viewColumns, t.oid, t.Name)
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
	return a.locked(ctx, table, func(tx pgx.Tx) error {
		script, t, err := a.planView(ctx, tx, table)
		if err != nil {
			return err
		}
		if script == "" {
			a.Say("a view is in the place of %s already: nothing was done", table)
			return nil
		}
		if _, err := tx.Exec(ctx, script); err != nil {
			return err
		}
		a.Say("%s is a view now, and what is inserted into it becomes events alone; the table is kept as %s", t.Name, t.base+keptSuffix)
		return nil
	})
}

// ShowView returns what AsView would do, as a script.
func (a *Adopter) ShowView(ctx context.Context, table string) (string, error) {
	return a.show(ctx, func(tx pgx.Tx) (string, error) {
		script, _, err := a.planView(ctx, tx, table)
		return script, err
	})
}

func (a *Adopter) planView(ctx context.Context, tx pgx.Tx, table string) (string, *Table, error) {
	if err := checkInstalled(ctx, tx); err != nil {
		return "", nil, err
	}
	if view, _, err := a.view(ctx, tx, table); err != nil || view != "" {
		return "", nil, err
	}
	t, now, err := a.known(ctx, tx, table)
	if err != nil {
		return "", nil, err
	}
	if now.Mode != ModeForward {
		return "", nil, fmt.Errorf("%s is not forwarded by Postrider alone (%s): a view can take its place after the cutover", t.Name, now.Mode)
	}
	script, err := t.asView(ctx, tx, now, ModeForward)
	return script, t, err
}

// view returns the view of that name, if Postrider made it, and the table behind it.
func (a *Adopter) view(ctx context.Context, db querier, table string) (view, kept string, err error) {
	err = db.QueryRow(ctx, `select format('%I.%I', n.nspname, c.relname) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
		where c.oid = to_regclass($1) and c.relkind = 'v'`, table).Scan(&view)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", "", nil
	} else if err != nil {
		return "", "", fmt.Errorf("look for the view %s: %w", table, err)
	}
	if kept, err = keptAs(ctx, db, view); err != nil || kept == "" {
		return "", "", err
	}
	return view, kept, nil
}

// AsTable puts the table back in the place of its view. Its trigger forwards its rows, as before.
func (a *Adopter) AsTable(ctx context.Context, table string) error {
	return a.locked(ctx, table, func(tx pgx.Tx) error {
		script, err := a.planTable(ctx, tx, table)
		if err != nil {
			return err
		}
		if script == "" {
			a.Say("no view is in the place of %s: nothing was done", table)
			return nil
		}
		if _, err := tx.Exec(ctx, script); err != nil {
			return err
		}
		a.Say("%s is the table again, and its rows are forwarded", table)
		return nil
	})
}

// ShowTable returns what AsTable would do, as a script.
func (a *Adopter) ShowTable(ctx context.Context, table string) (string, error) {
	return a.show(ctx, func(tx pgx.Tx) (string, error) { return a.planTable(ctx, tx, table) })
}

func (a *Adopter) planTable(ctx context.Context, tx pgx.Tx, table string) (string, error) {
	if err := checkInstalled(ctx, tx); err != nil {
		return "", err
	}
	view, kept, err := a.view(ctx, tx, table)
	if err != nil || view == "" {
		return "", err
	}
	var wide bool
	if err := tx.QueryRow(ctx, `select exists (select from pg_catalog.pg_publication_tables p join postrider.outbox_forward f on f.publication = p.pubname
		where f.source_table = $1 and format('%I.%I', p.schemaname, p.tablename) = f.kept_as)`, view).Scan(&wide); err != nil {
		return "", fmt.Errorf("read the publications of %s: %w", kept, err)
	}
	if wide {
		return "", fmt.Errorf("the connector's publication has every table, and would send the rows of %s as soon as it has its name again: postrider debezium rollback goes back to the connector", kept)
	}
	return a.tableBack(ctx, tx, view, kept)
}

// tableBack is the SQL that puts a table back in the place of its view.
func (a *Adopter) tableBack(ctx context.Context, tx pgx.Tx, view, kept string) (string, error) {
	var name, function string
	if err := tx.QueryRow(ctx, `select quote_ident(left(c.relname, -length($2))), f.function_name from pg_catalog.pg_class c, postrider.outbox_forward f
		where c.oid = to_regclass($1) and f.source_table = $3`, kept, keptSuffix, view).Scan(&name, &function); err != nil {
		return "", fmt.Errorf("look for the table %s behind the view %s: %w", kept, view, err)
	}
	return fmt.Sprintf(`drop view %s;
drop function postrider.%s();
alter table %s rename to %s;
update postrider.outbox_forward set kept_as = null, changed_at = clock_timestamp() where source_table = %s;
`, view, quote(function+"_v"), kept, name, literalSQL(view)), nil
}

// show makes a plan in a transaction that is rolled back, as a script.
func (a *Adopter) show(ctx context.Context, plan func(pgx.Tx) (string, error)) (string, error) {
	tx, err := a.Conn.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	script, err := plan(tx)
	if err != nil {
		return "", err
	}
	if script == "" {
		return "-- It is so already: nothing is to be done.\n", nil
	}
	return "begin;\nset local lock_timeout = '2s';\n" + script + "commit;\n", nil
}
