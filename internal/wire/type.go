package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Type is the type of a column as Kafka Connect has it. The zero value is none.
type Type struct {
	kind     kind
	optional bool
	schema   string // in JSON, as JsonConverter writes it
	name     string // as in the settings
}

// kind is a type of Kafka Connect, by the word that its schemas have for it.
type kind string

const (
	kindString  kind = "string"
	kindBoolean kind = "boolean"
	kindInt16   kind = "int16"
	kindInt32   kind = "int32"
	kindInt64   kind = "int64"
	kindDouble  kind = "double"
	kindBytes   kind = "bytes"
	kindStruct  kind = "struct"
	kindArray   kind = "array"
)

// typeNames are the names of types in the settings; the rest of a schema is what Debezium adds.
var typeNames = map[string]struct {
	kind kind
	rest string
}{
	"string": {kindString, ""}, "boolean": {kindBoolean, ""}, "int16": {kindInt16, ""}, "int32": {kindInt32, ""}, "int64": {kindInt64, ""},
	"float64": {kindDouble, ""}, "bytes": {kindBytes, ""},
	"uuid": {kindString, `,"name":"io.debezium.data.Uuid","version":1`}, "json": {kindString, `,"name":"io.debezium.data.Json","version":1`},
}

// ParseType reads a type: string, uuid, json, int16, int32, int64, float64, boolean or bytes, with ? behind it where the column
// may be null, or a schema of Kafka Connect as JSON, which is kept as it is written.
func ParseType(text string) (Type, error) {
	if strings.HasPrefix(text, "{") {
		return parseSchema(text)
	}
	name, optional := strings.CutSuffix(text, "?")
	t, known := typeNames[name]
	if !known {
		return Type{}, fmt.Errorf("%q is no type: it must be string, uuid, json, int16, int32, int64, float64, boolean or bytes, with ? where the column may be null, or a schema of Kafka Connect in JSON", text)
	}
	schema := fmt.Sprintf(`{"type":"%s","optional":%v%s}`, t.kind, optional, t.rest)
	return Type{kind: t.kind, optional: optional, schema: schema, name: text}, nil
}

func parseSchema(text string) (Type, error) {
	var head struct {
		Type     kind `json:"type"`
		Optional bool `json:"optional"`
	}
	var compact bytes.Buffer
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return Type{}, fmt.Errorf("the schema is not JSON: %w", err)
	}
	if err := json.Compact(&compact, []byte(text)); err != nil {
		return Type{}, fmt.Errorf("the schema is not JSON: %w", err)
	}
	switch head.Type {
	case kindString, kindBoolean, kindInt16, kindInt32, kindInt64, kindDouble, kindBytes:
		return Type{kind: head.Type, optional: head.Optional, schema: compact.String(), name: compact.String()}, nil
	}
	return Type{}, fmt.Errorf("the schema has the type %q: it must be string, boolean, int16, int32, int64, double or bytes", head.Type)
}

// Schema is the type as a schema of Kafka Connect, as JsonConverter writes it.
func (t Type) Schema() string { return t.schema }

// String is the type as the settings have it.
func (t Type) String() string { return t.name }

// setting is the type in YAML, in quotes where a list or an object of YAML would read it otherwise.
func (t Type) setting() string {
	if strings.ContainsAny(t.name, `{?`) {
		return strconv.Quote(t.name)
	}
	return t.name
}

// appendText appends the value of a column, given as text or bytes, as JsonConverter writes it. differs says that Debezium
// would write nothing: the value is null, and the column may not be.
func (t Type) appendText(to, value []byte) (out []byte, differs string, err error) {
	if value == nil {
		if !t.optional {
			differs = differsNotNull
		}
		return append(to, "null"...), differs, nil
	}
	switch t.kind {
	case kindString:
		return appendString(to, string(value)), "", nil
	case kindBytes:
		to = append(to, '"')
		to = base64.StdEncoding.AppendEncode(to, value)
		return append(to, '"'), "", nil
	case kindBoolean:
		if s := string(value); s == "true" || s == "false" {
			return append(to, s...), "", nil
		}
	case kindDouble:
		if f, err := strconv.ParseFloat(string(value), 64); err == nil {
			return appendDouble(to, f), "", nil
		}
	default:
		if _, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			return append(to, value...), "", nil
		}
	}
	return to, "", fmt.Errorf("%.40q is no %s", value, t)
}

// appendNode appends a value that is given in JSON.
func (t Type) appendNode(to []byte, n *node) (out []byte, differs string, err error) {
	text := []byte(n.text)
	switch {
	case n.kind == nodeNull:
		return t.appendText(to, nil)
	case n.kind == nodeString && t.kind == kindBytes:
		if text, err = base64.StdEncoding.DecodeString(n.text); err != nil {
			return to, "", fmt.Errorf("%.40q is not base64", n.text)
		}
	case n.kind == nodeString && t.kind == kindString, n.kind == nodeNumber && t.kind != kindString && t.kind != kindBytes, n.kind == nodeBoolean && t.kind == kindBoolean:
	default:
		return to, "", fmt.Errorf("a %s is no %s", n.kind, t)
	}
	return t.appendText(to, text)
}
