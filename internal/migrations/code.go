package migrations

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// codeFolder is where a room has its functions, views and triggers.
const codeFolder = "code"

// CodeFile is one file of a room's code.
type CodeFile struct {
	Room string
	// Name is the file's name without .sql, which is the name of the function, view or trigger in it.
	Name string
	SQL  string
}

// File returns the path of the file.
func (f CodeFile) File() string { return f.Room + "/" + codeFolder + "/" + f.Name + ".sql" }

var codeName = regexp.MustCompile(`^([a-z][a-z0-9_]*)\.sql$`)

// code makes a CodeFile of a file.
func (l *loader) code(room string, file sqlFile) CodeFile {
	parts := codeName.FindStringSubmatch(file.name)
	if parts == nil {
		l.problem("%s: the name must be that of the function, view or trigger in it, of a-z, 0-9 and underscores", file.path)
		return CodeFile{}
	}
	return CodeFile{Room: room, Name: parts[1], SQL: file.text}
}

// checksum is the checksum of all files of a room's code, whatever their order.
func checksum(code []CodeFile) string {
	if len(code) == 0 {
		return ""
	}
	var b strings.Builder
	for _, f := range slices.SortedFunc(slices.Values(code), func(a, b CodeFile) int { return strings.Compare(a.Name, b.Name) }) {
		b.WriteString(f.Name + "\x00" + f.SQL + "\x00")
	}
	return hash(b.String())
}

// Kinds of objects that a file makes, in the order in which files are applied: the bodies of functions are not checked before they
// are called, views need functions, and triggers need their functions.
const (
	makesFunctions = iota
	makesView
	makesTrigger
)

var makes = regexp.MustCompile(`(?i)^create\s+(?:or\s+replace\s+)?(?:constraint\s+)?(function|procedure|view|trigger)\s`)

// kind says what a file makes. A file with a function and its trigger counts as a file of functions.
func (f CodeFile) kind() int {
	kind := makesTrigger
	for _, s := range splitStatements(f.SQL) {
		switch m := makes.FindStringSubmatch(s.text); {
		case m == nil:
		case strings.EqualFold(m[1], "view"):
			kind = min(kind, makesView)
		case !strings.EqualFold(m[1], "trigger"):
			kind = makesFunctions
		}
	}
	return kind
}

// arrange puts files in an order in which they can be applied: by kind, then by name, and a view behind the views
// that it names.
func arrange(code []CodeFile) []CodeFile {
	kinds := make(map[string]int, len(code))
	for _, f := range code {
		kinds[f.Name] = f.kind()
	}
	slices.SortFunc(code, func(a, b CodeFile) int {
		return cmp.Or(kinds[a.Name]-kinds[b.Name], strings.Compare(a.Name, b.Name))
	})
	var arranged []CodeFile
	placed := make(map[string]bool, len(code))
	var place func(f CodeFile)
	place = func(f CodeFile) {
		if placed[f.Name] {
			return
		}
		placed[f.Name] = true // at once, so that views that name each other come to an end
		if kinds[f.Name] == makesView {
			for _, other := range code {
				if kinds[other.Name] == makesView && regexp.MustCompile(`\b`+other.Name+`\b`).MatchString(f.SQL) {
					place(other)
				}
			}
		}
		arranged = append(arranged, f)
	}
	for _, f := range code {
		place(f)
	}
	return arranged
}

// files are the names of a room's code with the checksum of each, for the record of it.
func (room *Room) files() map[string]string {
	files := make(map[string]string, len(room.Code))
	for _, f := range room.Code {
		files[f.Name] = hash(f.SQL)
	}
	return files
}

// wanted are the files to apply if the database has the files there. A trigger that is the same stays, because making
// it again would lock its table against writers.
func (room *Room) wanted(there map[string]string) []CodeFile {
	var wanted []CodeFile
	for _, f := range room.Code {
		if there[f.Name] != hash(f.SQL) || f.kind() != makesTrigger {
			wanted = append(wanted, f)
		}
	}
	return wanted
}
