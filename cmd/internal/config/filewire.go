package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/wire"
)

// wireKey is what a rule for topics has beside its keys: how Debezium's event router wrote the records of these topics. No
// section has a default of it.
const wireKey = "wire"

// wireKeys are the keys of a wire.
var wireKeys = []string{"key", "key_type", "value", "value_type", "expand", "null_fields", "empty_arrays", "tombstones", "envelope", "schema_name"}

// wire reads the wire of a rule; nil after a mistake, which is reported.
func (f *fileReader) wire(label string, body *yaml.Node) *wire.Rule {
	label, wrong := wireKey+" of "+label, len(f.problems)
	r := &wire.Rule{}
	for name, value := range f.pairs(body, label) {
		text := func() string { return f.wireText(name.Value+" of "+label, value) }
		typed := func() wire.Type { return f.wireType(name.Value+" of "+label, value) }
		switch key := name.Value; {
		case f.twice(name, label+": "+key):
		case !slices.Contains(wireKeys, key):
			f.problem(name, "unknown key %s in %s; the nearest key is %s", shown(key), label, Nearest(key, wireKeys))
		case key == "key":
			r.Key = wire.Converter(text())
		case key == "value":
			r.Value = wire.Converter(text())
		case key == "key_type":
			r.KeyType = typed()
		case key == "value_type":
			r.ValueType = typed()
		case key == "null_fields":
			r.NullFields = wire.Handling(text())
		case key == "empty_arrays":
			r.EmptyArrays = wire.Handling(text())
		case key == "expand":
			r.Expand = f.wireBool(key+" of "+label, value)
		case key == "tombstones":
			r.Tombstones = f.wireBool(key+" of "+label, value)
		case key == "envelope":
			r.Envelope = f.envelope(label, value)
		case key == "schema_name":
			r.SchemaName = text()
		}
	}
	if len(f.problems) > wrong {
		return nil
	}
	if err := r.Validate(); err != nil {
		f.problem(body, "%s: %v", label, err)
		return nil
	}
	return r
}

func (f *fileReader) wireText(what string, value *yaml.Node) string {
	text, ok := scalar(value)
	if !ok {
		f.problem(value, "%s must be a plain value, not %s", what, kindOf(value))
	}
	return text
}

func (f *fileReader) wireBool(what string, value *yaml.Node) bool {
	text := f.wireText(what, value)
	if text != "true" && text != "false" {
		f.problem(value, "%s must be true or false", what)
	}
	return text == "true"
}

func (f *fileReader) wireType(what string, value *yaml.Node) wire.Type {
	t, err := wire.ParseType(strings.TrimSpace(f.wireText(what, value)))
	if err != nil {
		f.problem(value, "%s: %v", what, err)
	}
	return t
}

// envelope reads the additional fields with placement envelope.
func (f *fileReader) envelope(label string, body *yaml.Node) (fields []wire.Field) {
	if !isList(body) {
		f.problem(body, "envelope of %s must be a list of fields, each with name and type", label)
		return nil
	}
	for n, item := range body.Content {
		field, own := wire.Field{}, fmt.Sprintf("field %d of envelope of %s", n+1, label)
		for name, value := range f.pairs(item, own) {
			switch key := name.Value; {
			case f.twice(name, own+": "+key):
			case key == "name":
				field.Name = f.wireText("name of "+own, value)
			case key == "type":
				field.Type = f.wireType("type of "+own, value)
			default:
				f.problem(name, "unknown key %s in %s; the keys are name and type", shown(key), own)
			}
		}
		fields = append(fields, field)
	}
	return fields
}
