package config

import (
	"strings"
	"testing"
)

const oneWire = `topics:
  - match: outbox.event.*
    max_attempts: 9
    wire:
      key: json_with_schemas
      key_type: uuid
      value: json
      value_type: json?
      expand: true
      null_fields: optional_bytes
      empty_arrays: optional_string
      tombstones: true
      envelope:
        - {name: eventType, type: string}
        - name: version
          type: '{"type": "int32", "optional": true}'
  - match: outbox.event.Raw
    wire: {key: string, value: bytes}
`

// TestWireOfATopic: the last rule that matches and has a wire counts, as a whole.
func TestWireOfATopic(t *testing.T) {
	t.Parallel()
	path := write(t, oneWire)
	c, err := Load(From{File: path})
	if err != nil {
		t.Fatal(err)
	}
	const all = `{key: json_with_schemas, value: json, key_type: uuid, expand: true, null_fields: optional_bytes, empty_arrays: optional_string, tombstones: true, envelope: [{name: "eventType", type: string}, {name: "version", type: "{\"type\":\"int32\",\"optional\":true}"}]}`
	for topic, want := range map[string]string{"outbox.event.Order": all, "outbox.event.Raw": "{key: string, value: bytes}", "other": ""} {
		got := ""
		if w := c.TopicSettings(topic).Wire; w != nil {
			got = w.String()
		}
		if got != want {
			t.Errorf("%s has the wire\n%s, want\n%s", topic, got, want)
		}
		if want != "" {
			again, err := Load(From{File: write(t, "topics:\n  - {match: again, wire: "+got+"}\n")})
			if err != nil || again.TopicSettings("again").Wire.String() != want {
				t.Errorf("%s does not mean the same as a setting: %v", got, err)
			}
		}
		explained := ""
		for _, s := range c.ExplainTopic(topic) {
			if s.Name == "wire" {
				explained = s.Text + " from " + s.Origin
			}
		}
		if want != "" && (!strings.HasPrefix(explained, want+" from "+path+":") || !strings.Contains(explained, ", topics: ")) || want == "" && explained != "" {
			t.Errorf("%s is explained by %s", topic, explained)
		}
	}
	if s := c.Topics[0].Settings(); len(s) != 2 || s[1].Name != "wire" || s[1].Origin != path+":5" {
		t.Errorf("the rule sets %+v", s)
	}
	changed, err := Load(From{File: write(t, strings.Replace(oneWire, "tombstones: true", "tombstones: false", 1))})
	if err != nil {
		t.Fatal(err)
	}
	if names := c.ChangedBeside(changed); len(names) != 1 || names[0] != "topics" {
		t.Errorf("a change of the wire changes %v", names)
	}
}

// TestMistakesInAWire: each is named with its line.
func TestMistakesInAWire(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ wire, want string }{
		"no mapping":          {"json", "wire of rule 1 of topics must be a mapping"},
		"unknown key":         {"{key: string, value: json, expant: true}", "unknown key expant in wire of rule 1 of topics; the nearest key is expand"},
		"twice":               {"{key: string, key: json, value: json}", "is set twice"},
		"no value":            {"{key: string}", `value is "", it must be one of string, json, json_with_schemas and bytes`},
		"another converter":   {"{key: string, value: avro}", `value is "avro"`},
		"a list":              {"{key: [string], value: json}", "key of wire of rule 1 of topics must be a plain value, not a list"},
		"no truth":            {"{key: string, value: json, expand: on}", "expand of wire of rule 1 of topics must be true or false"},
		"no type":             {"{key: string, value: json, key_type: text}", `"text" is no type`},
		"no schema":           {`{key: string, value: json, key_type: '{"type": "map"}'}`, `the schema has the type "map"`},
		"text of a struct":    {"{key: string, value: string, expand: true}", "expand needs a value of json or json_with_schemas"},
		"nulls of what":       {"{key: string, value: json, null_fields: optional_bytes}", "are for expand: true"},
		"other nulls":         {"{key: string, value: json, expand: true, null_fields: keep}", `null_fields is "keep"`},
		"other arrays":        {"{key: string, value: json, expand: true, empty_arrays: optional_bytes}", `empty_arrays is "optional_bytes"`},
		"bytes as text":       {"{key: string, value: string, value_type: bytes}", "value_type is bytes, which value: string does not write"},
		"text as bytes":       {"{key: bytes, key_type: string, value: string}", "key_type is string, which key: bytes does not write"},
		"no name":             {"{key: string, value: json_with_schemas, envelope: [{name: a, type: string}]}", "needs schema_name"},
		"a name for nothing":  {"{key: string, value: json, schema_name: a.Value}", "schema_name is for an envelope"},
		"an envelope of text": {"{key: string, value: bytes, envelope: [{name: a, type: string}]}", "envelope needs a value of json"},
		"no list":             {"{key: string, value: json, envelope: {name: a, type: string}}", "envelope of wire of rule 1 of topics must be a list of fields"},
		"a field's key":       {"{key: string, value: json, envelope: [{name: a, typ: string}]}", "unknown key typ in field 1 of envelope of wire of rule 1 of topics"},
		"a field without":     {"{key: string, value: json, envelope: [{name: a}]}", "the field a of envelope has no type"},
		"payload":             {"{key: string, value: json, envelope: [{name: payload, type: string}]}", "two fields with the name payload"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(From{File: write(t, "topics:\n  - match: a\n    wire: "+c.wire+"\n")})
			if err == nil || !strings.Contains(err.Error(), "postrider.yaml:3: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
		})
	}
}
