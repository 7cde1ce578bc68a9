package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/migrations/pgtest"
)

func TestUpToDownStatus(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	r := migrations.New(conn, tables(t, 3))
	ctx := t.Context()

	if rows, err := r.Status(ctx); err != nil || len(rows) != 3 || rows[0].State != migrations.StatePending {
		t.Fatalf("status of an empty database: %v, %v", rows, err)
	}
	done, err := r.To(ctx, 1)
	if err != nil || len(done) != 1 || done[0].Version != 1 || done[0].Name != "t1" || done[0].Direction != migrations.Up {
		t.Fatalf("To 1: %+v, %v", done, err)
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
	down := func(steps int) func(context.Context) ([]migrations.Applied, error) {
		return func(ctx context.Context) ([]migrations.Applied, error) { return r.Down(ctx, steps) }
	}
	if got := do(t, down(2)); !slices.Equal(got, []int{3, 2}) {
		t.Errorf("Down 2 ran %v", got)
	}
	if !exists(t, conn, "postrider.t1") || exists(t, conn, "postrider.t2") {
		t.Error("Down 2 of 3 left other tables than t1")
	}
	for name, refused := range map[string]func() error{
		"Down 2 of 1 is refused": func() error { _, err := r.Down(ctx, 2); return err },
		"Down 0":                 func() error { _, err := r.Down(ctx, 0); return err },
		"To 4 of 3":              func() error { _, err := r.To(ctx, 4); return err },
		"To -1":                  func() error { _, err := r.To(ctx, -1); return err },
	} {
		if err := refused(); err == nil {
			t.Errorf("%s gave no error", name)
		}
	}
	if v := version(t, r); v != 1 {
		t.Errorf("a refused call moved the database to version %d", v)
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
	for v := 1; v <= len(all); v++ {
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
		"behind":      {"select 1", migrations.ErrBehind, []string{"version 2 of 3", "0003_t3", "postrider migrate up"}},
		"ahead":       {"insert into postrider.schema_migration values (3, 't3', (select 'x')), (4, 'later', 'x')", migrations.ErrAhead, []string{"0004_later", "ends at version 3"}},
		"edited":      {"update postrider.schema_migration set checksum = 'abc' where version = 2", migrations.ErrChanged, []string{"0002_t2.up.sql", "edited after it was applied", "abc"}},
		"renamed":     {"update postrider.schema_migration set name = 'old' where version = 1", migrations.ErrChanged, []string{`"old"`, `"t1"`}},
		"with a hole": {"delete from postrider.schema_migration where version = 1", migrations.ErrChanged, []string{"version 2 is recorded without version 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := pgtest.NewEmpty(t).Conn(t)
			r := migrations.New(conn, tables(t, 3))
			do(t, func(ctx context.Context) ([]migrations.Applied, error) { return r.To(ctx, 2) })
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
			if _, err := r.Down(t.Context(), 1); !errors.Is(err, test.kind) {
				t.Errorf("Down: %v", err)
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
	three := tables(t, 3)
	do(t, migrations.New(conn, three).Up)
	execute(t, conn, "update postrider.schema_migration set checksum = 'x' where version = 1")
	rows, err := migrations.New(conn, three[:2]).Status(t.Context())
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
		t.Error("Validate of no migrations gave no error")
	}
	err := migrations.New(conn, tables(t, 1)).Validate(t.Context())
	if !errors.Is(err, migrations.ErrBehind) || !strings.Contains(err.Error(), "postrider migrate up") {
		t.Errorf("Validate of an empty database: %v", err)
	}
}

// TestSQLDoesWhatTheRunnerDoes runs the scripts and compares with the runner.
func TestSQLDoesWhatTheRunnerDoes(t *testing.T) {
	t.Parallel()
	all := tables(t, 2)
	byHand, byRunner := pgtest.NewEmpty(t).Conn(t), pgtest.NewEmpty(t).Conn(t)
	empty := catalog(t, byHand)
	r := migrations.New(byHand, all)

	execute(t, byHand, script(t, r, 0, 2))
	do(t, migrations.New(byRunner, all).Up)
	sameCatalog(t, "the script up differs from Up", catalog(t, byHand), catalog(t, byRunner))
	if err := r.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	var locks int
	if err := byHand.QueryRow(t.Context(), "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()").Scan(&locks); err != nil || locks != 0 {
		t.Errorf("the script leaves %d advisory locks, %v", locks, err)
	}
	execute(t, byHand, script(t, r, 2, 1))
	if v := version(t, r); v != 1 {
		t.Errorf("the script 2 to 1 leads to %d", v)
	}
	execute(t, byHand, script(t, r, 1, 0))
	sameCatalog(t, "the script down leaves something", catalog(t, byHand), empty)

	if text := script(t, r, 1, 1); strings.Contains(text, ";") {
		t.Errorf("a script that goes nowhere has statements:\n%s", text)
	}
	if _, err := r.SQL(0, 3); err == nil {
		t.Error("a script to a version that does not exist gave no error")
	}
}

func script(t *testing.T, r *migrations.Runner, from, to int) string {
	t.Helper()
	text, err := r.SQL(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSchemaWithOtherOwnerOrContent: version 0 leaves what is not ours.
func TestSchemaThatIsNotOnlyOurs(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *pgx.Conn){
		"other objects": func(t *testing.T, conn *pgx.Conn) {
			execute(t, conn, "create schema postrider; create table postrider.theirs (id int)")
		},
		"other owner": func(t *testing.T, conn *pgx.Conn) {
			role := "migrator_of_" + conn.Config().Database[len(conn.Config().Database)-12:]
			execute(t, conn, fmt.Sprintf(`create schema postrider; create role %[1]s;
				grant usage, create on schema postrider to %[1]s; set role %[1]s`, role))
			t.Cleanup(func() {
				_, err := conn.PgConn().Exec(context.Background(), fmt.Sprintf("reset role; drop owned by %[1]s cascade; drop role %[1]s", role)).ReadAll()
				if err != nil {
					t.Error(err)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := pgtest.NewEmpty(t).Conn(t)
			prepare(t, conn)
			r := migrations.New(conn, tables(t, 2))
			for range 2 {
				do(t, r.Up)
				do(t, func(ctx context.Context) ([]migrations.Applied, error) { return r.To(ctx, 0) })
				if v := version(t, r); v != 0 {
					t.Errorf("version %d after To 0", v)
				}
				if !exists(t, conn, "postrider.schema_migration") || exists(t, conn, "postrider.t1") {
					t.Error("of a schema that is kept, the empty history stays and nothing else of ours")
				}
			}
		})
	}
}
