package postgres_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	ledgerpostgres "github.com/postrider/postrider/internal/tasks/postgres"
)

// The figures are the last count, and none if that is more than five minutes old. Each task that is handed out counts,
// whether its transaction commits or not.
func TestFigures(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	read := func() ledger.Figures {
		t.Helper()
		f, err := ledgerpostgres.On(r.pool).Figures(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := read(); f.Discovered != 0 || !f.CountedAt.IsZero() || len(f.States) != 0 {
		t.Errorf("at the beginning: %+v", f)
	}
	ledgertest.Apply(t, r.pool, ledgertest.Template{Namespace: "n", Name: "work"})
	for range 3 {
		ledgertest.Create(t, r.pool, ledgertest.New{Namespace: "n", Name: "work"})
	}
	r.exec(`select * from postrider.get_next_ready_tasks(2)`)
	if f := read(); f.Discovered != 2 {
		t.Errorf("%d tasks were handed out, want 2", f.Discovered)
	}
	r.exec(`select postrider.refresh_dashboards()`)
	f := read()
	if time.Since(f.CountedAt) > 5*time.Minute || len(f.States) != 1 || f.States[0] != (ledger.StateFigures{State: "pending", Tasks: 3}) {
		t.Errorf("counted: %+v", f)
	}
	r.exec(`update postrider.tasker_tasks set state_entered_at = now() - interval '2 days', created_at = now() - interval '2 days'`)
	r.exec(`select postrider.refresh_dashboards()`)
	if f = read(); len(f.States) != 1 || f.States[0].Stale != 3 {
		t.Errorf("when all are stale: %+v", f)
	}
	r.exec(`update postrider.dashboard_summary set as_of = now() - interval '6 minutes'`)
	if f = read(); !f.CountedAt.IsZero() || len(f.States) != 0 || f.Discovered != 2 {
		t.Errorf("when nobody counts any more: %+v", f)
	}
}
