// Package migrations holds Postrider's database schema as numbered SQL files, embedded in the
// binary, and the Runner that brings a database from one version to another.
//
// A migration is a pair of files, NNNN_name.up.sql and NNNN_name.down.sql, numbered from 0001
// without a gap. Each runs in one transaction together with its row in the history table
// postrider.schema_migration, under an advisory lock, so that any number of processes may
// migrate at the same time and each migration is applied once or not at all. A migration that
// was applied is never edited: its checksum is in the history, and a difference is an error.
//
// Inside a migration unqualified names belong to the schema postrider (search_path is
// "postrider, public"), whatever the role's own settings say.
package migrations

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.sql
var embedded embed.FS

// Migration is one step of the schema, read from its two files.
type Migration struct {
	// Version is the number in the file names, from 1.
	Version int
	// Name is the rest of the file names: "outbox" for 0001_outbox.up.sql.
	Name string
	// Up is the SQL that brings the schema from Version-1 to Version.
	Up string
	// Down is the SQL that takes Up back.
	Down string
	// Checksum is the SHA-256 of Up in hex, with line ends as LF. Down is left out: correcting
	// a way back changes nothing for a database that went forward.
	Checksum string
}

// String returns the number and name as the files have them, such as "0001_outbox".
func (m Migration) String() string { return fmt.Sprintf("%04d_%s", m.Version, m.Name) }

// File returns the name of the file that holds the SQL of a direction.
func (m Migration) File(d Direction) string { return fmt.Sprintf("%s.%s.sql", m, d) }

func (m Migration) sql(d Direction) string {
	if d == Down {
		return m.Down
	}
	return m.Up
}

// Direction says whether a migration is applied or taken back.
type Direction string

// The two directions, spelled as in the file names.
const (
	Up   Direction = "up"
	Down Direction = "down"
)

// All returns the migrations embedded in this binary, in order.
func All() ([]Migration, error) { return Load(embedded) }

var fileName = regexp.MustCompile(`^(\d{4})_([a-z0-9]+(?:_[a-z0-9]+)*)\.(up|down)\.sql$`)

// Load reads the migrations in the root of fsys, in order. Files that do not end in .sql and
// folders are left alone. Everything that could make two databases differ is an error that
// names the file: a .sql file with another name than NNNN_name.up.sql or NNNN_name.down.sql, a
// gap in the numbers, two migrations with one number, half a pair, a file without a statement,
// and a file that controls the transaction it runs in. All problems are reported together.
// An fsys without any .sql file gives no migrations and no error.
func Load(fsys fs.FS) ([]Migration, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("migrations: list the files: %w", err)
	}
	l := loader{files: map[int]map[Direction]string{}, byVersion: map[int]*Migration{}}
	for _, entry := range entries {
		if entry.IsDir() || path.Ext(entry.Name()) != ".sql" {
			continue
		}
		raw, err := fs.ReadFile(fsys, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("migrations: read %s: %w", entry.Name(), err)
		}
		l.add(entry.Name(), strings.ReplaceAll(string(raw), "\r\n", "\n"))
	}
	return l.finish()
}

// loader collects files into migrations, and every problem on the way.
type loader struct {
	files     map[int]map[Direction]string // which file gave which half
	byVersion map[int]*Migration
	problems  []error
}

func (l *loader) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Errorf("migrations: "+format, args...))
}

func (l *loader) add(file, sql string) {
	parts := fileName.FindStringSubmatch(file)
	if parts == nil {
		l.problem("%s: the name must be NNNN_name.up.sql or NNNN_name.down.sql, with four digits and a name of a-z, 0-9 and single underscores", file)
		return
	}
	version, _ := strconv.Atoi(parts[1]) // four digits, by the expression
	name, direction := parts[2], Direction(parts[3])
	if version == 0 {
		l.problem("%s: numbers start at 0001; version 0 is the empty database", file)
		return
	}
	if err := checkStatements(sql); err != nil {
		l.problem("%s: %w", file, err)
	}
	m, known := l.byVersion[version]
	if !known {
		m = &Migration{Version: version, Name: name}
		l.byVersion[version] = m
		l.files[version] = map[Direction]string{}
	}
	if m.Name != name {
		l.problem("%s: the number %04d is taken by %s; two migrations cannot share one", file, version, m)
		return
	}
	l.files[version][direction] = file
	if direction == Down {
		m.Down = sql
		return
	}
	sum := sha256.Sum256([]byte(sql))
	m.Up, m.Checksum = sql, hex.EncodeToString(sum[:])
}

func (l *loader) finish() ([]Migration, error) {
	versions := make([]int, 0, len(l.byVersion))
	for v := range l.byVersion {
		versions = append(versions, v)
	}
	slices.Sort(versions)
	all := make([]Migration, 0, len(versions))
	previous := 0
	for _, v := range versions {
		m := l.byVersion[v]
		for _, d := range []Direction{Up, Down} {
			if l.files[v][d] == "" {
				other := m.File(opposite(d))
				l.problem("%s: its other half %s is missing; every migration has both", other, m.File(d))
			}
		}
		if v != previous+1 {
			l.problem("%s: %04d is missing before it; the numbers have no gaps", m.File(Up), previous+1)
		}
		previous = v
		all = append(all, *m)
	}
	if len(l.problems) > 0 {
		return nil, errors.Join(l.problems...)
	}
	return all, nil
}

func opposite(d Direction) Direction {
	if d == Up {
		return Down
	}
	return Up
}
