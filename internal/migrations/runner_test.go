package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestUpAndStatus(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	r := migrations.New(conn, tables(t, 3))
	ctx := t.Context()

	if rows, err := r.Status(ctx); err != nil || len(rows) != 3 || rows[0].State != migrations.StatePending {
		t.Fatalf("status of an empty database: %v, %v", rows, err)
	}
	done, err := migrations.New(conn, tables(t, 1)).Up(ctx)
	if err != nil || len(done) != 1 || done[0].Room != "a" || done[0].Version != 1 || done[0].Name != "t1" {
		t.Fatalf("Up of one: %+v, %v", done, err)
	}
	if got := do(t, r.Up); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("Up ran %v", got)
	}
	if got := do(t, r.Up); len(got) != 0 {
		t.Errorf("a second Up ran %v", got)
	}
	if err := r.Validate(ctx); err != nil {
		t.Error(err)
	}
	rows, err := r.Status(ctx)
	if err != nil || len(rows) != 3 || rows[2].State != migrations.StateApplied || rows[2].AppliedAt.IsZero() {
		t.Errorf("status: %+v, %v", rows, err)
	}
}

func TestConcurrentMigratorsApplyOnce(t *testing.T) {
	t.Parallel()
	const migrators = 5
	db, all := pgtest.NewEmpty(t), tables(t, 4)
	type outcome struct {
		done []migrations.Applied
		err  error
	}
	outcomes := make(chan outcome)
	for range migrators {
		r := migrations.New(db.Conn(t), all)
		go func() {
			done, err := r.Up(t.Context())
			outcomes <- outcome{done, err}
		}()
	}
	times := map[int]int{}
	for range migrators {
		o := <-outcomes
		if o.err != nil {
			t.Error(o.err)
		}
		for _, a := range o.done {
			times[a.Version]++
		}
	}
	for v := 1; v <= 4; v++ {
		if times[v] != 1 {
			t.Errorf("version %d was applied %d times", v, times[v])
		}
	}
}

func TestLockWaitEndsWithContext(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	holder, conn := db.Conn(t), db.Conn(t)
	execute(t, holder, fmt.Sprintf("set application_name = 'deploy job'; select pg_advisory_lock(%d)", migrations.LockKey))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen string
	r := migrations.New(conn, tables(t, 1), migrations.WithWaiting(func(holder string) { seen = holder; cancel() }))
	_, err := r.Up(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "'deploy job'") {
		t.Errorf("the error does not say who has the lock: %v", err)
	}
	if !strings.Contains(seen, fmt.Sprintf("process %d ", holder.PgConn().PID())) {
		t.Errorf("WithWaiting was told %q", seen)
	}
	execute(t, holder, fmt.Sprintf("select pg_advisory_unlock(%d)", migrations.LockKey))
	// The same connection is still good, and gives the lock back after use.
	if got := do(t, r.Up); len(got) != 1 {
		t.Errorf("Up after the wait ran %v", got)
	}
	var free bool
	if err := holder.QueryRow(t.Context(), "select pg_try_advisory_lock($1)", migrations.LockKey).Scan(&free); err != nil || !free {
		t.Errorf("the lock is not free after Up: %v, %v", free, err)
	}
}

func TestDatabaseThatDisagrees(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string // of the history, after version 2 of 3
		kind   error
		want   []string
	}{
		"behind":      {"select 1", migrations.ErrBehind, []string{"lacks a/0003_t3", "postrider migrate up"}},
		"ahead":       {"insert into postrider.schema_migration values ('a', 3, 't3', (select 'x')), ('a', 4, 'later', 'x')", migrations.ErrAhead, []string{"a/0004_later", "ends at a/0003"}},
		"a new room":  {"insert into postrider.schema_migration values ('attic', 1, 'baseline', 'x')", migrations.ErrAhead, []string{"attic/0001_baseline", "ends at a/0003"}},
		"edited":      {"update postrider.schema_migration set checksum = 'abc' where version = 2", migrations.ErrChanged, []string{"a/0002_t2.sql", "edited after it was applied", "abc"}},
		"renamed":     {"update postrider.schema_migration set name = 'old' where version = 1", migrations.ErrChanged, []string{`"old"`, `"t1"`}},
		"with a hole": {"delete from postrider.schema_migration where version = 1", migrations.ErrChanged, []string{"version 2 recorded without version 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := pgtest.NewEmpty(t).Conn(t)
			r := migrations.New(conn, tables(t, 3))
			do(t, migrations.New(conn, tables(t, 2)).Up)
			execute(t, conn, test.change)

			err := r.Validate(t.Context())
			if !errors.Is(err, test.kind) {
				t.Fatalf("Validate: %v, want %v", err, test.kind)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
			if errors.Is(test.kind, migrations.ErrBehind) {
				return
			}
			before := catalog(t, conn)
			if _, err := r.Up(t.Context()); !errors.Is(err, test.kind) {
				t.Errorf("Up: %v", err)
			}
			if _, err := r.PendingSQL(t.Context(), migrations.ForPsql); !errors.Is(err, test.kind) {
				t.Errorf("PendingSQL: %v", err)
			}
			sameCatalog(t, "a refused migration changed the database", catalog(t, conn), before)
			if _, err := r.Status(t.Context()); err != nil {
				t.Errorf("Status must show what Up refuses: %v", err)
			}
		})
	}
}

func TestStatusShowsChangedAndUnknown(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	do(t, migrations.New(conn, tables(t, 3)).Up)
	execute(t, conn, "update postrider.schema_migration set checksum = 'x' where version = 1")
	rows, err := migrations.New(conn, tables(t, 2)).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var states []migrations.State
	for _, row := range rows {
		states = append(states, row.State)
	}
	if want := []migrations.State{migrations.StateChanged, migrations.StateApplied, migrations.StateUnknown}; !slices.Equal(states, want) {
		t.Errorf("states %v, want %v", states, want)
	}
}

func TestValidateWithoutAnything(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	if err := migrations.New(conn, nil).Validate(t.Context()); err == nil {
		t.Error("Validate of no rooms gave no error")
	}
	err := migrations.New(conn, tables(t, 1)).Validate(t.Context())
	if !errors.Is(err, migrations.ErrBehind) || !strings.Contains(err.Error(), "postrider migrate up") {
		t.Errorf("Validate of an empty database: %v", err)
	}
}

// TestHistoryOfBefore: a database of the time before rooms is refused by name.
func TestHistoryOfBefore(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	execute(t, conn, "create schema postrider; create table postrider.schema_migration (version int, name text, checksum text, applied_at timestamptz)")
	if _, err := migrations.New(conn, tables(t, 1)).Up(t.Context()); !errors.Is(err, migrations.ErrChanged) || !strings.Contains(err.Error(), "drop the schema") {
		t.Errorf("%v", err)
	}
}

// TestSQLDoesWhatTheRunnerDoes runs the scripts and compares with the runner.
func TestSQLDoesWhatTheRunnerDoes(t *testing.T) {
	t.Parallel()
	byHand, byRunner := pgtest.NewEmpty(t).Conn(t), pgtest.NewEmpty(t).Conn(t)
	content := map[string]string{
		"a/0001_t1.sql": "create table t1 (id int primary key)", "a/code/f.sql": "create function f() returns int language sql as 'select 1'",
		"b/0001_t2.sql": "create table t2 (id int primary key);", "b/code/v.sql": "create view v as select id, postrider.f() as f from t2; -- all",
	}
	one := load(t, content)
	content["b/0002_change.sql"] = "alter table t2 alter column id type bigint;"
	two := load(t, content)

	do(t, migrations.New(byRunner, one).Up)
	do(t, migrations.New(byRunner, two).Up)
	execute(t, byHand, migrations.New(nil, one).SQL(migrations.ForPsql))
	r := migrations.New(byHand, two)
	script, err := r.PendingSQL(t.Context(), migrations.ForPsql)
	if err != nil || strings.Contains(script, "a/0001_t1") || strings.Contains(script, "a/code") {
		t.Fatalf("%v:\n%s", err, script)
	}
	execute(t, byHand, script)
	sameCatalog(t, "the script differs from Up", catalog(t, byHand), catalog(t, byRunner))
	if err := r.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	var locks int
	if err := byHand.QueryRow(t.Context(), "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()").Scan(&locks); err != nil || locks != 0 {
		t.Errorf("the script leaves %d advisory locks, %v", locks, err)
	}
	if script, err := r.PendingSQL(t.Context(), migrations.ForPsql); err != nil || strings.Contains(script, ";") {
		t.Errorf("a script that has nothing to do has statements (%v):\n%s", err, script)
	}
}

// TestSchemaOfAnotherOwner: a schema that an administrator made is used as it is.
func TestSchemaOfAnotherOwner(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	role := "migrator_of_" + conn.Config().Database[len(conn.Config().Database)-12:]
	execute(t, conn, fmt.Sprintf(`create schema postrider; create role %[1]s;
		grant usage, create on schema postrider to %[1]s; set role %[1]s`, role))
	t.Cleanup(func() {
		_, err := conn.PgConn().Exec(context.Background(), fmt.Sprintf("reset role; drop owned by %[1]s cascade; drop role %[1]s", role)).ReadAll()
		if err != nil {
			t.Error(err)
		}
	})
	r := migrations.New(conn, tables(t, 2))
	if got := do(t, r.Up); len(got) != 2 {
		t.Errorf("Up ran %v", got)
	}
	if err := r.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}
