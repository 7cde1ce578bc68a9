package migrations_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// coded is a room with a table, two functions of one name, a view that needs one, and a trigger.
func coded() map[string]string {
	return map[string]string{
		"a/0001_base.sql": "create table base (id int);",
		"a/code/double.sql": "create or replace function double(n int) returns int language sql as 'select 2 * n';\n" +
			"create or replace function double(t text) returns text language sql as 'select t || t';",
		"a/code/gone.sql":    "create or replace function gone() returns int language sql as 'select 1';",
		"a/code/doubled.sql": "create or replace view doubled as select double(id) as n from base;",
		"a/code/noted.sql":   "create or replace function noted() returns trigger language plpgsql as 'begin return null; end';",
		"a/code/noting.sql":  "create or replace trigger noting after insert on base for each row execute function noted();",
		"a/code/going.sql":   "create or replace trigger going after update on base for each row execute function noted();",
	}
}

// with are the files with some changed; changed files without content are left out.
func with(content, changes map[string]string) map[string]string {
	changed := maps.Clone(content)
	for name, text := range changes {
		changed[name] = text
		if text == "" {
			delete(changed, name)
		}
	}
	return changed
}

// objects are the names of the functions, views and triggers of a database.
func objects(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `select oid::regprocedure::text from pg_proc where pronamespace = 'postrider'::regnamespace
		union all select relname from pg_class where relnamespace = 'postrider'::regnamespace and relkind = 'v'
		union all select tgname from pg_trigger where not tgisinternal`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, "postrider.")
	}
	slices.Sort(names)
	return names
}

// TestCodeIsReplaced: new code takes the place of the old, whatever its objects need of each other, and nothing of the old
// stays.
func TestCodeIsReplaced(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	old := load(t, coded())
	changed := load(t, with(coded(), map[string]string{
		"a/0002_wider.sql":   "alter table base alter column id type bigint;", // which the view shows
		"a/code/double.sql":  "create or replace function double(m bigint) returns numeric language sql as 'select 2.0 * m';",
		"a/code/doubled.sql": "create or replace view doubled as select id, double(id) as n from base;",
		"a/code/gone.sql":    "", "a/code/going.sql": "",
		"a/code/noted.sql": "create or replace function noted() returns trigger language plpgsql as 'begin return new; end';",
	}))
	do(t, migrations.New(conn, old).Up)
	if got, want := objects(t, conn), []string{"double(integer)", "double(text)", "doubled", "going", "gone()", "noted()", "noting"}; !slices.Equal(got, want) {
		t.Fatalf("there is %v, want %v", got, want)
	}
	execute(t, conn, "grant select on postrider.doubled to pg_monitor; grant execute on function postrider.noted() to pg_monitor")
	var trigger, same uint32
	if err := conn.QueryRow(t.Context(), "select oid from pg_trigger where tgname = 'noting'").Scan(&trigger); err != nil {
		t.Fatal(err)
	}

	r := migrations.New(conn, changed)
	if err := r.Validate(t.Context()); !errors.Is(err, migrations.ErrBehind) || !strings.Contains(err.Error(), "lacks a/0002_wider; run") {
		t.Errorf("before: %v", err)
	}
	if got := do(t, r.Up); !slices.Equal(got, []int{2, 0}) {
		t.Errorf("Up ran %v", got)
	}
	if got, want := objects(t, conn), []string{"double(bigint)", "doubled", "noted()", "noting"}; !slices.Equal(got, want) {
		t.Errorf("there is %v, want %v", got, want)
	}
	var view, function bool
	if err := conn.QueryRow(t.Context(), `select has_table_privilege('pg_monitor', 'postrider.doubled', 'select'),
		has_function_privilege('pg_monitor', 'postrider.noted()', 'execute')`).Scan(&view, &function); err != nil || !view || !function {
		t.Errorf("rights on the view %v, on the function %v, %v", view, function, err)
	}
	// Making a trigger again would lock its table against writers.
	if err := conn.QueryRow(t.Context(), "select oid from pg_trigger where tgname = 'noting' and xmin::text <> (select xmin::text from pg_proc where proname = 'noted')").Scan(&same); err != nil || same != trigger {
		t.Errorf("the trigger was made again: %v", err)
	}
}

// TestCodeIsMadeAgain: what was changed by hand is taken back, triggers included.
func TestCodeIsMadeAgain(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	r := migrations.New(conn, load(t, coded()))
	do(t, r.Up)
	before := catalog(t, conn)
	execute(t, conn, `set search_path = postrider; drop view doubled; drop trigger noting on base;
		create or replace function gone() returns int language sql as 'select 2'; drop function double(text)`)
	if got := do(t, r.Up); len(got) != 0 {
		t.Errorf("Up ran %v", got)
	}
	if got := do(t, r.UpAgain); !slices.Equal(got, []int{0}) {
		t.Errorf("UpAgain ran %v", got)
	}
	execute(t, conn, "reset search_path")
	sameCatalog(t, "made again", catalog(t, conn), before)
}

// TestCodeOfAnOlderBinary: it is told from a newer one, put back by Up, and left alone where that is wanted.
func TestCodeOfAnOlderBinary(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	old := load(t, coded())
	newer := load(t, with(coded(), map[string]string{"a/code/gone.sql": "create or replace function gone() returns int language sql as 'select 2';"}))
	do(t, migrations.New(conn, old).Up)
	if err := migrations.New(conn, newer).Validate(t.Context()); !errors.Is(err, migrations.ErrBehind) || !strings.Contains(err.Error(), "lacks a/code") {
		t.Errorf("newer code that is not applied: %v", err)
	}
	do(t, migrations.New(conn, newer).Up)
	err := migrations.New(conn, old).Validate(t.Context())
	if !errors.Is(err, migrations.ErrAhead) || errors.Is(err, migrations.ErrBehind) || !strings.Contains(err.Error(), "in a (since ") {
		t.Errorf("code that was replaced: %v", err)
	}
	if rows, err := migrations.New(conn, old).Status(t.Context()); err != nil || rows[1].State != migrations.StateChanged {
		t.Errorf("status %+v, %v", rows, err)
	}
	if got := do(t, migrations.New(conn, old, migrations.WithNewerCodeKept()).Up); len(got) != 0 {
		t.Errorf("newer code is not kept: %v", got)
	}
	if got := do(t, migrations.New(conn, old).Up); !slices.Equal(got, []int{0}) {
		t.Errorf("putting it back ran %v", got)
	}
	if err := migrations.New(conn, old).Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAForeignViewNeedsOurs: if a view outside of the schema needs one of ours, the error names it, and it stays.
func TestAForeignViewNeedsOurs(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	r := migrations.New(conn, load(t, coded()))
	do(t, r.Up)
	execute(t, conn, "create view public.theirs as select * from postrider.doubled")
	_, err := r.UpAgain(t.Context())
	var failed *migrations.ApplyError
	if !errors.As(err, &failed) || failed.Room != "a" || !strings.Contains(err.Error(), "view theirs depends on view doubled") || !strings.Contains(failed.Hint, "create it again") {
		t.Errorf("%v", err)
	}
}
