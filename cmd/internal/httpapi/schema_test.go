package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/relay"
)

// renamed are the schemas whose type has a name that says too little, or too much, to readers of the API.
var renamed = map[reflect.Type]string{
	reflect.TypeFor[api.Detail]():        "EntryDetail",
	reflect.TypeFor[relay.EventStatus](): "Event",
}

// schemas makes the schemas of Go types, as encoding/json writes them: a field with omitempty may be missing, any other
// pointer may be null, and a named text with constants is one of them.
type schemas struct {
	comments
	// made are the schemas of structs by their names; types are what they were made of.
	made  map[string]*yaml.Node
	types map[string]reflect.Type
}

func newSchemas() *schemas {
	return &schemas{comments{map[string]bool{}, map[string]string{}, map[string]bool{}, map[string][]string{}}, map[string]*yaml.Node{}, map[string]reflect.Type{}}
}

// mapping is an object of YAML; pairs are names and values. A value is a node, or becomes one.
func mapping(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i < len(pairs); i += 2 {
		add(n, pairs[i].(string), pairs[i+1])
	}
	return n
}

// flow is mapping, on one line.
func flow(pairs ...any) *yaml.Node {
	n := mapping(pairs...)
	n.Style = yaml.FlowStyle
	return n
}

func add(to *yaml.Node, name string, value any) {
	to.Content = append(to.Content, node(name), node(value))
}

func node(value any) *yaml.Node {
	if n, is := value.(*yaml.Node); is {
		return n
	}
	n := &yaml.Node{}
	if err := n.Encode(value); err != nil {
		panic(err)
	}
	if n.Kind == yaml.SequenceNode {
		n.Style = yaml.FlowStyle
	}
	return n
}

// member is the value of a name of an object; nil where it has none.
func member(object *yaml.Node, name string) *yaml.Node {
	for i := 0; object != nil && i+1 < len(object.Content) && object.Kind == yaml.MappingNode; i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1]
		}
	}
	return nil
}

// of is the schema of a type.
func (s *schemas) of(t reflect.Type) (*yaml.Node, error) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return flow("type", "string", "format", "date-time"), nil
	case reflect.TypeFor[uuid.UUID]():
		return flow("type", "string", "format", "uuid"), nil
	case reflect.TypeFor[json.RawMessage]():
		return flow(), nil
	case reflect.TypeFor[[]byte]():
		return flow("type", "string", "contentEncoding", "base64"), nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Interface:
		return flow(), nil
	case reflect.Bool:
		return flow("type", "boolean"), nil
	case reflect.Int32:
		return flow("type", "integer", "format", "int32"), nil
	case reflect.Int, reflect.Int64:
		return flow("type", "integer", "format", "int64"), nil
	case reflect.Float64:
		return flow("type", "number", "format", "double"), nil
	case reflect.String:
		return s.ofText(t)
	case reflect.Slice:
		items, err := s.of(t.Elem())
		return flow("type", "array", "items", items), err
	case reflect.Map:
		values, err := s.of(t.Elem())
		return flow("type", "object", "additionalProperties", values), err
	case reflect.Struct:
		name, err := s.ofStruct(t)
		return flow("$ref", "#/components/schemas/"+name), err
	}
	return nil, fmt.Errorf("%s has no schema: JSON has nothing like it", t)
}

func (s *schemas) ofText(t reflect.Type) (*yaml.Node, error) {
	text := flow("type", "string")
	if t == reflect.TypeFor[string]() {
		return text, nil
	}
	words, err := s.enum(typeName(t))
	if err != nil {
		return nil, err
	}
	add(text, "enum", words)
	return text, nil
}

// enum are the constants of a type.
func (s *schemas) enum(name string) ([]string, error) {
	if err := s.packageOf(name); err != nil {
		return nil, err
	}
	if len(s.words[name]) == 0 {
		return nil, fmt.Errorf("%s has no constants that are texts", name)
	}
	return s.words[name], nil
}

// schemaName is the name of a struct's schema: the type's own, or of a page of things theirs with List.
func schemaName(t reflect.Type) string {
	name, arg, generic := strings.Cut(t.Name(), "[")
	if given, is := renamed[t]; is {
		name = given
	} else if generic {
		name = arg[strings.LastIndex(arg, ".")+1:len(arg)-1] + name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// ofStruct makes the schema of a struct, once, and returns its name.
func (s *schemas) ofStruct(t reflect.Type) (string, error) {
	name := schemaName(t)
	if other, is := s.types[name]; is {
		if other != t {
			return "", fmt.Errorf("%s and %s would both be the schema %s: give one another name in renamed", other, t, name)
		}
		return name, nil
	}
	s.types[name] = t
	if err := s.packageOf(typeName(t)); err != nil {
		return "", err
	}
	about, err := s.description(typeName(t), namesOf(t))
	required, properties := []string{}, mapping()
	if err := errors.Join(err, s.addFields(t, &required, properties)); err != nil {
		return "", err
	}
	made := mapping("description", about, "type", "object")
	if len(required) > 0 {
		add(made, "required", required)
	}
	add(made, "properties", properties)
	add(made, "additionalProperties", false)
	s.made[name] = made
	return name, nil
}

// namesOf are what JSON calls the fields of a struct.
func namesOf(t reflect.Type) map[string]string {
	names := map[string]string{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names[f.Name] = name
		}
	}
	return names
}

// addFields adds the fields of a struct, and of the structs that are embedded in it.
func (s *schemas) addFields(t reflect.Type, required *[]string, properties *yaml.Node) error {
	if err := s.packageOf(typeName(t)); err != nil {
		return err
	}
	var wrong []error
	names := namesOf(t)
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			wrong = append(wrong, s.addFields(f.Type, required, properties))
			continue
		}
		if name == "-" { // it is for callers in the process, as the console
			continue
		}
		if name == "" {
			return fmt.Errorf("%s.%s has no name in JSON", t, f.Name)
		}
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		schema, err := s.ofField(f, optional, strings.Contains(options, "string"))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s.%s: %w", t, f.Name, err))
			continue
		}
		var words []string
		if enum := member(schema, "enum"); enum != nil {
			for _, w := range enum.Content {
				words = append(words, w.Value)
			}
		}
		about, err := s.description(typeName(t)+"."+f.Name, names, words...)
		wrong = append(wrong, err)
		add(schema, "description", about)
		add(properties, name, schema)
		if !optional {
			*required = append(*required, name)
		}
	}
	return errors.Join(wrong...)
}

// ofField is the schema of a field.
func (s *schemas) ofField(f reflect.StructField, optional, asText bool) (*yaml.Node, error) {
	schema, err := s.of(f.Type)
	if asText {
		schema = flow("type", "string", "pattern", "^-?[0-9]+$")
	}
	if err != nil || f.Type.Kind() != reflect.Pointer || optional {
		return schema, err
	}
	if member(schema, "$ref") != nil {
		return flow("anyOf", &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{schema, flow("type", "null")}}), nil
	}
	for i := 0; i < len(schema.Content); i += 2 {
		switch schema.Content[i].Value {
		case "type":
			schema.Content[i+1] = node([]string{schema.Content[i+1].Value, "null"})
		case "enum":
			schema.Content[i+1].Content = append(slices.Clone(schema.Content[i+1].Content), node(nil))
		}
	}
	return schema, nil
}

// merge adds what is said by hand to a schema, and refuses what says again what the types say.
func merge(into, more *yaml.Node, at string) error {
	for i := 0; i+1 < len(more.Content); i += 2 {
		name, value := more.Content[i].Value, more.Content[i+1]
		there := member(into, name)
		switch {
		case there == nil && strings.HasSuffix(at, ".properties"):
			return fmt.Errorf("operations.yaml says something of %s.%s, which is no field", at, name)
		case there == nil:
			add(into, name, value)
		case there.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			if err := merge(there, value, at+"."+name); err != nil {
				return err
			}
		case name == "required" && there.Kind == yaml.SequenceNode:
			there.Content = append(there.Content, value.Content...)
		default:
			return fmt.Errorf("operations.yaml says %s.%s, which the type says: take it out", at, name)
		}
	}
	return nil
}
