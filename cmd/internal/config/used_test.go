package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestSettingsAreUsed: a setting that no program reads is accepted, shown and without effect. Comparing settings with each
// other is not a use.
func TestSettingsAreUsed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{} // by Section.Field
	files := 0
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "config/validate.go") {
			return err
		}
		files++
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range tree.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				addUses(f, used)
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files were read: %v", files, err)
	}
	for _, k := range Keys() {
		section := reflect.TypeFor[Config]().Field(k.index[0])
		if field := section.Name + "." + section.Type.Field(k.index[1]).Name; !used[field] {
			t.Errorf("nothing reads %s: hand Config.%s on to what it is for", k, field)
		}
	}
}

// addUses adds what a function reads of sections: of c.Outbox, of a variable that is one, or of a parameter of its type.
func addUses(f *ast.FuncDecl, used map[string]bool) {
	sections := map[string]string{} // by the name of a variable
	name := func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.SelectorExpr:
			return e.Sel.Name
		case *ast.StarExpr:
			if id, is := e.X.(*ast.Ident); is {
				return id.Name
			}
		case *ast.Ident:
			return e.Name
		}
		return ""
	}
	fields := f.Type.Params.List
	if f.Recv != nil {
		fields = append(fields, f.Recv.List...)
	}
	for _, p := range fields {
		for _, n := range p.Names {
			sections[n.Name] = name(p.Type)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if section, is := n.Rhs[min(i, len(n.Rhs)-1)].(*ast.SelectorExpr); is {
					sections[name(left)] = section.Sel.Name
				}
			}
		case *ast.SelectorExpr:
			of := name(n.X)
			if id, is := n.X.(*ast.Ident); is {
				of = sections[id.Name]
			}
			used[of+"."+n.Sel.Name] = true
		}
		return true
	})
}
