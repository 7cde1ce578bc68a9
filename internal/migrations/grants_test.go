package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/migrations"
)

// TestGrants: the rights read from the script are the rights that the server gave: of every table, every right, and of
// every function, the right to execute it, no more and no less.
func TestGrants(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	grants, err := migrations.Grants()
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, g := range grants {
		switch {
		case g.Kind == "function":
			read = append(read, g.Role+" execute "+g.Name)
		case g.Kind == "table" && g.Columns == nil:
			read = append(read, g.Role+" "+g.Privilege+" "+g.Name)
		case g.Kind == "all tables":
			rows, err := conn.Query(t.Context(), `select 'postrider.' || relname from pg_class where relnamespace = 'postrider'::regnamespace and relkind in ('r', 'v', 'm', 'p')`)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				var name string
				if err := rows.Scan(&name); err != nil {
					t.Fatal(err)
				}
				read = append(read, g.Role+" "+g.Privilege+" "+name)
			}
		}
	}
	slices.Sort(read)
	read = slices.Compact(read)
	rows, err := conn.Query(t.Context(), `
		select a.grantee::regrole || ' execute ' || p.oid::regprocedure
		from pg_proc p, aclexplode(p.proacl) a
		where p.pronamespace = 'postrider'::regnamespace and a.grantee <> 0 and a.grantee::regrole::text like 'postrider\_%'
		union all
		select a.grantee::regrole || ' ' || lower(a.privilege_type) || ' postrider.' || c.relname
		from pg_class c, aclexplode(c.relacl) a
		where c.relnamespace = 'postrider'::regnamespace and c.relkind <> 'S' and a.grantee <> 0 and a.grantee::regrole::text like 'postrider\_%'`)
	if err != nil {
		t.Fatal(err)
	}
	var given []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		given = append(given, line)
	}
	slices.Sort(given)
	given = slices.Compact(given)
	// Types of arguments are spelled in more than one way.
	plain := func(lines []string) []string {
		out := make([]string, len(lines))
		for i, l := range lines {
			l = strings.NewReplacer("timestamp with time zone", "timestamptz", ", ", ",", "execute postrider.", "execute ").Replace(l)
			out[i] = l
		}
		slices.Sort(out)
		return out
	}
	a, b := plain(read), plain(given)
	if len(a) < 40 {
		t.Errorf("only %d rights were read", len(a))
	}
	for _, line := range a {
		if !slices.Contains(b, line) {
			t.Errorf("read and not given: %s", line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			t.Errorf("given and not read: %s", line)
		}
	}
}
