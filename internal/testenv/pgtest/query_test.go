package pgtest

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestQueries(t *testing.T) {
	t.Parallel()
	conn := NewEmpty(t).Conn(t)
	Exec(t, conn, `create table a (n integer); insert into a values (3), (5)`)
	Exec(t, conn, `insert into a values ($1)`, 7)
	if got := Value[int](t, conn, `select sum(n) from a where n > $1`, 3); got != 12 {
		t.Errorf("the sum is %d, want 12", got)
	}
	if got := Column[int](t, conn, `select n from a where n < $1 order by n`, 7); !slices.Equal(got, []int{3, 5}) {
		t.Errorf("%v", got)
	}
	// A sequence goes on with each question, so it comes true at the third.
	Exec(t, conn, `create sequence asked`)
	WaitFor(t, conn, `select nextval('asked') >= $1`, 3)
	if got := Value[int](t, conn, `select last_value from asked`); got != 3 {
		t.Errorf("asked %d times, want 3", got)
	}
}

func TestQueriesThatFailEndTheTest(t *testing.T) {
	t.Parallel()
	conn := NewEmpty(t).Conn(t)
	for sql, run := range map[string]func(t testing.TB, sql string){
		`drop table nothing`:               func(t testing.TB, sql string) { Exec(t, conn, sql) },
		`select 1 where false`:             func(t testing.TB, sql string) { Value[int](t, conn, sql) },
		`select 'text'`:                    func(t testing.TB, sql string) { Value[int](t, conn, sql) },
		`select n from no_table`:           func(t testing.TB, sql string) { Column[int](t, conn, sql) },
		`select 1 / 0`:                     func(t testing.TB, sql string) { Column[int](t, conn, sql) },
		`select true from no_table`:        func(t testing.TB, sql string) { WaitFor(t, conn, sql) },
		`select null::boolean where 1 = 0`: func(t testing.TB, sql string) { WaitFor(t, conn, sql) },
	} {
		r, reached := &recorder{TB: t}, false
		r.run(func() { run(r, sql); reached = true })
		if !r.failed || reached || !strings.Contains(strings.Join(r.messages, "\n"), sql) {
			t.Errorf("%s: failed %v, went on %v, said %q", sql, r.failed, reached, r.messages)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	db := NewEmpty(t)
	conn := (&DB{Name: db.Name, URL: db.With("application_name", "x y")}).Conn(t)
	if got := Value[string](t, conn, `show application_name`); got != "x y" {
		t.Errorf("application_name is %q", got)
	}
	// A role that every server has, and that cannot log in.
	conn = (&DB{Name: db.Name, URL: db.As("pg_monitor")}).Conn(t)
	if got := Value[string](t, conn, `select current_user::text`); got != "pg_monitor" {
		t.Errorf("the rights belong to %s", got)
	}
	address, password := db.Login(t, "pg_monitor")
	conn = (&DB{Name: db.Name, URL: address}).Conn(t)
	if got := Value[string](t, conn, `select session_user || ' ' || pg_has_role('pg_monitor', 'member') || ' ' || rolsuper from pg_roles where rolname = session_user`); !strings.HasPrefix(got, "test_") ||
		!strings.HasSuffix(got, " true false") || !strings.Contains(address, password) {
		t.Errorf("it is logged in as %s", got)
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	conn := NewEmpty(t).Conn(t)
	queries := fstest.MapFS{"queries/good.sql": {Data: []byte("select 1")}, "queries/bad.sql": {Data: []byte("select no_column")}, "other.sql": {Data: []byte("x")}}
	text := func(name string) string { return string(queries["queries/"+name+".sql"].Data) }
	r := &recorder{TB: t}
	r.run(func() { Prepare(r, conn, queries, text) })
	if !r.failed || len(r.messages) != 1 || !strings.HasPrefix(r.messages[0], "bad: ") {
		t.Errorf("failed %v, said %q", r.failed, r.messages)
	}
	delete(queries, "queries/bad.sql")
	r = &recorder{TB: t}
	r.run(func() { Prepare(r, NewEmpty(t).Conn(t), queries, text) })
	if r.failed {
		t.Errorf("what is right is refused: %q", r.messages)
	}
	r.run(func() { Prepare(r, conn, fstest.MapFS{}, text) })
	if !r.failed {
		t.Error("no queries at all are not noticed")
	}
}
