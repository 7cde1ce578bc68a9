package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// hostileTexts are texts that YAML or a terminal may take for something else.
var hostileTexts = []string{
	"", " ", "a ", "no", "No", "off", "y", "null", "~", "true", "1", "01", "1e3", "1_000", "0x1f", ".5", ".inf", "-", "- a", "--- a", "...", "? a", "a: b", "a:", ":", "# a",
	"a #b", "&a", "*a", "!a", "!!binary aGk=", "|", ">", "%a", "@a", "`a", "'a'", `"a"`, "{a}", "[a]", "a, b", "<<", "=", "2026-01-31", "2026-01-31T08:00:00Z", "12:30:45", `\`, `\n`, `\u0041`, "a\nb", "a\n\n", "\ta", "a\r\nb",
	"\x00", "\x1b[2J", "\x07", "\x7f", "\u0085", "\u009b2J", "\u00ad", "\u200e", "\u202e", "\u2028", "\u2066", "\ufeff", "\ufffd", "\U000e0041", "\U0001f4a5", "ä", "日本", strings.Repeat("x y ", 60),
}

// jsonValue draws a JSON value.
func jsonValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		text := rapid.OneOf(rapid.SampledFrom(hostileTexts), rapid.String())
		kinds := 4
		if depth > 0 {
			kinds = 6
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return text.Draw(t, "text")
		case 1:
			return float64(rapid.Int64Range(-1<<53, 1<<53).Draw(t, "whole"))
		case 2:
			return rapid.Float64Range(-1e15, 1e15).Draw(t, "number")
		case 3:
			return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "word")
		case 4:
			return rapid.SliceOfN(jsonValue(depth-1), 0, 4).Draw(t, "list")
		}
		return rapid.MapOfN(text, jsonValue(depth-1), 0, 4).Draw(t, "object")
	})
}

// TestYAMLSaysWhatJSONSays: a parser of YAML reads the value that the JSON has, whatever its texts are, and the output has no
// character that a terminal obeys.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	t.Parallel()
	check := func(t interface{ Fatalf(string, ...any) }, v any) {
		encoded, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%v", err)
		}
		text, err := asYAML(encoded)
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), func(r rune) bool { return visible(string(r)) != string(r) }) {
			t.Fatalf("%s: %q has characters that a terminal obeys", encoded, text)
		}
		var read, want any
		if err := yaml.Unmarshal([]byte(text), &read); err != nil {
			t.Fatalf("%s: %v in\n%s", encoded, err, text)
		}
		again, err := json.Marshal(read)
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		var got any
		if json.Unmarshal(again, &got) != nil || json.Unmarshal(encoded, &want) != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s became %s by\n%s", encoded, again, text)
		}
	}
	for _, text := range hostileTexts {
		check(t, text)
		check(t, []any{text, map[string]any{text: text, "a": []any{[]any{text}}}})
	}
	rapid.Check(t, func(t *rapid.T) { check(t, jsonValue(3).Draw(t, "value")) })
}

// TestYAMLKeepsNumbers: digits that a float does not hold are kept.
func TestYAMLKeepsNumbers(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"12345678901234567890123", "0.10", "1e400", "-0", "1E+2"} {
		if text, err := asYAML([]byte(`{"number": ` + number + `}`)); err != nil || text != "number: "+number+"\n" {
			t.Errorf("%s: %q, %v", number, text, err)
		}
	}
}

// TestJSONForATerminal: what is printed is the same JSON, and has no character that a terminal obeys.
func TestJSONForATerminal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := jsonValue(3).Draw(t, "value")
		var printed bytes.Buffer
		if err := (&output{format: "json"}).print(&printed, want, nil); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(strings.ReplaceAll(printed.String(), "\n", ""), func(r rune) bool { return visible(string(r)) != string(r) }) || !utf8.Valid(printed.Bytes()) {
			t.Fatalf("%q has characters that a terminal obeys", printed.String())
		}
		encoded, _ := json.Marshal(want)
		var got, again any
		if json.Unmarshal(printed.Bytes(), &got) != nil || json.Unmarshal(encoded, &again) != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("%s became %s", encoded, printed.String())
		}
	})
}
