package migrations

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The SQL of the history tables.
var (
	//go:embed history/create.sql
	historyCreate string
	//go:embed history/exists.sql
	historyExists string
	//go:embed history/list.sql
	historyList string
	//go:embed history/list_code.sql
	historyListCode string
	//go:embed history/list_parts.sql
	historyListParts string
	//go:embed history/insert.sql
	historyInsert string
)

// applied is a row of the history table.
type applied struct {
	Room      string
	Version   int
	Name      string
	Checksum  string
	AppliedAt time.Time
}

// appliedCode is a row about the code of a room, as it is or as it once was.
type appliedCode struct {
	Room       string
	Checksum   string
	Files      map[string]string
	AppliedAt  time.Time
	ReplacedAt *time.Time
}

// history is what a database says was applied.
type history struct {
	made       bool // the tables are there
	migrations map[string][]applied
	code       map[string][]appliedCode
	parts      []Part // what it was installed with

	// What choose settled.
	rooms, leftOut []*Room
	added          []Part
}

// newest is the version of a room.
func (h *history) newest(room string) int { return len(h.migrations[room]) }

// codeOf is the code that a room has now; nil where it has none.
func (h *history) codeOf(room string) *appliedCode {
	for i, row := range h.code[room] {
		if row.ReplacedAt == nil {
			return &h.code[room][i]
		}
	}
	return nil
}

// replaced says whether the database had this code of a room, and has newer one.
func (h *history) replaced(room, checksum string) bool {
	return slices.ContainsFunc(h.code[room], func(row appliedCode) bool { return row.Checksum == checksum && row.ReplacedAt != nil })
}

func noHistory() *history {
	return &history{migrations: map[string][]applied{}, code: map[string][]appliedCode{}}
}

// history reads what the database says was applied, nothing when the tables are absent, and settles which rooms it is to have.
func (r *Runner) history(ctx context.Context) (*history, error) {
	h, err := r.readHistory(ctx)
	if err != nil {
		return nil, err
	}
	return h, r.choose(h)
}

func (r *Runner) readHistory(ctx context.Context) (*history, error) {
	h := noHistory()
	var current bool
	if err := r.conn.QueryRow(ctx, historyExists).Scan(&h.made, &current); err != nil {
		return nil, fmt.Errorf("migrations: look for postrider.schema_migration: %w", err)
	}
	if !h.made {
		return h, nil
	}
	if !current {
		return nil, fmt.Errorf("migrations: %w: postrider.schema_migration is of a version before the first release, from which no way leads here; drop the schema postrider and migrate anew", ErrChanged)
	}
	rows, err := r.conn.Query(ctx, historyList)
	if err != nil {
		return nil, fmt.Errorf("migrations: read postrider.schema_migration: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[applied])
	if err != nil {
		return nil, fmt.Errorf("migrations: read postrider.schema_migration: %w", err)
	}
	for _, row := range list {
		h.migrations[row.Room] = append(h.migrations[row.Room], row)
	}
	if rows, err = r.conn.Query(ctx, historyListCode); err != nil {
		return nil, fmt.Errorf("migrations: read postrider.schema_code: %w", err)
	}
	code, err := pgx.CollectRows(rows, pgx.RowToStructByPos[appliedCode])
	if err != nil {
		return nil, fmt.Errorf("migrations: read postrider.schema_code: %w", err)
	}
	for _, row := range code {
		h.code[row.Room] = append(h.code[row.Room], row)
	}
	if rows, err = r.conn.Query(ctx, historyListParts); err != nil {
		return nil, fmt.Errorf("migrations: read postrider.schema_part: %w", err)
	}
	if h.parts, err = pgx.CollectRows(rows, pgx.RowTo[Part]); err != nil {
		return nil, fmt.Errorf("migrations: read postrider.schema_part: %w", err)
	}
	return h, nil
}

// Parts returns what the database was installed with; nothing where nothing is installed.
func (r *Runner) Parts(ctx context.Context) ([]Part, error) {
	h, err := r.readHistory(ctx)
	if err != nil {
		return nil, err
	}
	return h.parts, nil
}

// compare returns an error if the history contradicts the runner's files or is ahead of them. A migration that is not
// applied yet is no error. Nor is code that differs: the runner puts its own in its place.
func (r *Runner) compare(h *history) error {
	var changed, unknown []string
	known := map[string]bool{}
	for i := range r.rooms {
		room := &r.rooms[i]
		known[room.Name] = true
		for i, row := range h.migrations[room.Name] {
			if row.Version != i+1 {
				changed = append(changed, fmt.Sprintf("%s has version %d recorded without version %d before it", room.Name, row.Version, i+1))
				break
			}
			if row.Version > len(room.Migrations) {
				unknown = append(unknown, row.migration().String())
				continue
			}
			m := room.Migrations[i]
			switch {
			case m.Name != row.Name:
				changed = append(changed, fmt.Sprintf("version %d of %s was applied as %q, this binary has it as %q", row.Version, room.Name, row.Name, m.Name))
			case m.Checksum != row.Checksum:
				changed = append(changed, fmt.Sprintf("%s was edited after it was applied on %s (checksum then %.12s, now %.12s)",
					m.File(), row.AppliedAt.UTC().Format(time.DateTime), row.Checksum, m.Checksum))
			}
		}
	}
	for _, room := range sortedKeys(h.migrations) {
		if known[room] {
			continue
		}
		for _, row := range h.migrations[room] {
			unknown = append(unknown, row.migration().String())
		}
	}
	var problems []error
	if len(changed) > 0 {
		problems = append(problems, fmt.Errorf("migrations: %w: %s; restore the original file and put the change in a new migration",
			ErrChanged, strings.Join(changed, "; ")))
	}
	if len(unknown) > 0 {
		problems = append(problems, fmt.Errorf("migrations: %w: it has %s and this binary ends at %s; run a binary that is at least as new, or restore a backup from before",
			ErrAhead, strings.Join(unknown, ", "), r.ends()))
	}
	return errors.Join(problems...)
}

// migration is the file that a row tells of, as far as it does.
func (row applied) migration() Migration {
	return Migration{Room: row.Room, Version: row.Version, Name: row.Name}
}

// ends lists where the rooms of the runner end.
func (r *Runner) ends() string {
	ends := make([]string, len(r.rooms))
	for i, room := range r.rooms {
		ends[i] = fmt.Sprintf("%s/%04d", room.Name, len(room.Migrations))
	}
	return strings.Join(ends, ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
