package migrations_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/migrations/pgtest"
)

// TestEmbeddedRoundTrip goes up one version at a time, down the same way, and up at once: each
// version must look the same whichever way it was reached.
func TestEmbeddedRoundTrip(t *testing.T) {
	t.Parallel()
	all, err := migrations.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no migration is embedded")
	}
	conn := pgtest.NewEmpty(t).Conn(t)
	r := migrations.New(conn, all)
	to := func(version int) {
		t.Helper()
		do(t, func(ctx context.Context) ([]migrations.Applied, error) { return r.To(ctx, version) })
	}
	at := make([][]string, len(all)+1)
	at[0] = catalog(t, conn)
	for v := 1; v <= len(all); v++ {
		to(v)
		at[v] = catalog(t, conn)
		if slices.Equal(at[v], at[v-1]) {
			t.Errorf("%s changes nothing in the catalog", all[v-1])
		}
	}
	if err := r.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	for v := len(all) - 1; v >= 0; v-- {
		to(v)
		sameCatalog(t, fmt.Sprintf("%s does not take back all that its other half did", all[v].File(migrations.Down)), catalog(t, conn), at[v])
	}
	if got := do(t, r.Up); len(got) != len(all) {
		t.Errorf("Up from 0 ran %v", got)
	}
	sameCatalog(t, "the second way up differs from the first", catalog(t, conn), at[len(all)])
	to(0)
	sameCatalog(t, "the second way down differs from the empty database", catalog(t, conn), at[0])
}

// TestEmbeddedIsCommented: every type, table, view, function and index of ours says what it is for.
func TestEmbeddedIsCommented(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	rows, err := conn.Query(t.Context(), `
		select 'relation ' || c.oid::regclass from pg_class c
		where relnamespace = 'postrider'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'i', 'I')
		  and obj_description(c.oid, 'pg_class') is null
		  and not exists (select 1 from pg_constraint where conindid = c.oid)
		  and not relispartition
		union all
		select 'routine ' || oid::regprocedure from pg_proc
		where pronamespace = 'postrider'::regnamespace and obj_description(oid, 'pg_proc') is null
		  and not exists (select 1 from pg_depend where objid = pg_proc.oid and deptype = 'e') -- of pg_trgm
		union all
		select 'type ' || oid::regtype from pg_type
		where typnamespace = 'postrider'::regnamespace and typtype in ('e', 'd') and obj_description(oid, 'pg_type') is null
		order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var thing string
		if err := rows.Scan(&thing); err != nil {
			t.Fatal(err)
		}
		t.Errorf("no COMMENT: %s", thing)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
