package postgres

import (
	"context"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

var readSwitch = query("switch")

// The switches, by functions of the schema.
const (
	pauseEngine  = "select postrider.engine_pause($1, $2, $3, $4)"
	resumeEngine = "select postrider.engine_resume($1)"
)

// Switch implements ledger.ArchiveStore and ledger.FiguresReader.
func (l Ledger) Switch(ctx context.Context, e ledger.Engine) (ledger.Switch, error) {
	var s ledger.Switch
	err := l.db.QueryRow(ctx, readSwitch, string(e)).Scan(&s.Paused, &s.PausedAt, &s.PausedBy, &s.Reason, &s.ResumeAt)
	return s, judge(err)
}

// PauseEngine implements ledger.DetectorStore.
func (l Ledger) PauseEngine(ctx context.Context, e ledger.Engine, p ledger.Pause) error {
	_, err := l.db.Exec(ctx, pauseEngine, string(e), p.By, p.Reason, p.For.Seconds())
	return judge(err)
}

// ResumeEngine ends a pause of the engines of a kind; false means that there was none.
func (l Ledger) ResumeEngine(ctx context.Context, e ledger.Engine) (bool, error) {
	var paused bool
	err := l.db.QueryRow(ctx, resumeEngine, string(e)).Scan(&paused)
	return paused, judge(err)
}
