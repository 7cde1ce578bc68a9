package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/relay"
)

// sources are the files that declare the sections, parsed.
func sources(t *testing.T) (trees []*ast.File) {
	t.Helper()
	for _, file := range []string{"config.go", "ledger.go", "console.go", "tracing.go"} {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, tree)
	}
	return trees
}

// comments has the comments of types and fields, by Type and Type.Field, each in one line.
func comments(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	line := func(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }
	for _, tree := range sources(t) {
		ast.Inspect(tree, func(n ast.Node) bool {
			if d, is := n.(*ast.GenDecl); is && d.Tok == token.TYPE {
				spec := d.Specs[0].(*ast.TypeSpec)
				all[spec.Name.Name] = line(d.Doc)
				for _, f := range spec.Type.(*ast.StructType).Fields.List {
					all[spec.Name.Name+"."+f.Names[0].Name] = line(f.Doc)
				}
			}
			return true
		})
	}
	return all
}

var defaultSentence = regexp.MustCompile(`Defaults to (.+)\.$`)

// The last sentence of every field's comment is its default or "Required.", and what it says is
// what the tags say.
func TestFieldsSayTheirDefault(t *testing.T) {
	t.Parallel()
	fields := 0
	inspect := func(n ast.Node) bool {
		spec, isType := n.(*ast.TypeSpec)
		if !isType || spec.Name.Name == "block" {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			if !f.Names[0].IsExported() {
				continue
			}
			fields++
			where := spec.Name.Name + "." + f.Names[0].Name
			comment := strings.Join(strings.Fields(f.Doc.Text()), " ")
			said := defaultSentence.FindStringSubmatch(comment)
			if said == nil && !strings.HasSuffix(comment, "Required.") {
				t.Errorf("%s: the comment does not end with its default or with Required.", where)
				continue
			}
			if spec.Name.Name == "Config" {
				continue // sections have the defaults of their fields
			}
			raw, _ := strconv.Unquote(f.Tag.Value)
			tag := reflect.StructTag(raw)
			if required := tag.Get("required") == "true"; required != (said == nil) {
				t.Errorf("%s: required is %v, the comment says %q", where, required, comment)
			}
			if said != nil && strings.Trim(said[1], `"`) != tag.Get("default") {
				t.Errorf("%s: the default is %q, the comment says %s", where, tag.Get("default"), said[1])
			}
			if !strings.HasPrefix(comment, f.Names[0].Name+" ") {
				t.Errorf("%s: the comment does not begin with the name of the field: %s", where, comment)
			}
			if tag.Get("key") == "" || tag.Get("help") == "" {
				t.Errorf("%s: no key or no help", where)
			}
		}
		return true
	}
	for _, tree := range sources(t) {
		ast.Inspect(tree, inspect)
	}
	exported := 0
	for i := range reflect.TypeFor[Config]().NumField() {
		if reflect.TypeFor[Config]().Field(i).IsExported() {
			exported++
		}
	}
	if want := len(Keys()) + exported; fields != want {
		t.Errorf("%d fields read, want %d", fields, want)
	}
}

const example = "../../../deploy/postrider.example.yaml"

// exampleValues stand in the example for settings that have no default.
var exampleValues = map[string]string{
	"database.url":  "postgres://postrider@localhost:5432/app?sslmode=verify-full",
	"kafka.brokers": "[localhost:9092]",
}

// The shipped example is the comments of the fields, each above its key and default. What stands above the first section,
// and the rules for topics, are written by hand. UPDATE=1 writes the rest anew.
func TestExampleFile(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(raw), "\n\ndatabase:")
	rules := strings.LastIndex(rest, "\n\n# Rules for single topics")
	if !found || rules < 0 {
		t.Fatalf("%s does not begin with a comment and the section database, or has no rules for single topics", example)
	}
	want := head + "\n\n" + exampleSections(t) + rest[rules+1:]
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(example, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(raw) {
		t.Errorf("%s is not what the comments and tags of the settings say: run this test with UPDATE=1\n%s", example, firstDifference(want, string(raw)))
	}
	c, err := Load(From{File: example})
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := Load(From{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys() {
		if k.Required {
			if err := c.Require(k.String()); err != nil {
				t.Error(err)
			}
		} else if k.text(c) != k.text(defaults) {
			t.Errorf("%s is %q in the example, the default is %q", k, k.text(c), k.text(defaults))
		}
	}
}

// exampleSections writes each section with its keys: the comment of the field, its bounds, the default.
func exampleSections(t *testing.T) string {
	t.Helper()
	comments := comments(t)
	var b strings.Builder
	section := ""
	for _, k := range Keys() {
		kind := reflect.TypeFor[Config]().Field(k.index[0]).Type
		if k.Section != section {
			section = k.Section
			b.WriteString(section + ":\n")
			if _, more, _ := strings.Cut(comments[kind.Name()], ". "); more != "" { // the first sentence says that it is a section
				b.WriteString(yamlComment(more) + "\n")
			}
		}
		field := kind.Field(k.index[1]).Name
		text := defaultSentence.ReplaceAllString(comments[kind.Name()+"."+field], "")
		if low, high := k.tag.Get("min"), k.tag.Get("max"); low != "" {
			text = strings.TrimSpace(text) + " From " + low + " to " + high + "."
		}
		b.WriteString(yamlComment(k.Name+strings.TrimPrefix(text, field)) + "  " + k.Name + ": " + exampleValue(k) + "\n\n")
	}
	return b.String()
}

// exampleValue is the default of a key as YAML.
func exampleValue(k Key) string {
	switch value, required := exampleValues[k.String()]; {
	case required:
		return value
	case k.Kind() == "list":
		return "[" + strings.ReplaceAll(k.Default, ",", ", ") + "]"
	case k.Default == "":
		return `""`
	}
	return k.Default
}

// yamlComment wraps a text into lines of a comment in a section.
func yamlComment(text string) string {
	var b strings.Builder
	line := "  #"
	for _, word := range strings.Fields(text) {
		if len([]rune(line))+len([]rune(word)) >= 110 {
			b.WriteString(line + "\n")
			line = "  #"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

func firstDifference(want, got string) string {
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wants), len(gots)) {
		if wants[i] != gots[i] {
			return fmt.Sprintf("line %d is %q, want %q", i+1, gots[i], wants[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(gots), len(wants))
}

// The rules in the example are comments, so that no installation has them by accident. They are right, they name every
// key, and they do what the text above them says.
func TestExampleRules(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	rules := regexp.MustCompile(`(?m)^  #(- |  )`).ReplaceAllString(string(raw), "  $1")
	c, err := Load(From{File: write(t, rules)})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Topics) != 3 || c.TopicSettings("outbox.event.Order").Wire == nil || len(c.Topics[0].Settings()) != len(TopicKeys()) {
		t.Errorf("the rules are %v, the keys %v", c.Topics, TopicKeys())
	}
	if got := c.TopicSettings("orders.eu"); got.Retry.MaxAttempts != 20 || got.AfterLastAttempt != relay.PolicyHaltKey || got.DLQTopic != "dead.eu" {
		t.Errorf("orders.eu: %+v", got)
	}
	for _, k := range topicKeys {
		if !regexp.MustCompile(`(?m)^  #  ` + k.name + `: \S+ +# ` + regexp.QuoteMeta(k.standard) + `(;|$)`).Match(raw) {
			t.Errorf("%s is not in the example with its default, %s", k.name, k.standard)
		}
	}
}

func TestNamesOfKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range Keys() {
		for _, name := range append(k.envNames(), k.String(), k.Flag()) {
			if seen[name] {
				t.Errorf("%s is two settings", name)
			}
			seen[name] = true
		}
		if serviceLink.MatchString(k.Env()) || notSettings.MatchString(k.Env()) {
			t.Errorf("%s is taken for a variable of another program", k.Env())
		}
	}
}
