package task

import (
	"fmt"
	"strings"
	"testing"
)

const head = "name: n\nnamespace_name: ns\nversion: 1.0.0\n"

// fails parses a text with mistakes and returns the message about them.
func fails(t *testing.T, text string) string {
	t.Helper()
	tpl, err := Parse("t.yaml", []byte(text))
	if err == nil {
		t.Fatalf("%.200q was read as %+v", text, tpl)
	}
	return err.Error()
}

func TestMistakesHaveALine(t *testing.T) {
	t.Parallel()
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                 {"", "t.yaml:1: it is empty"},
		"only a comment":          {"# hello\n", "t.yaml:1: it is empty"},
		"a text":                  {"hello", "t.yaml:1: must be a mapping, lines of the form name: value, not the text \"hello\""},
		"a list":                  {"\n- a\n", "t.yaml:2: must be a mapping, lines of the form name: value, not a list"},
		"null":                    {"null", "t.yaml:1: must be a mapping, lines of the form name: value, not nothing"},
		"broken":                  {head + "steps: [a\n", "t.yaml:4: it is not valid YAML in what begins here: did not find expected ',' or ']'"},
		"a tab":                   {head + "steps:\n\t- a\n", "t.yaml:5: it is not valid YAML: found character that cannot start any token"},
		"an unknown alias":        {"a: *b\n", "t.yaml:1: it is not valid YAML: an alias has no anchor; quote a text that begins with * or &"},
		"two documents":           {head + "---\n" + head, "t.yaml:4: a second document begins here; a file holds one"},
		"a broken second one":     {head + "---\n{", "it is not valid YAML"},
		"not UTF-8":               {head + "description: \xff\n", "t.yaml:4: it is not UTF-8 text"},
		"too large":               {strings.Repeat("#", maxBytes+1), "t.yaml:1: it has 1048577 bytes; a template has at most 1048576"},
		"deep YAML":               {head + "metadata: " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "is nested more than 64 levels deep"},
		"deep JSON":               {`{"metadata":` + "\n" + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "t.yaml:2: metadata[0]"},
		"a key twice":             {head + "name: m\n", "t.yaml:4: name: the key is set twice, first in line 1; keep one"},
		"a key twice, JSON":       {"{\"name\": \"n\",\n\n\"name\": \"m\"}", "t.yaml:3: name: the key is set twice, first in line 1; keep one"},
		"a NUL":                   {head + `description: "a\0b"`, "t.yaml:4: description: the text has a NUL character"},
		"a NUL in a JSON key":     {`{"metadata": {"\u0000": 1}}`, "the text has a NUL character"},
		"a huge number":           {"{\"name\": \"n\",\n\"metadata\": {\"x\": 1e999}}", "t.yaml:2: metadata.x: the number 1e999 is out of range"},
		"a tiny number":           {`{"metadata": {"x": 1e-999}}`, "metadata.x: the number 1e-999 is out of range"},
		"a long number":           {`{"metadata": {"x": 0.` + strings.Repeat("1", 500) + `}}`, "is out of range"},
		"a null with a power":     {`{"metadata": {"x": 0e-99999999999999999999}}`, "metadata.x: the number 0e-99999999999999999999 is out of range"},
		"a null with a long tail": {`{"metadata": {"x": 0e-501}}`, "is out of range"},
		"a missing name":          {"{}", "t.yaml:1: name: is missing; add it\nt.yaml:1: namespace_name: is missing; add it\nt.yaml:1: version: is missing; add it"},
		"an empty name":           {"name: ''\n", "must be 1 to 128 letters, digits, underscores, dots and hyphens, not the text \"\""},
		"a name of a boolean":     {"name: true\n", "name: must be a text, not true; put it in quotes"},
		"a long version":          {"version: 1.0.1234567890\n", "three numbers"},
		"a list for a text":       {head + "description: [a]\n", "t.yaml:4: description: must be a text, not a list"},
		"a bad topic":             {head + "events: {topic: a b}\n", "events.topic: must be a Kafka topic name"},
		"an empty type":           {head + "start_event: {topic: a, type: ''}\n", "start_event.type: must be a text of 1 to 256 bytes, it has 0"},
		"an empty handler":        {head + "task_handler: ''\n", "must be a text of 1 to 256 bytes or a mapping, it has 0"},
		"steps of a text":         {head + "steps: many\n", "t.yaml:4: steps: must be a list, not the text \"many\""},
		"many steps":              {head + "steps:\n" + many(1001, "- {name: s%d}\n"), "has 1001 steps; a template has at most 1000"},
		"a lifecycle of a number": {head + "lifecycle: 5\n", "lifecycle: must be a mapping"},
		"a key of no state":       {head + "lifecycle: {max__minutes: 5}\n", "lifecycle.max__minutes: unknown key; there are auto_dlq_on_timeout, auto_fail_on_timeout, max_duration_minutes, staleness_action, max_<state>_minutes"},
		"too long a time":         {head + "lifecycle: {max_duration_minutes: 9999999}\n", "from 1 to 5256000, not the number 9999999"},
		"no states":               {head + "states: []\n", "t.yaml:4: states: is empty"},
		"states of a text":        {head + "states: on\n", "states: must be a list, not the text \"on\""},
		"many states":             {head + "states:\n" + many(201, "- {name: s%d, kind: waiting}\n"), "has 201 states; a machine has at most 200"},
		"no beginning":            {head + "states: [{name: a, kind: terminal}]\n", "states: no state is of the kind initial"},
		"archived alone": {head + "states: [{name: a, kind: initial}, {name: z, kind: terminal}]\ntransitions: [{from: a, to: [z]}]\nroles: {archived: z}\n",
			"t.yaml:6: roles.archived: only dead-lettered tasks are archived; add the role dead_letter or failed"},
		"a schema of a text":     {head + "input_schema: any\n", "input_schema: must be a schema, which is a mapping, true or false"},
		"properties of a list":   {head + "input_schema: {properties: [a]}\n", "input_schema.properties: must be a mapping from names to schemas, not a list"},
		"a pattern of a number":  {head + "input_schema: {pattern: 5}\n", "input_schema.pattern: must be a text, not the number 5"},
		"a line end in a key":    {head + `environments: {"a\nb": {}}` + "\n", `t.yaml:4: environments.a\nb: must be`},
		"an empty file":          {"# nothing\n", "t.yaml:1: it is empty; postrider template example shows what may stand here"},
		"a class of Go":          {head + `input_schema: {pattern: '\pL+'}` + "\n", `t.yaml:4: input_schema.pattern: has \p, which PostgreSQL does not take, or reads in another way; write it differently`},
		"the edge of a word":     {head + `input_schema: {pattern: '[a]\b'}` + "\n", `input_schema.pattern: has \b, which`},
		"a group with a name":    {head + "input_schema: {pattern: '(?P<x>a)'}\n", "has a group that begins with (? and not with (?:, which"},
		"a long repetition":      {head + "input_schema: {pattern: 'a{0,256}'}\n", "has a repetition of more than 255, which"},
		"environments of a list": {head + "environments: [a]\n", "environments: must be a mapping from names of environments"},
		"many environments":      {head + "environments:\n" + many(21, "  e%d: {}\n"), "has 21 environments; a template has at most 20"},
		"a step without a name":  {head + "steps: [{name: a}]\nenvironments: {e: {steps: [{name: 5}]}}\n", "environments.e.steps[0]: must be a mapping with the name"},
	} {
		if got := fails(t, c.text); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// A file full of mistakes is not answered by a book.
func TestOnlySoManyMistakesAreTold(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "unknown%d: 1\n", i)
	}
	lines := strings.Split(fails(t, b.String()), "\n")
	if len(lines) != maxProblems+1 || lines[maxProblems] != "t.yaml:198: and 803 more from here on" {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
	if long := fails(t, strings.Repeat("x", 1000)+": 1\n"); len(long) > 1200 {
		t.Errorf("a long name is repeated whole: %s", long)
	}
}

func TestValuesThatYAMLWritesInManyWays(t *testing.T) {
	t.Parallel()
	tpl, err := Parse("t", []byte(head+`
metadata:
  numbers: [0x1F, 0b11, 1_000, +5, .5, 1.50, 1e3, 12345678901234567890]
  texts: [yes, 2020-01-02, '5', "\u00e4<&>", ~, null]
  truth: [true, false]
  1: one
  empty: {}
description: |
  two
  lines
lifecycle:
input_schema: {const: null, properties: {x: true}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"numbers":[31,3,1000,5,0.5,1.50,1e3,12345678901234567890],"texts":["yes","2020-01-02","5","ä<&>",null,null],"truth":[true,false],"1":"one","empty":{}}`
	if string(tpl.Metadata) != want {
		t.Errorf("metadata %s\nwant     %s", tpl.Metadata, want)
	}
	if tpl.Description != "two\nlines\n" || tpl.Lifecycle != nil || string(tpl.InputSchema) != `{"const":null,"properties":{"x":true}}` {
		t.Errorf("read %+v", tpl)
	}
	encoded, err := tpl.Encode()
	if err != nil || !strings.Contains(string(encoded), want) {
		t.Errorf("encoded as %s, %v", encoded, err)
	}
}
