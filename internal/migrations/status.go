package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Validate reports whether the database is exactly at the newest version, made by the very files of
// this binary. It changes nothing, takes no lock and needs no more than SELECT on the history tables,
// so that every service can call it when it starts. The error matches ErrBehind, ErrAhead or
// ErrChanged.
func (r *Runner) Validate(ctx context.Context) error {
	if len(r.rooms) == 0 {
		return errors.New("migrations: validate: the runner was given no rooms")
	}
	h, err := r.history(ctx)
	if err != nil {
		return err
	}
	if err := r.compare(h); err != nil {
		return err
	}
	var missing, newer []string
	for _, room := range h.rooms {
		lacks := room.Migrations[h.newest(room.Name):]
		for _, m := range lacks {
			missing = append(missing, m.String())
		}
		switch {
		case len(lacks) > 0, !room.differs(h): // code comes with the last migration
		case h.replaced(room.Name, room.Checksum):
			newer = append(newer, fmt.Sprintf("%s (since %s)", room.Name, h.codeOf(room.Name).AppliedAt.UTC().Format(time.DateTime)))
		default:
			missing = append(missing, room.Name+"/"+codeFolder)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("migrations: %w: it lacks %s; run `%s`", ErrBehind, strings.Join(missing, ", "), r.up(h))
	}
	if len(newer) > 0 {
		return fmt.Errorf("migrations: %w: other functions took the place of this binary's in %s; run the binary that brought them, or put these back with `postrider migrate up`",
			ErrAhead, strings.Join(newer, ", "))
	}
	return nil
}

// up is the command that brings the database what it lacks.
func (r *Runner) up(h *history) string {
	switch {
	case !r.source:
		return "postrider migrate up"
	case len(h.parts) == 0:
		return "postrider migrate up --only " + string(PartOutbox) + " --database-url ADDRESS"
	}
	return "postrider migrate up --database-url ADDRESS"
}

// differs says whether a room's code differs from the database's.
func (room *Room) differs(h *history) bool {
	if room.Checksum == "" {
		return false
	}
	there := h.codeOf(room.Name)
	return there == nil || there.Checksum != room.Checksum
}

// State says how a file of the binary and a row of the history agree.
type State string

// The states of a migration, and of a room's code.
const (
	StateApplied State = "applied"
	StatePending State = "pending"
	// StateChanged: applied, but from a file that differs from the one in this binary.
	StateChanged State = "changed"
	// StateUnknown: applied, and not in this binary.
	StateUnknown State = "unknown"
	// StateLeftOut: of a part that the database was installed without.
	StateLeftOut State = "left out"
)

// StatusRow is one migration, or the code of a room, in Status.
type StatusRow struct {
	Room string
	// Version is 0 for the room's code.
	Version int
	Name    string
	State   State
	// AppliedAt is zero for a row that is pending.
	AppliedAt time.Time
}

// Status lists every migration that the binary or the database knows, and the code of each room behind
// its migrations, in order. A database that disagrees with the binary is shown, not refused.
func (r *Runner) Status(ctx context.Context) ([]StatusRow, error) {
	h, err := r.history(ctx)
	if err != nil {
		return nil, err
	}
	var rows []StatusRow
	known := map[string]bool{}
	for _, room := range h.rooms {
		known[room.Name] = true
		rows = append(rows, room.status(h.migrations[room.Name])...)
		if room.Checksum == "" {
			continue
		}
		row := StatusRow{Room: room.Name, Name: codeFolder, State: StatePending}
		if there := h.codeOf(room.Name); there != nil {
			row.State, row.AppliedAt = StateApplied, there.AppliedAt
			if there.Checksum != room.Checksum {
				row.State = StateChanged
			}
		}
		rows = append(rows, row)
	}
	for _, room := range h.leftOut {
		for _, m := range room.Migrations {
			rows = append(rows, StatusRow{Room: room.Name, Version: m.Version, Name: m.Name, State: StateLeftOut})
		}
		known[room.Name] = len(h.migrations[room.Name]) == 0
	}
	for _, room := range sortedKeys(h.migrations) {
		if !known[room] {
			rows = append(rows, (&Room{Name: room}).status(h.migrations[room])...)
		}
	}
	return rows, nil
}

// status is how a room's migrations and the rows of it agree.
func (room *Room) status(history []applied) []StatusRow {
	byVersion := make(map[int]applied, len(history))
	for _, row := range history {
		byVersion[row.Version] = row
	}
	rows := make([]StatusRow, 0, max(len(history), len(room.Migrations)))
	for _, m := range room.Migrations {
		row := StatusRow{Room: room.Name, Version: m.Version, Name: m.Name, State: StatePending}
		if was, ok := byVersion[m.Version]; ok {
			row.State, row.AppliedAt = StateApplied, was.AppliedAt
			if was.Name != m.Name || was.Checksum != m.Checksum {
				row.State = StateChanged
			}
		}
		rows = append(rows, row)
	}
	for _, was := range history {
		if was.Version > len(room.Migrations) {
			rows = append(rows, StatusRow{Room: room.Name, Version: was.Version, Name: was.Name, State: StateUnknown, AppliedAt: was.AppliedAt})
		}
	}
	return rows
}
