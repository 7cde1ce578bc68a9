package wire

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// schema is what Debezium infers of a value in JSON.
type schema struct {
	kind kind
	// name is that of a struct; the structs of an array in an array have none.
	name  string
	named bool
	// required is true for the structs of an array that were made one: Debezium forgets that they are optional.
	required bool
	fields   []field
	items    *schema
	// places has the fields of merged structs by name.
	places map[string]int
}

type field struct {
	name   string
	schema *schema
}

// errTooLarge is the error for what becomes far larger than the payload.
var errTooLarge = errors.New("it becomes too large")

// maxExpanded bounds what an expanded payload may become, in bytes: the members of unlike objects multiply.
const maxExpanded = 32 << 20

// errUntyped is the error for a value that Debezium finds no schema for. It then sends the payload as a string.
var errUntyped = errors.New("it has no one type")

// infer finds the schemas of values as Debezium does (JsonSchemaData).
type infer struct {
	nulls, empty bool // kept, and not dropped
	// paths says that structs are named. bytes counts the names, which may be much longer than the payload together.
	paths bool
	bytes int
	// unlike says that objects of an array had different members, so that the order of all depends on hashes of Java.
	unlike bool
	// lossy says that they had members of one name and different types: values of all but one are lost.
	lossy bool
}

// of returns the schema of a value; nil for a member that is dropped. key is the path to the value, and named says that it
// has one.
func (x *infer) of(key string, named bool, n *node) (*schema, error) {
	switch n.kind {
	case nodeString:
		return &schema{kind: kindString}, nil
	case nodeBoolean:
		return &schema{kind: kindBoolean}, nil
	case nodeNumber:
		return &schema{kind: n.number()}, nil
	case nodeNull:
		if x.nulls {
			return &schema{kind: kindBytes}, nil
		}
		return nil, nil
	case nodeArray:
		return x.ofArray(key, named, n)
	}
	s := &schema{kind: kindStruct, name: key, named: named}
	for i := range n.items {
		name, path := n.names[i], ""
		if item := &n.items[i]; x.paths && (item.kind == nodeObject || item.kind == nodeArray) {
			if path = name; named && strings.TrimSpace(key) != "" {
				path = key + "." + name
			}
			if x.bytes += len(path); x.bytes > maxExpanded {
				return nil, errTooLarge
			}
		}
		of, err := x.of(path, true, &n.items[i])
		if err != nil {
			return nil, err
		}
		if of == nil {
			continue
		}
		if name == "" { // which no field of a struct can have
			return nil, errUntyped
		}
		s.fields = append(s.fields, field{name, of})
	}
	return s, nil
}

// number is the type of a number. One that is too large for any other is a double to Debezium, until it is to be written.
func (n *node) number() kind {
	if strings.ContainsAny(n.text, ".eE") {
		return kindDouble
	}
	i, err := strconv.ParseInt(n.text, 10, 64)
	switch {
	case err != nil:
		return kindDouble
	case i == int64(int32(i)):
		return kindInt32
	}
	return kindInt64
}

// tooLarge reports whether it is an integer beyond 64 bits.
func (n *node) tooLarge() bool {
	if strings.ContainsAny(n.text, ".eE") {
		return false
	}
	_, err := strconv.ParseInt(n.text, 10, 64)
	return err != nil
}

func (x *infer) ofArray(key string, named bool, n *node) (*schema, error) {
	if len(n.items) == 0 {
		if x.empty {
			return &schema{kind: kindArray, items: &schema{kind: kindString}}, nil
		}
		return nil, nil
	}
	sample := &node{kind: nodeNull}
	for i := range n.items {
		switch item := &n.items[i]; {
		case item.kind == nodeNull:
		case sample.kind == nodeNull:
			sample = item
		case item.kind != sample.kind, item.kind == nodeNumber && item.number() != sample.number():
			return nil, errUntyped
		}
	}
	if sample.kind != nodeObject {
		items, err := x.of("", false, sample)
		if err == nil && items == nil {
			err = errUntyped
		}
		return &schema{kind: kindArray, items: items}, err
	}
	var first, one *schema
	for i := range n.items {
		if n.items[i].kind != nodeObject {
			continue
		}
		of, err := x.of(key, named, &n.items[i])
		switch {
		case err != nil:
			return nil, err
		case first == nil:
			first, one = of, of
		case !of.equal(first):
			if one == first {
				one = first.merged()
			}
			x.merge(one, of)
		}
	}
	return &schema{kind: kindArray, items: one}, nil
}

// merged begins a schema that is made of the schemas of several objects.
func (s *schema) merged() *schema {
	one := &schema{kind: kindStruct, name: s.name, named: s.named, required: true, fields: slices.Clone(s.fields), places: map[string]int{}}
	for i, f := range one.fields {
		one.places[f.name] = i
	}
	return one
}

// merge adds the schema of an object to one that is made of several. Debezium takes them in the order of a hash that differs
// from one run of Java to the next; here it is the order of the objects.
func (x *infer) merge(one, s *schema) {
	x.unlike = true
	for _, f := range s.fields {
		place, there := one.places[f.name]
		if !there {
			one.places[f.name] = len(one.fields)
			one.fields = append(one.fields, f)
			continue
		}
		switch old := &one.fields[place]; {
		case old.schema.equal(f.schema) || f.schema.kind == kindBytes:
		case old.schema.kind == kindBytes:
			old.schema = f.schema
		default:
			x.lossy = true
		}
	}
}

// has reports whether a struct has a field.
func (s *schema) has(name string) bool {
	if s.places != nil {
		_, there := s.places[name]
		return there
	}
	return slices.ContainsFunc(s.fields, func(f field) bool { return f.name == name })
}

func (s *schema) equal(o *schema) bool {
	if s == nil || o == nil {
		return s == o
	}
	if s.kind != o.kind || s.name != o.name || s.named != o.named || s.required != o.required || len(s.fields) != len(o.fields) || !s.items.equal(o.items) {
		return false
	}
	for i := range s.fields {
		if s.fields[i].name != o.fields[i].name || !s.fields[i].schema.equal(o.fields[i].schema) {
			return false
		}
	}
	return true
}

// appendSchema appends a schema as JsonConverter writes it. name is that of the field which has it, if it is one's.
func (s *schema) appendSchema(to []byte, name string, isField bool) []byte {
	to = append(append(append(to, `{"type":"`...), s.kind...), '"')
	switch s.kind {
	case kindStruct:
		to = append(to, `,"fields":[`...)
		for i, f := range s.fields {
			if i > 0 {
				to = append(to, ',')
			}
			to = f.schema.appendSchema(to, f.name, true)
		}
		to = append(to, ']')
	case kindArray:
		to = s.items.appendSchema(append(to, `,"items":`...), "", false)
	}
	to = strconv.AppendBool(append(to, `,"optional":`...), !s.required)
	if s.named {
		to = appendString(append(to, `,"name":`...), s.name)
	}
	if isField {
		to = appendString(append(to, `,"field":`...), name)
	}
	return append(to, '}')
}
