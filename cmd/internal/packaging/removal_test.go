package packaging

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) {
	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(buildtest.In(m)) }))
}

var sqlBlock = regexp.MustCompile("(?ms)^ *```sql\n(.*?)```")

// The statements of the page leave nothing in a database. Dropping the roles themselves is left out: they belong to
// all databases of the server, and to other tests.
func TestRemovalRemovesEverything(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	const left = `
		select 'schema ' || nspname from pg_namespace where nspname = 'postrider'
		union all select 'extension ' || extname from pg_extension where extname = 'pg_trgm'
		union all select 'right of ' || r.rolname from pg_shdepend d join pg_roles r on r.oid = d.refobjid
		where d.refclassid = 'pg_authid'::regclass and r.rolname like 'postrider\_%' and d.dbid = (select oid from pg_database where datname = current_database())`
	remains := func() []string {
		rows, err := conn.Query(t.Context(), left)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var names []string
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return slices.Compact(slices.Sorted(slices.Values(names)))
	}
	if before := remains(); !slices.Contains(before, "schema postrider") || !slices.Contains(before, "right of postrider_relay") {
		t.Fatalf("before the removal there is %v", before)
	}
	var dropped []string
	for _, block := range sqlBlock.FindAllStringSubmatch(page(t, "removing.md"), -1) {
		for statement := range strings.SplitSeq(block[1], ";") {
			if statement = strings.TrimSpace(statement); statement == "" {
				continue
			}
			dropped = append(dropped, statement)
			if strings.HasPrefix(statement, "drop role ") {
				continue
			}
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	}
	if after := remains(); len(after) > 0 {
		t.Errorf("what remains: %v", after)
	}
	if last := dropped[len(dropped)-1]; last != "drop role postrider_writer, postrider_relay, postrider_operator" {
		t.Errorf("the last statement of the page is %q", last)
	}
}
