package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// public are the packages that other programs may import, as the table in DESIGN.md has them. cmd and examples hold programs.
var public = []string{"consumer", "consumer/inbox", "consumer/kafka", "message", "message/dialect", "outbox", "outboxsync", "retry"}

// TestPublicPackages: a new package is under internal, unless it is meant for other programs.
func TestPublicPackages(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains(public, name) && !slices.Contains(strings.Split(name, "/"), "internal") && !within(name, "cmd") && !within(name, "examples") &&
			name != "deploy/helm/check" {
			t.Errorf("%s can be imported by everybody: move it under internal, or add it to the list here and to DESIGN.md", name)
		}
	}
}

// TestPublicNames compares the names that other programs can use with testdata/public.txt, one a line. A name that goes or
// changes breaks programs; a new one is a promise. UPDATE=1 writes the file anew.
func TestPublicNames(t *testing.T) {
	t.Parallel()
	var names []string
	for _, dir := range public {
		names = append(names, exported(t, dir)...)
	}
	slices.Sort(names)
	got, file := strings.Join(names, "\n")+"\n", filepath.Join("testdata", "public.txt")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(want))
	for _, n := range names {
		if !slices.Contains(listed, n) {
			t.Errorf("%s is a new public name: unexport it, or write it into %s with UPDATE=1 and into CHANGELOG.md", n, file)
		}
	}
	for _, n := range listed {
		if !slices.Contains(names, n) {
			t.Errorf("%s is in %s and not in the code: programs that use it break; write it into CHANGELOG.md and run with UPDATE=1", n, file)
		}
	}
}

// exported returns the exported names of a package, methods and fields included: package.Name or
// package.Type.Name.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	add := func(parts ...string) {
		if !slices.ContainsFunc(parts, func(p string) bool { return !ast.IsExported(p) }) {
			names = append(names, dir+"."+strings.Join(parts, "."))
		}
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name.Name)
				} else {
					add(receiver(d.Recv.List[0].Type), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addSpec(t, file, s, add)
				}
			}
		}
	}
	return names
}

// addSpec adds the names that a type, a constant or a variable of a file declares. An alias has the fields of the struct that
// it is an alias of, because programs use them by its name.
func addSpec(t *testing.T, file *ast.File, s ast.Spec, add func(...string)) {
	t.Helper()
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			add(n.Name)
		}
	case *ast.TypeSpec:
		add(s.Name.Name)
		body := s.Type
		if selector, is := body.(*ast.SelectorExpr); is && s.Assign.IsValid() {
			body = aliased(t, file, selector)
		}
		var members *ast.FieldList
		switch body := body.(type) {
		case *ast.StructType:
			members = body.Fields
		case *ast.InterfaceType:
			members = body.Methods
		default:
			return
		}
		for _, m := range members.List {
			for _, n := range m.Names {
				add(s.Name.Name, n.Name)
			}
		}
	}
}

// aliased returns the type that a selector in a file names, from the source of its package; nil for one of another module.
func aliased(t *testing.T, file *ast.File, selector *ast.SelectorExpr) ast.Expr {
	t.Helper()
	dir := ""
	for _, i := range file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		if local, is := strings.CutPrefix(path, module+"/"); is && name == selector.X.(*ast.Ident).Name {
			dir = local
		}
	}
	if dir == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		source, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range source.Decls {
			declared, _ := d.(*ast.GenDecl)
			if declared == nil {
				continue
			}
			for _, s := range declared.Specs {
				if s, is := s.(*ast.TypeSpec); is && s.Name.Name == selector.Sel.Name {
					return s.Type
				}
			}
		}
	}
	t.Fatalf("%s has no type %s", dir, selector.Sel.Name)
	return nil
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestConsumersNeedNoDatabase: a program that reads topics gets no PostgreSQL driver by importing the library.
func TestConsumersNeedNoDatabase(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"/consumer", module+"/consumer/kafka", module+"/message/dialect", module+"/retry").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), module+"/message\n") {
		t.Fatalf("the dependencies are %s", out)
	}
	for name := range strings.Lines(string(out)) {
		if strings.Contains(name, "pgx") || strings.TrimSpace(name) == "database/sql" {
			t.Errorf("consumer needs %s", strings.TrimSpace(name))
		}
	}
}

// TestPublicPackagesHaveExamples: each has at least one Example that its documentation shows.
func TestPublicPackagesHaveExamples(t *testing.T) {
	t.Parallel()
	for _, dir := range public {
		found := false
		err := fs.WalkDir(os.DirFS(filepath.Join("..", "..", "..", dir)), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || path != "." && d.IsDir() {
				if d != nil && d.IsDir() {
					return fs.SkipDir
				}
				return err
			}
			if strings.HasSuffix(path, "_test.go") {
				source, err := os.ReadFile(filepath.Join("..", "..", "..", dir, path))
				if err != nil {
					return err
				}
				found = found || strings.Contains(string(source), "\nfunc Example")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			t.Errorf("%s has no Example", dir)
		}
	}
}
