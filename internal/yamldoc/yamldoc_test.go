package yamldoc

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		line int
		want string
	}{
		"an open list":          {"a: 1\nb: [c\n", 2, "it is not valid YAML in what begins here: did not find expected ',' or ']'"},
		"an open mapping":       {"a: 1\nb: {c: 1\n", 2, "did not find expected ',' or '}'"},
		"an open text":          {"a: 1\nb: \"sentinel\n", 2, "found unexpected end of stream"},
		"a tab":                 {"a:\n\t- sentinel\n", 2, "found character that cannot start any token"},
		"a value too many":      {"a: 1\nb: sentinel: 2\n", 2, "mapping values are not allowed"},
		"an alias alone":        {"a: 1\nb: *sentinel\n", 2, "an alias has no anchor; quote a text that begins with * or &"},
		"a glob":                {"a: 1\nb: *.sentinel\n", 2, "; quote a text that begins with * or &"},
		"a handle":              {"a: 1\nb: !s!entinel c\n", 2, "found undefined tag handle"},
		"two documents":         {"a: 1\n---\nb: 1\n", 2, "a second document begins here; a file holds one"},
		"a broken second one":   {"a: 1\n---\nb: {", 3, "it is not valid YAML"},
		"lists without an end":  {strings.Repeat("[", 20000), 1, "exceeded max depth of 10000"},
		"dashes without an end": {strings.Repeat("- ", 20000) + "a", 1, "exceeded max depth of 10000"},
	} {
		root, wrong := Read([]byte(c.text))
		if wrong == nil {
			t.Errorf("%s: it was read as %+v", name, root)
			continue
		}
		if wrong.Line != c.line || !strings.Contains(wrong.Text, c.want) || strings.Contains(wrong.Text, "entinel") {
			t.Errorf("%s: %v, want line %d and %q", name, wrong, c.line, c.want)
		}
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]yaml.Kind{
		"": 0, "# nothing\n": 0, "---\n": 0, "---\n---\n": 0, "~": 0, "\ufeff": 0,
		"a: 1": yaml.MappingNode, "---\na: 1\n---\n": yaml.MappingNode, "\ufeffa: 1\r\n...\r\n": yaml.MappingNode, "- a": yaml.SequenceNode, "''": yaml.ScalarNode,
	} {
		root, wrong := Read([]byte(text))
		switch {
		case wrong != nil:
			t.Errorf("%q: %v", text, wrong)
		case (root == nil) != (want == 0) || root != nil && root.Kind != want:
			t.Errorf("%q: %+v, want the kind %v", text, root, want)
		}
	}
}

// TestNothingGrows: ten aliases of ten aliases, many times over, stay the few nodes that are written.
func TestNothingGrows(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("a0: &a0 [x]\n")
	for i := range 50 {
		at, before := fmt.Sprint("a", i+1), fmt.Sprint("a", i)
		text.WriteString(at + ": &" + at + " [" + strings.Repeat("*"+before+", ", 9) + "*" + before + "]\n")
	}
	root, wrong := Read([]byte(text.String()))
	if wrong != nil {
		t.Fatal(wrong)
	}
	for _, value := range root.Content[3:] {
		for _, item := range value.Content {
			if item.Kind != yaml.AliasNode || len(item.Content) > 0 {
				t.Fatalf("%+v", item)
			}
		}
	}
}
