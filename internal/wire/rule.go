package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Converter is how Kafka Connect writes a key or a value.
type Converter string

const (
	// String is StringConverter: the text of the column.
	String Converter = "string"
	// JSON is JsonConverter with schemas.enable=false.
	JSON Converter = "json"
	// JSONWithSchemas is JsonConverter with schemas.enable=true.
	JSONWithSchemas Converter = "json_with_schemas"
	// Bytes is ByteArrayConverter, or Debezium's BinaryDataConverter on a column of bytes.
	Bytes Converter = "bytes"
)

// Converters returns every converter.
func Converters() []Converter { return []Converter{String, JSON, JSONWithSchemas, Bytes} }

// Handling is what the router does with members of JSON that have no type of their own.
type Handling string

const (
	// Ignore drops them, Debezium's default.
	Ignore Handling = "ignore"
	// OptionalBytes keeps members that are null (table.json.payload.null.behavior).
	OptionalBytes Handling = "optional_bytes"
	// OptionalString keeps members that are empty arrays (table.json.payload.empty.array.behavior).
	OptionalString Handling = "optional_string"
)

// Field is an additional field with placement envelope.
type Field struct {
	// Name is its alias.
	Name string
	// Type is that of its column.
	Type Type
}

// Rule says how a connector with the event router writes the records of a topic. Validate checks it and sets defaults.
type Rule struct {
	// Key and Value are the connector's converters. Required.
	Key, Value Converter
	// KeyType and ValueType are the types of the columns of key and payload. They default to string, and to json that may be
	// null; for bytes to bytes that may be null.
	KeyType, ValueType Type
	// Expand sends a payload that is an object of JSON as an object and not as a string (table.expand.json.payload). It needs
	// a value converter that writes JSON.
	Expand bool
	// NullFields is Ignore, the default, or OptionalBytes; EmptyArrays is Ignore, the default, or OptionalString. They are
	// for Expand.
	NullFields, EmptyArrays Handling
	// Tombstones sends null for a payload that is null or blank (route.tombstone.on.empty.payload).
	Tombstones bool
	// Envelope has the additional fields with placement envelope, in their order; the payload is a member beside them.
	Envelope []Field
	// SchemaName is the name of the envelope's schema. Required with Envelope and JSONWithSchemas.
	SchemaName string
}

// parts are what a converter writes, in the words of the settings.
var parts = [...]string{"key", "value"}

// Validate returns an error that names what is wrong with the rule, and sets defaults.
func (r *Rule) Validate() error {
	for i, c := range []Converter{r.Key, r.Value} {
		if !slices.Contains(Converters(), c) {
			return fmt.Errorf("%s is %q, it must be one of string, json, json_with_schemas and bytes", parts[i], c)
		}
	}
	writesJSON := r.Value == JSON || r.Value == JSONWithSchemas
	switch {
	case r.NullFields != "" && r.NullFields != Ignore && r.NullFields != OptionalBytes:
		return fmt.Errorf("null_fields is %q, it must be ignore or optional_bytes", r.NullFields)
	case r.EmptyArrays != "" && r.EmptyArrays != Ignore && r.EmptyArrays != OptionalString:
		return fmt.Errorf("empty_arrays is %q, it must be ignore or optional_string", r.EmptyArrays)
	case r.Expand && !writesJSON:
		return fmt.Errorf("expand needs a value of json or json_with_schemas: with %s Debezium sends Java's text of a struct, or stops", r.Value)
	case !r.Expand && (r.NullFields == OptionalBytes || r.EmptyArrays == OptionalString):
		return errors.New("null_fields and empty_arrays are for expand: true")
	case len(r.Envelope) > 0 && !writesJSON:
		return fmt.Errorf("envelope needs a value of json or json_with_schemas: with %s Debezium sends Java's text of a struct, or stops", r.Value)
	case len(r.Envelope) > 0 && r.Value == JSONWithSchemas && r.SchemaName == "":
		return errors.New("an envelope with schemas needs schema_name, such as PREFIX.public.outbox.AGGREGATETYPE.Value")
	case r.SchemaName != "" && (len(r.Envelope) == 0 || r.Value != JSONWithSchemas):
		return errors.New("schema_name is for an envelope with value: json_with_schemas")
	}
	if r.KeyType.kind == "" {
		r.KeyType = defaultType(r.Key, "string")
	}
	if r.ValueType.kind == "" {
		r.ValueType = defaultType(r.Value, "json?")
	}
	names := map[string]bool{payloadMember: true}
	for i, f := range r.Envelope {
		switch {
		case f.Name == "":
			return fmt.Errorf("field %d of envelope has no name", i+1)
		case names[f.Name]:
			return fmt.Errorf("envelope has two fields with the name %s", f.Name)
		case f.Type.kind == "":
			return fmt.Errorf("the field %s of envelope has no type", f.Name)
		}
		names[f.Name] = true
	}
	for i, t := range []Type{r.KeyType, r.ValueType} {
		c := []Converter{r.Key, r.Value}[i]
		if (c == Bytes) != (t.kind == kindBytes) && (c == Bytes || c == String) {
			return fmt.Errorf("%s_type is %s, which %s: %s does not write", parts[i], t, parts[i], c)
		}
	}
	return nil
}

func defaultType(c Converter, name string) Type {
	if c == Bytes {
		name = "bytes?"
	}
	t, _ := ParseType(name) // which is a name of the table
	return t
}

// Settings are the rule's settings in YAML, one a line, without defaults.
func (r *Rule) Settings() []string {
	lines := []string{"key: " + string(r.Key), "value: " + string(r.Value)}
	add := func(use bool, format string, args ...any) {
		if use {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	add(r.KeyType != defaultType(r.Key, "string"), "key_type: %s", r.KeyType.setting())
	add(r.ValueType != defaultType(r.Value, "json?"), "value_type: %s", r.ValueType.setting())
	add(r.Expand, "expand: true")
	add(r.NullFields == OptionalBytes, "null_fields: optional_bytes")
	add(r.EmptyArrays == OptionalString, "empty_arrays: optional_string")
	add(r.Tombstones, "tombstones: true")
	var fields []string
	for _, f := range r.Envelope {
		fields = append(fields, fmt.Sprintf("{name: %q, type: %s}", f.Name, f.Type.setting()))
	}
	add(len(fields) > 0, "envelope: [%s]", strings.Join(fields, ", "))
	add(r.SchemaName != "", "schema_name: %q", r.SchemaName)
	return lines
}

// String shows the settings in one line of YAML.
func (r *Rule) String() string { return "{" + strings.Join(r.Settings(), ", ") + "}" }
