package migrations

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The SQL of the history table.
var (
	//go:embed history/create.sql
	historyCreate string
	//go:embed history/drop.sql
	historyDrop string
	//go:embed history/exists.sql
	historyExists string
	//go:embed history/list.sql
	historyList string
	//go:embed history/insert.sql
	historyInsert string
	//go:embed history/delete.sql
	historyDelete string
)

// applied is a row of the history table.
type applied struct {
	Version   int
	Name      string
	Checksum  string
	AppliedAt time.Time
}

// history reads what the database says was applied, in order: nothing when the table is absent.
func (r *Runner) history(ctx context.Context) ([]applied, error) {
	var exists bool
	if err := r.conn.QueryRow(ctx, historyExists).Scan(&exists); err != nil {
		return nil, fmt.Errorf("migrations: look for postrider.schema_migration: %w", err)
	}
	if !exists {
		return nil, nil
	}
	rows, err := r.conn.Query(ctx, historyList)
	if err != nil {
		return nil, fmt.Errorf("migrations: read postrider.schema_migration: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[applied])
	if err != nil {
		return nil, fmt.Errorf("migrations: read postrider.schema_migration: %w", err)
	}
	return list, nil
}

// newest is the highest version that the runner knows.
func (r *Runner) newest() int { return len(r.migrations) }

// compare says what stands between the history and the runner's migrations, apart from
// migrations that are merely not applied yet.
func (r *Runner) compare(history []applied) error {
	var changed, unknown []string
	for i, row := range history {
		if row.Version != i+1 {
			changed = append(changed, fmt.Sprintf("version %d is recorded without version %d before it", row.Version, i+1))
			break
		}
		if row.Version > r.newest() {
			unknown = append(unknown, Migration{Version: row.Version, Name: row.Name}.String())
			continue
		}
		m := r.migrations[i]
		switch {
		case m.Name != row.Name:
			changed = append(changed, fmt.Sprintf("version %d was applied as %q, this binary has it as %q", row.Version, row.Name, m.Name))
		case m.Checksum != row.Checksum:
			changed = append(changed, fmt.Sprintf("%s was edited after it was applied on %s (checksum then %.12s, now %.12s)",
				m.File(Up), row.AppliedAt.UTC().Format(time.DateTime), row.Checksum, m.Checksum))
		}
	}
	var problems []error
	if len(changed) > 0 {
		problems = append(problems, fmt.Errorf("migrations: %w: %s; restore the original file and put the change in a new migration",
			ErrChanged, strings.Join(changed, "; ")))
	}
	if len(unknown) > 0 {
		problems = append(problems, fmt.Errorf("migrations: %w: it has %s and this binary ends at version %d; run a binary that is at least as new, or take them back with the binary that applied them",
			ErrAhead, strings.Join(unknown, ", "), r.newest()))
	}
	return errors.Join(problems...)
}

// Validate reports whether the database is exactly at the newest version, made by the very
// migrations of this binary. It changes nothing, takes no lock and needs no more than SELECT
// on the history table, so that every service can call it when it starts. The error matches
// ErrBehind, ErrAhead or ErrChanged.
func (r *Runner) Validate(ctx context.Context) error {
	if r.newest() == 0 {
		return errors.New("migrations: validate: the runner was given no migrations")
	}
	history, err := r.history(ctx)
	if err != nil {
		return err
	}
	if err := r.compare(history); err != nil {
		return err
	}
	if len(history) == r.newest() {
		return nil
	}
	var missing []string
	for _, m := range r.migrations[len(history):] {
		missing = append(missing, m.String())
	}
	return fmt.Errorf("migrations: %w: it is at version %d of %d and lacks %s; run `postrider migrate up`",
		ErrBehind, len(history), r.newest(), strings.Join(missing, ", "))
}

// State says how a migration of the binary and a row of the history agree.
type State string

// The states of a migration.
const (
	StateApplied State = "applied"
	StatePending State = "pending"
	// StateChanged: applied, but from a file that differs from the one in this binary.
	StateChanged State = "changed"
	// StateUnknown: applied, and not in this binary.
	StateUnknown State = "unknown"
)

// StatusRow is one migration in Status.
type StatusRow struct {
	Version int
	Name    string
	State   State
	// AppliedAt is zero for a pending migration.
	AppliedAt time.Time
}

// Status lists every migration that the binary or the database knows, in order. A database
// that disagrees with the binary is shown, not refused.
func (r *Runner) Status(ctx context.Context) ([]StatusRow, error) {
	history, err := r.history(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]StatusRow, 0, max(len(history), r.newest()))
	byVersion := make(map[int]applied, len(history))
	for _, row := range history {
		byVersion[row.Version] = row
	}
	for _, m := range r.migrations {
		row := StatusRow{Version: m.Version, Name: m.Name, State: StatePending}
		if was, ok := byVersion[m.Version]; ok {
			row.State, row.AppliedAt = StateApplied, was.AppliedAt
			if was.Name != m.Name || was.Checksum != m.Checksum {
				row.State = StateChanged
			}
		}
		rows = append(rows, row)
	}
	for _, was := range history {
		if was.Version > r.newest() {
			rows = append(rows, StatusRow{Version: was.Version, Name: was.Name, State: StateUnknown, AppliedAt: was.AppliedAt})
		}
	}
	return rows, nil
}
