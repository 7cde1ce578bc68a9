package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestGrants: the rights read from the script are the rights that the server gave: of every table, every right, and of
// every function, the right to execute it, no more and no less; in a database with each of the parts.
func TestGrants(t *testing.T) {
	t.Parallel()
	for n := range migrations.Parts() {
		parts := migrations.Parts()[:n+1]
		t.Run(migrations.JoinParts(parts), func(t *testing.T) {
			t.Parallel()
			_, conn := installed(t, parts...)
			if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
				t.Fatal(err)
			}
			read, given := readGrants(t, conn, parts), givenRights(t, conn)
			if len(read) < 40 {
				t.Errorf("only %d rights were read", len(read))
			}
			for _, line := range read {
				if !slices.Contains(given, line) {
					t.Errorf("read and not given: %s", line)
				}
			}
			for _, line := range given {
				if !slices.Contains(read, line) {
					t.Errorf("given and not read: %s", line)
				}
			}
		})
	}
}

// spelt writes types of arguments in one way, and sorts.
func spelt(lines []string) []string {
	for i, l := range lines {
		lines[i] = strings.NewReplacer("timestamp with time zone", "timestamptz", ", ", ",", "execute postrider.", "execute ").Replace(l)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func readGrants(t *testing.T, conn *pgx.Conn, parts []migrations.Part) []string {
	t.Helper()
	grants, err := migrations.Grants(parts)
	if err != nil {
		t.Fatal(err)
	}
	tables := pgtest.Column[string](t, conn, `select 'postrider.' || relname from pg_class where relnamespace = 'postrider'::regnamespace and relkind in ('r', 'v', 'm', 'p')`)
	var read []string
	for _, g := range grants {
		switch {
		case g.Kind == "function":
			read = append(read, g.Role+" execute "+g.Name)
		case g.Kind == "table" && g.Columns == nil:
			read = append(read, g.Role+" "+g.Privilege+" "+g.Name)
		case g.Kind == "all tables":
			for _, name := range tables {
				read = append(read, g.Role+" "+g.Privilege+" "+name)
			}
		}
	}
	return spelt(read)
}

func givenRights(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	return spelt(pgtest.Column[string](t, conn, `
		select a.grantee::regrole || ' execute ' || p.oid::regprocedure
		from pg_proc p, aclexplode(p.proacl) a
		where p.pronamespace = 'postrider'::regnamespace and a.grantee <> 0 and a.grantee::regrole::text like 'postrider\_%'
		union all
		select a.grantee::regrole || ' ' || lower(a.privilege_type) || ' postrider.' || c.relname
		from pg_class c, aclexplode(c.relacl) a
		where c.relnamespace = 'postrider'::regnamespace and c.relkind <> 'S' and a.grantee <> 0 and a.grantee::regrole::text like 'postrider\_%'`))
}
