package obs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// otherWords are keys that an author might choose for a thing that has a key already.
var otherWords = map[string]string{
	"error": "err", "cause_err": "err", "reason_err": "err", "elapsed": "took", "duration": "took", "latency": "took", "count": "the name of what is counted",
	"trace": "trace_id", "traceid": "trace_id", "event_uuid": "event_id", "code": "error_code", "kafka_topic": "topic", "retry_after": "retry_in", "module": "component",
}

var (
	logMethods  = []string{"Debug", "Info", "Warn", "Error", "With"}
	attributes  = []string{"String", "Int", "Int64", "Bool", "Any", "Duration", "Float64", "Time", "Group"}
	goodKey     = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	notOurCalls = []string{"http", "fmt", "errors", "prometheus"}
)

// One thing has one key in the log, written like all others.
func TestLogKeys(t *testing.T) {
	t.Parallel()
	keys := map[string][]string{}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, key := range keysOf(call) {
					keys[key] = append(keys[key], files.Position(call.Pos()).String())
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) < 40 || len(keys["err"]) < 20 || len(keys["component"]) < 5 {
		t.Fatalf("only %d keys were found", len(keys))
	}
	for key, places := range keys {
		if better := otherWords[key]; better != "" {
			t.Errorf("the key %q is called %q everywhere else: %v", key, better, places)
		}
		if !goodKey.MatchString(key) {
			t.Errorf("the key %q is not lower case with underscores: %v", key, places)
		}
	}
}

// keysOf returns the keys that a call gives to a logger as literals.
func keysOf(call *ast.CallExpr) (keys []string) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	on, _ := f.X.(*ast.Ident)
	switch {
	case on != nil && on.Name == "slog" && slices.Contains(attributes, f.Sel.Name):
		if key, ok := literal(call.Args[0]); ok {
			return []string{key}
		}
	case on != nil && slices.Contains(notOurCalls, on.Name) || !slices.Contains(logMethods, f.Sel.Name):
	default:
		first := 1 // behind the message
		if f.Sel.Name == "With" {
			first = 0
		}
		for i := first; i+1 < len(call.Args); i += 2 {
			key, ok := literal(call.Args[i])
			if !ok {
				break
			}
			keys = append(keys, key)
		}
	}
	return keys
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}
