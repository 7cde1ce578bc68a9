//go:build unix

package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/testenv/pgbouncer"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestThroughAPooler: several migrators whose transactions take any of a pooler's sessions apply each
// migration once, and leave no lock in a session that is used on.
func TestThroughAPooler(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	cfg, err := pgx.ParseConfig(pgbouncer.Start(t, db.URL, 2))
	if err != nil {
		t.Fatal(err)
	}
	all := tables(t, 4)
	const migrators = 4
	runners := make([]*migrations.Runner, migrators)
	for i := range runners {
		conn, err := pooler.Connect(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		runners[i] = migrations.New(conn, all)
	}
	type outcome struct {
		done []migrations.Applied
		err  error
	}
	outcomes := make(chan outcome)
	for _, r := range runners {
		go func() {
			done, err := r.Up(t.Context())
			outcomes <- outcome{done, err}
		}()
	}
	applied := 0
	for range runners {
		o := <-outcomes
		if o.err != nil {
			t.Error(o.err)
		}
		applied += len(o.done)
	}
	if applied != 4 {
		t.Errorf("%d migrations were applied, want 4", applied)
	}
	look := db.Conn(t)
	var locks int
	if err := look.QueryRow(t.Context(), `select count(*) from pg_locks where locktype = 'advisory'
		and database = (select oid from pg_database where datname = current_database())`).Scan(&locks); err != nil || locks != 0 {
		t.Errorf("%d advisory locks stay, %v", locks, err)
	}
	if got := do(t, runners[1].UpAgain); len(got) != 0 {
		t.Errorf("of no code %v was applied again", got)
	}
}
