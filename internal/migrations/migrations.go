// Package migrations holds Postrider's database schema as SQL files, embedded in the binary, and
// the Runner that brings a database to it.
//
// The schema has rooms: audit, outbox, tasks, access and dlq, in this order. Each room needs only
// the rooms before it, and a database may have the first ones alone (Part). A room is a folder with
// two kinds of files:
//
//   - ROOM/NNNN_name.sql, numbered from 0001 without a gap, makes and changes what holds data:
//     tables, types, indexes, sequences. 0001_baseline.sql is the room as it first was. A file that
//     was applied is never edited: its checksum is in the history, and a difference is an error.
//   - ROOM/code/NAME.sql holds one function (all that have the name), view or trigger with its
//     comment and rights. The code of a room is edited in place and applied as a whole whenever it
//     differs from the database's. Objects that the files no longer have are dropped. Rights that
//     were granted by hand stay.
//
// Each numbered file runs in one transaction together with its row in the history table
// postrider.schema_migration, and the last one of a room together with the room's code, under an
// advisory lock: any number of processes may migrate at the same time, and each file is applied
// once or not at all.
//
// In these files unqualified names belong to the schema postrider (search_path is "postrider,
// public"), whatever the role's own settings say.
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
	"sync"
)

//go:embed audit outbox tasks access dlq
var embedded embed.FS

// roomNames are the rooms of the schema. Each room needs only the rooms before it.
var roomNames = []string{"audit", "outbox", "tasks", "access", "dlq"}

// Room is a part of the schema: the files of one folder.
type Room struct {
	// Name is the name of the folder.
	Name string
	// Migrations are the numbered files, in order.
	Migrations []Migration
	// Code are the functions, views and triggers, in an order in which they can be created.
	Code []CodeFile
	// Checksum is the SHA-256 of names and content of Code in hex, with line ends as LF; empty
	// without code.
	Checksum string
}

// Migration is one numbered file of a room.
type Migration struct {
	Room string
	// Version is the number in the file's name, from 1.
	Version int
	// Name is the rest of it: "baseline" for 0001_baseline.sql.
	Name string
	SQL  string
	// Checksum is the SHA-256 of SQL in hex, with line ends as LF.
	Checksum string
}

// String returns room, number and name, for example "outbox/0001_baseline".
func (m Migration) String() string { return fmt.Sprintf("%s/%04d_%s", m.Room, m.Version, m.Name) }

// File returns the path of the file.
func (m Migration) File() string { return m.String() + ".sql" }

// All returns the rooms embedded in this binary, in order. The first ones of them are a schema, too. The files are read once
// in a process; each caller has slices of its own.
func All() ([]Room, error) {
	rooms, err := loadEmbedded()
	all := slices.Clone(rooms)
	for i := range all {
		all[i].Migrations, all[i].Code = slices.Clone(all[i].Migrations), slices.Clone(all[i].Code)
	}
	return all, err
}

var loadEmbedded = sync.OnceValues(func() ([]Room, error) { return Load(embedded, roomNames...) })

var fileName = regexp.MustCompile(`^(\d{4})_([a-z0-9]+(?:_[a-z0-9]+)*)\.sql$`)

// Load reads rooms from the folders of fsys with these names, in the given order. Files that do not
// end in .sql, and folders but code, are left alone. Everything that could make two databases differ
// is an error that names the file: a .sql file with another name than NNNN_name.sql or, under code,
// name.sql; a gap in the numbers; two files with one number; a file without a statement, or one that
// controls the transaction it runs in. All problems are reported together.
func Load(fsys fs.FS, rooms ...string) ([]Room, error) {
	var l loader
	all := make([]Room, 0, len(rooms))
	for _, name := range rooms {
		room := Room{Name: name}
		for _, file := range l.read(fsys, name) {
			l.migration(&room, file)
		}
		if len(room.Migrations) == 0 && len(l.problems) == 0 {
			l.problem("%s: the room has no file; it begins with %s/0001_baseline.sql", name, name)
		}
		var code []CodeFile
		if _, err := fs.Stat(fsys, path.Join(name, codeFolder)); err == nil {
			for _, file := range l.read(fsys, path.Join(name, codeFolder)) {
				code = append(code, l.code(name, file))
			}
		}
		room.Code, room.Checksum = arrange(code), checksum(code)
		all = append(all, room)
	}
	if len(l.problems) > 0 {
		return nil, errors.Join(l.problems...)
	}
	return all, nil
}

// loader collects every problem on the way.
type loader struct{ problems []error }

func (l *loader) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Errorf("migrations: "+format, args...))
}

// sqlFile is a file as it was read: its path, the last part of that, and its text with line ends as LF.
type sqlFile struct{ path, name, text string }

// read returns the .sql files of a folder in the order of their names, and checks what every one must keep to.
func (l *loader) read(fsys fs.FS, folder string) []sqlFile {
	entries, err := fs.ReadDir(fsys, folder)
	if err != nil {
		l.problem("list the files of %s: %w", folder, err)
		return nil
	}
	var files []sqlFile
	for _, entry := range entries {
		if entry.IsDir() || path.Ext(entry.Name()) != ".sql" {
			continue
		}
		file := sqlFile{path: path.Join(folder, entry.Name()), name: entry.Name()}
		raw, err := fs.ReadFile(fsys, file.path)
		if err != nil {
			l.problem("read %s: %w", file.path, err)
			continue
		}
		file.text = strings.ReplaceAll(string(raw), "\r\n", "\n")
		if err := checkStatements(file.text); err != nil {
			l.problem("%s: %w", file.path, err)
		}
		files = append(files, file)
	}
	return files
}

// migration adds a numbered file to its room.
func (l *loader) migration(room *Room, file sqlFile) {
	parts := fileName.FindStringSubmatch(file.name)
	if parts == nil {
		l.problem("%s: the name must be NNNN_name.sql, with four digits and a name of a-z, 0-9 and single underscores", file.path)
		return
	}
	version, _ := strconv.Atoi(parts[1]) // four digits, by the expression
	previous := 0
	if n := len(room.Migrations); n > 0 {
		previous = room.Migrations[n-1].Version
	}
	switch {
	case version == 0:
		l.problem("%s: numbers start at 0001", file.path)
		return
	case version == previous:
		l.problem("%s: the number %04d is taken by %s; two files cannot share one", file.path, version, room.Migrations[len(room.Migrations)-1].File())
		return
	case version != previous+1:
		l.problem("%s: %04d is missing before it; the numbers have no gaps", file.path, previous+1)
	}
	room.Migrations = append(room.Migrations, Migration{Room: room.Name, Version: version, Name: parts[2], SQL: file.text, Checksum: hash(file.text)})
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
