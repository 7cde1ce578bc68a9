package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

var figures = query("figures")

var _ ledger.FiguresReader = Ledger{}

// Figures implements ledger.FiguresReader. It reads a sequence and one row.
func (l Ledger) Figures(ctx context.Context) (ledger.Figures, error) {
	const doing = "read the figures of tasks"
	var f ledger.Figures
	rows, err := l.db.Query(ctx, figures)
	if err != nil {
		return f, explain(doing, err)
	}
	var countedAt *time.Time
	var s ledger.StateFigures
	_, err = pgx.ForEachRow(rows, []any{&f.Discovered, &countedAt, &s.State, &s.Tasks, &s.Stale}, func() error {
		if countedAt != nil {
			f.CountedAt = *countedAt
		}
		if s.State != "" {
			f.States = append(f.States, s)
		}
		return nil
	})
	if err != nil {
		return ledger.Figures{}, explain(doing, err)
	}
	return f, nil
}
