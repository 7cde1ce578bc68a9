package inbox

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// A purge finds its rows by the index on their time, and removes them by their place, whatever the statistics say.
func TestPlanOfPurge(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewEmpty(t).Pool(t)
	if err := Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	const fill = `insert into inbox_message (consumer_group, message_id, handled_at) select 'g', $1 || n::text, now() - interval '1 hour' * (n % 100) from generate_series(1, 20000) n`
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		lines := pgtest.Column[string](t, pool, "explain "+inSchema(purgeSQL, ""), 3600.0, int64(100), int64(0))
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, "inbox_message_handled_at") || !strings.Contains(plan, "Tid Scan") || strings.Contains(plan, "Seq Scan on inbox_message") {
			t.Errorf("%s:\n%s", when, plan)
		}
	}
	exec(`analyze inbox_message`)
	exec(fill, "a")
	check("with the statistics of an empty table")
	exec(`analyze inbox_message`)
	check("with true statistics")
}
