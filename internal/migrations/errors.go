package migrations

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
)

// What Validate and the Runner's methods find wrong with a database; match with errors.Is.
var (
	// ErrBehind: migrations of this binary are not applied, or its code is not. `postrider migrate up` applies them.
	ErrBehind = errors.New("the database schema is behind this binary")
	// ErrAhead: the database has migrations that this binary does not know, or code that took the
	// place of this binary's.
	ErrAhead = errors.New("the database schema is ahead of this binary")
	// ErrChanged: a migration was edited after it was applied, or the history was.
	ErrChanged = errors.New("the database schema was made by other migrations than this binary has")
)

// ApplyError reports the file that failed and the place in it. Its transaction left nothing behind,
// unless Unknown is set. Err is a *pgconn.PgError when the server refused it.
type ApplyError struct {
	Room string
	// Version is 0 for the room's code. Name is then the name of the function, view or trigger.
	Version int
	Name    string
	// File is the path of the file and Line the line in it that the server objects to; Line is
	// 0 when no statement of it failed (the connection broke, or the commit did).
	File string
	Line int
	// Excerpt is the lines around the place, numbered; of a statement without a position its first lines.
	Excerpt string
	// Unknown says that the connection was lost during the commit: the step is applied
	// completely or not at all, and only the history tables know.
	Unknown bool
	// Hint says what to do, when there is something to say.
	Hint string
	Err  error
}

func (e *ApplyError) Unwrap() error { return e.Err }

// Error gives the whole report, over several lines when a statement failed.
func (e *ApplyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "migrations: %s", e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, " failed at line %d", e.Line)
	} else {
		b.WriteString(" failed")
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Excerpt != "" {
		fmt.Fprintf(&b, "\n%s", strings.TrimRight(e.Excerpt, "\n"))
	}
	var pg *pgconn.PgError
	if errors.As(e.Err, &pg) {
		line := func(label, text string) {
			if text != "" {
				fmt.Fprintf(&b, "\n%s: %s", label, text)
			}
		}
		line("detail", pg.Detail)
		line("where", pg.Where)
		line("hint of the server", pg.Hint)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "\nhint: %s", e.Hint)
	}
	if e.Unknown {
		b.WriteString("\nIt is not known whether it was committed; `postrider migrate status` tells.")
	} else {
		b.WriteString("\nIt was rolled back and changed nothing.")
	}
	return b.String()
}

// source is what an error is about: a file, or the code of a room as a whole.
type source struct {
	room    string
	version int
	name    string
	file    string
	sql     string
}

func (m *Migration) source() source { return source{m.Room, m.Version, m.Name, m.File(), m.SQL} }

// codeSource is a file of the room's code, or all of it for one without a name.
func (room *Room) codeSource(f CodeFile) source {
	if f.Name == "" {
		return source{room: room.Name, name: codeFolder, file: room.Name + "/" + codeFolder}
	}
	return source{room: f.Room, name: f.Name, file: f.File(), sql: f.SQL}
}

// newApplyError finds the place of an error. completed is the number of statements that the
// server finished before it.
func newApplyError(of source, completed int, err error) *ApplyError {
	e := &ApplyError{Room: of.room, Version: of.version, Name: of.name, File: of.file, Err: err}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return e
	}
	sql := of.sql
	if sql == "" { // the commit, or what goes for the new code: the server's place is in the runner's own SQL
		e.Hint = hint(pg.Code)
		return e
	}
	if pg.Position > 0 {
		var column int
		e.Line, column = lineAndColumn(sql, int(pg.Position))
		e.Excerpt = excerpt(sql, e.Line, e.Line, column)
	} else if statements := splitStatements(sql); completed < len(statements) {
		s := statements[completed]
		e.Line = s.line
		e.Excerpt = excerpt(sql, s.line, s.line+strings.Count(s.text, "\n"), 0)
	}
	e.Hint = hint(pg.Code)
	return e
}

// hint explains the server's codes that an operator meets when migrating.
func hint(code string) string {
	switch code {
	case "55P03": // lock_not_available
		return "another transaction holds a lock on what the migration changes, for longer than lock_timeout; find it in pg_stat_activity, let it finish or end it, then run the migration again"
	case "42501": // insufficient_privilege
		return "migrate as the role that owns the schema postrider, or as one that may create it"
	case "40P01": // deadlock_detected
		return "the migration met running transactions in another order; run it again"
	case "2BP01": // dependent_objects_still_exist
		return "something that is not Postrider's needs a function or a view that is made anew; drop it, migrate, and create it again"
	}
	return ""
}

// lineAndColumn turns the server's position, in characters from 1, into a line and a column.
func lineAndColumn(sql string, position int) (line, column int) {
	line, column = 1, 1
	for _, r := range sql {
		position--
		if position <= 0 {
			break
		}
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return line, column
}

// maxExcerpt bounds the lines of an excerpt and the characters of each.
const (
	maxExcerptLines = 8
	maxExcerptWidth = 160
)

// excerpt renders the lines first to last with their numbers and two lines before, marks the
// first, and puts a caret under the column when there is one.
func excerpt(sql string, first, last, column int) string {
	lines := strings.Split(sql, "\n")
	first = min(max(first, 1), len(lines))
	last = min(max(last, first), len(lines), first+maxExcerptLines-1)
	var b strings.Builder
	for n := max(1, first-2); n <= last; n++ {
		mark := " "
		if n == first {
			mark = ">"
		}
		text := strings.ReplaceAll(lines[n-1], "\t", " ")
		if utf8.RuneCountInString(text) > maxExcerptWidth {
			text = string([]rune(text)[:maxExcerptWidth]) + " …"
		}
		fmt.Fprintf(&b, "%s %4d | %s\n", mark, n, text)
		if n == first && column > 0 && column <= maxExcerptWidth {
			fmt.Fprintf(&b, "       | %s^\n", strings.Repeat(" ", column-1))
		}
	}
	return b.String()
}
