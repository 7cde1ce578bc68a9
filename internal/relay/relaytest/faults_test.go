package relaytest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rows are the faults that need a test by name. Others are no business of the relay's alone.
var rows = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 29, 31, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44}

var (
	rowStart = regexp.MustCompile(`^\s*(\d+)\s`)
	testName = regexp.MustCompile(`\b([a-z]+\.(?:Test|Fuzz)\w+)`)
)

// TestEveryFaultHasATest reads the table in the package's documentation, and looks for the tests that it
// names in the sources. A test of this package that carries a row's number must be in that row.
func TestEveryFaultHasATest(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	doc, err := parser.ParseFile(files, "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	table, row := map[int][]string{}, 0
	for line := range strings.Lines(doc.Doc.Text()) {
		if m := rowStart.FindStringSubmatch(line); m != nil {
			row, _ = strconv.Atoi(m[1])
		}
		for _, m := range testName.FindAllStringSubmatch(line, -1) {
			table[row] = append(table[row], m[1])
		}
	}
	tests := testsOfTheTree(t, files, path.Base)
	for _, row := range rows {
		if len(table[row]) == 0 {
			t.Errorf("row %d has no test", row)
		}
		for _, name := range table[row] {
			if !tests[name] {
				t.Errorf("row %d names %s, which does not exist", row, name)
			}
		}
	}
	for name := range tests {
		_, number, ok := strings.Cut(name, ".TestFault")
		if !ok || number[0] < '0' || number[0] > '9' {
			continue
		}
		row, err := strconv.Atoi(number[:2])
		if err != nil || !strings.Contains(strings.Join(table[row], " "), name) {
			t.Errorf("%s is not in row %d of the table", name, row)
		}
	}
}

// testsOfTheTree are the tests of this module, each behind what called makes of the folder of its package, as seen from
// the module's.
func testsOfTheTree(t *testing.T, files *token.FileSet, called func(dir string) string) map[string]bool {
	t.Helper()
	tests, root := map[string]bool{}, filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[called(filepath.ToSlash(dir))+"."+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
