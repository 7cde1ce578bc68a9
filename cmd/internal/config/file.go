package config

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/yamldoc"
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
	root, wrong := yamldoc.Read(raw)
	switch {
	case wrong != nil:
		f.problems = []error{fmt.Errorf("%s:%d: %s", path, wrong.Line, wrong.Text)}
	case root != nil:
		f.sections(root)
	}
	return f
}

// fileReader walks the tree and collects values and mistakes.
type fileReader struct {
	path     string
	seen     map[string]int // line of each key and section met
	found    []found
	rules    []TopicRule
	carried  []Source
	folder   string
	wrong    map[string]bool // keys for which a rule has a wrong value
	problems []error
}

func (f *fileReader) problem(at *yaml.Node, format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf("%s:%d: %s", f.path, at.Line, fmt.Sprintf(format, args...)))
}

func (f *fileReader) sections(body *yaml.Node) {
	var names []string
	for _, k := range keys() {
		if !slices.Contains(names, k.Section) {
			names = append(names, k.Section)
		}
	}
	for section, value := range f.pairs(body, "the file") {
		name := section.Value
		switch {
		case f.twice(section, name):
		case slices.Contains(names, name):
			f.keys(name, value)
		case name == topicsSection:
			f.topics(value)
		case name == sourcesSection:
			f.sources(value)
		case name == sourcesDirKey:
			f.sourcesDir(value)
		case isMapping(value) || isRules(value):
			f.problem(section, "unknown section %s; the nearest section is %s", shown(name), Nearest(name, append(names, topicsSection, sourcesSection)))
		default:
			f.problem(section, "unknown key %s; the nearest key is %s", shown(name), nearestKey(name))
		}
	}
}

func (f *fileReader) keys(section string, body *yaml.Node) {
	if yamldoc.IsNull(body) {
		return // a section whose keys are all commented out
	}
	for name, value := range f.pairs(body, "the section "+section) {
		full := section + "." + name.Value
		if b, isBlock := blockOf(section, name.Value); isBlock {
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
		case yamldoc.IsNull(value): // a key without a value is an unset one
		default:
			f.value(keys()[i], value)
		}
	}
}

// block reads a block of a section. A key of it is the same as that of the section.
func (f *fileReader) block(b block, body *yaml.Node) {
	if yamldoc.IsNull(body) {
		return
	}
	for name, value := range f.pairs(body, "the block "+b.section+"."+b.name) {
		own := name.Value
		full := b.section + "." + b.prefix + own
		k, known := named(full)
		switch {
		case !slices.Contains(b.keys, own) || !known:
			f.problem(name, "unknown key %s; the block %s.%s has %s", shown(own), b.section, b.name, strings.Join(b.keys, ", "))
		case f.twice(name, full):
		case yamldoc.IsNull(value):
		default:
			f.value(k, value)
		}
	}
}

// pairs iterates a mapping; anything else is a mistake.
func (f *fileReader) pairs(n *yaml.Node, what string) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(name, value *yaml.Node) bool) {
		if !isMapping(n) {
			f.problem(n, "%s must be a mapping, lines of the form name: value, not %s", what, kindOf(n))
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			if !isWritten(name, yaml.ScalarNode) || name.ShortTag() == "!!merge" {
				f.problem(name, "merge keys and complex keys are not supported; write the settings out")
				continue
			}
			if !yield(name, value) {
				return
			}
		}
	}
}

func (f *fileReader) value(k Key, n *yaml.Node) {
	texts := []*yaml.Node{n}
	if isList(n) && k.Kind() == "list" {
		texts = n.Content
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
		// A path in the file is relative to the file, as in the file of a source, wherever the process was started.
		if strings.HasSuffix(k.Name, "_file") && item != "" && !filepath.IsAbs(item) {
			item = filepath.Join(filepath.Dir(f.path), item)
		}
		items = append(items, item)
	}
	f.found = append(f.found, foundValue(k, strings.Join(items, ","), fmt.Sprintf("%s:%d", f.path, n.Line)))
}

func (f *fileReader) twice(n *yaml.Node, name string) bool {
	if first, again := f.seen[name]; again {
		f.problem(n, "%s is set twice, first in line %d", shown(name), first)
		return true
	}
	f.seen[name] = n.Line
	return false
}

// scalar returns the text of a value as written, without its quotes.
func scalar(n *yaml.Node) (string, bool) {
	return n.Value, isWritten(n, yaml.ScalarNode) && !yamldoc.IsNull(n)
}

// kindOf says what a node is that should be something else, without repeating it. A colon makes a mapping only with a
// space behind it.
func kindOf(n *yaml.Node) string {
	switch text, plain := scalar(n); {
	case plain && strings.Contains(strings.Trim(text, ":"), ":"):
		return "text: in name:value a space is missing behind the colon"
	case plain:
		return "a plain value"
	case isList(n):
		return "a list"
	case isMapping(n):
		return "a mapping"
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return "an alias or anchor"
	}
	return "this"
}

// isWritten reports whether a node is of a kind, and all of it is written in its place: it has no tag and no anchor.
func isWritten(n *yaml.Node, kind yaml.Kind) bool {
	return n.Kind == kind && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0
}

func isMapping(n *yaml.Node) bool { return isWritten(n, yaml.MappingNode) }

func isList(n *yaml.Node) bool { return isWritten(n, yaml.SequenceNode) }

// isRules reports whether a node is a list that begins with a mapping.
func isRules(n *yaml.Node) bool { return isList(n) && len(n.Content) > 0 && isMapping(n.Content[0]) }

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
