package config

import (
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
			if tag.Get("key") == "" || tag.Get("help") == "" {
				t.Errorf("%s: no key or no help", where)
			}
		}
		return true
	}
	for _, file := range []string{"config.go", "ledger.go", "tracing.go"} {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
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

// The shipped example has every key, each with its default and a comment above it.
func TestExampleFile(t *testing.T) {
	t.Parallel()
	c, err := Load(Sources{File: example})
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	for _, k := range Keys() {
		if k.Required {
			if err := c.Require(k.String()); err != nil {
				t.Error(err)
			}
		} else if k.text(c) != k.text(defaults) {
			t.Errorf("%s is %q in the example, the default is %q", k, k.text(c), k.text(defaults))
		}
		section, at := "", -1
		for i, l := range lines {
			if name, _, isKey := strings.Cut(l, ":"); isKey && !strings.HasPrefix(l, " ") && !strings.HasPrefix(l, "#") {
				section = name
			}
			if section == k.Section && strings.HasPrefix(l, "  "+k.Name+":") {
				at = i
			}
		}
		if at < 1 {
			t.Errorf("%s is not in the example", k)
		} else if !strings.HasPrefix(strings.TrimSpace(lines[at-1]), "#") {
			t.Errorf("%s has no comment in the example", k)
		}
	}
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
	c, err := Load(Sources{File: write(t, rules)})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Topics) != 2 || len(c.Topics[0].Settings()) != len(TopicKeys()) {
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
			t.Errorf("%s is taken for a variable of somebody else", k.Env())
		}
	}
}
