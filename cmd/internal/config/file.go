package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// file reads a YAML file of sections. No message repeats a value of it, nor the lines around a
// mistake: they may hold a password.
func file(path string) *fileReader {
	raw, err := os.ReadFile(path)
	if err != nil {
		return &fileReader{problems: []error{fmt.Errorf("the configuration file cannot be read: %w", err)}}
	}
	return parse(path, raw)
}

func parse(path string, raw []byte) *fileReader {
	f := &fileReader{path: path, seen: map[string]int{}, wrong: map[string]bool{}}
	tree, err := parser.ParseBytes(raw, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f.problems = []error{syntaxProblem(path, err)}
		return f
	}
	documents := 0
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		if documents++; documents > 1 {
			f.problem(doc.Body, "a second document begins here; put all settings into one")
			break
		}
		f.sections(doc.Body)
	}
	return f
}

// syntaxProblem keeps the place and the kind of a syntax error and drops what it quotes.
func syntaxProblem(path string, err error) error {
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return fmt.Errorf("%s: it is not valid YAML", path)
	}
	kind, _, _ := strings.Cut(syntax.GetMessage(), `"`)
	at := syntax.GetToken().Position
	return fmt.Errorf("%s:%d: it is not valid YAML: %s (column %d)", path, at.Line, strings.TrimSpace(kind), at.Column)
}

// fileReader walks the tree and collects values and mistakes.
type fileReader struct {
	path     string
	seen     map[string]int // line of each key and section met
	found    []found
	rules    []TopicRule
	wrong    map[string]bool // keys for which a rule has a wrong value
	problems []error
}

func (f *fileReader) problem(at ast.Node, format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf("%s:%d: %s", f.path, line(at), fmt.Sprintf(format, args...)))
}

func line(n ast.Node) int {
	if n == nil || n.GetToken() == nil {
		return 1
	}
	return n.GetToken().Position.Line
}

func (f *fileReader) sections(body ast.Node) {
	var names []string
	for _, k := range keys() {
		if !slices.Contains(names, k.Section) {
			names = append(names, k.Section)
		}
	}
	for section, value := range f.pairs(body, "the file") {
		name := section.GetToken().Value
		switch {
		case f.twice(section, name):
		case slices.Contains(names, name):
			f.keys(name, value)
		case name == topicsSection:
			f.topics(value)
		case isMapping(value) || isRules(value):
			f.problem(section, "unknown section %s; the nearest section is %s", shown(name), Nearest(name, append(names, topicsSection)))
		default:
			f.problem(section, "unknown key %s; the nearest key is %s", shown(name), nearestKey(name))
		}
	}
}

func (f *fileReader) keys(section string, body ast.Node) {
	if isNull(body) {
		return // a section whose keys are all commented out
	}
	for name, value := range f.pairs(body, "the section "+section) {
		full := section + "." + name.GetToken().Value
		if b, isBlock := blockOf(section, name.GetToken().Value); isBlock {
			if !f.twice(name, full) {
				f.block(b, value)
			}
			continue
		}
		i := slices.IndexFunc(keys(), func(k Key) bool { return k.String() == full })
		switch {
		case f.twice(name, full):
		case removed[full] != "":
			f.problem(name, "%s is no setting any more: %s", full, removed[full])
		case i < 0:
			f.problem(name, "unknown key %s; the nearest key is %s", shown(full), nearestKey(full))
		case isNull(value): // a key without a value is an unset one
		default:
			f.value(keys()[i], value)
		}
	}
}

// block reads a block of a section. A key of it is the same as that of the section.
func (f *fileReader) block(b block, body ast.Node) {
	if isNull(body) {
		return
	}
	for name, value := range f.pairs(body, "the block "+b.section+"."+b.name) {
		own := name.GetToken().Value
		full := b.section + "." + b.prefix + own
		k, known := named(full)
		switch {
		case !slices.Contains(b.keys, own) || !known:
			f.problem(name, "unknown key %s; the block %s.%s has %s", shown(own), b.section, b.name, strings.Join(b.keys, ", "))
		case f.twice(name, full):
		case isNull(value):
		default:
			f.value(k, value)
		}
	}
}

// pairs iterates a mapping; anything else is a mistake.
func (f *fileReader) pairs(n ast.Node, what string) func(yield func(name ast.Node, value ast.Node) bool) {
	return func(yield func(ast.Node, ast.Node) bool) {
		var values []*ast.MappingValueNode
		switch n := n.(type) {
		case *ast.MappingNode:
			values = n.Values
		case *ast.MappingValueNode:
			values = []*ast.MappingValueNode{n}
		default:
			f.problem(n, "%s must be a mapping, lines of the form name: value, not %s", what, kindOf(n))
		}
		for _, v := range values {
			if v.Key.IsMergeKey() || v.Key.GetToken() == nil {
				f.problem(v, "merge keys and complex keys are not supported; write the settings out")
				continue
			}
			if !yield(v.Key, v.Value) {
				return
			}
		}
	}
}

func (f *fileReader) value(k Key, n ast.Node) {
	texts := []ast.Node{n}
	if list, isList := n.(*ast.SequenceNode); isList && k.Kind() == "list" {
		texts = list.Values
	}
	var items []string
	for _, t := range texts {
		item, ok := scalar(t)
		if !ok {
			want := "a plain value"
			if k.Kind() == "list" {
				want = "a list of plain values"
			}
			f.problem(t, "%s must be %s, not %s", k, want, kindOf(t))
			return
		}
		items = append(items, item)
	}
	f.found = append(f.found, foundValue(k, strings.Join(items, ","), fmt.Sprintf("%s:%d", f.path, line(n))))
}

func (f *fileReader) twice(n ast.Node, name string) bool {
	if first, again := f.seen[name]; again {
		f.problem(n, "%s is set twice, first in line %d", shown(name), first)
		return true
	}
	f.seen[name] = line(n)
	return false
}

// scalar returns the text of a value as written, without its quotes.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// kindOf says what a node is that should be something else, without repeating it. A colon makes a mapping only with a
// space behind it.
func kindOf(n ast.Node) string {
	switch text, plain := scalar(n); {
	case plain && strings.Contains(strings.Trim(text, ":"), ":"):
		return "text: in name:value a space is missing behind the colon"
	case plain:
		return "a plain value"
	}
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.AliasNode, *ast.AnchorNode:
		return "an alias or anchor"
	}
	return "this"
}

func isNull(n ast.Node) bool { _, null := n.(*ast.NullNode); return n == nil || null }

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// isRules reports whether a node is a list that begins with a mapping.
func isRules(n ast.Node) bool {
	list, isList := n.(*ast.SequenceNode)
	return isList && len(list.Values) > 0 && isMapping(list.Values[0])
}

// nearestKey suggests a key for one that may also be written as in the environment.
func nearestKey(name string) string {
	var plain []string
	byPlain := map[string]string{}
	for _, k := range keys() {
		for _, p := range k.envNames() {
			p = strings.ToLower(p)
			plain, byPlain[p] = append(plain, p), k.String()
		}
	}
	return byPlain[Nearest(strings.ToLower(strings.ReplaceAll(name, ".", "_")), plain)]
}

// shown bounds and cleans a name from the file for a message.
func shown(name string) string {
	if r := []rune(name); len(r) > 60 {
		name = string(r[:60]) + "…"
	}
	return strings.Map(printable, name)
}
