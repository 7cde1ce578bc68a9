package wire

import (
	"errors"
	"strconv"
)

// Why Debezium does not send what the encoder sends of a payload that is expanded.
const (
	differsString  = "Debezium sends this payload as a string: a value in it has no one type (an array of different types, of nulls alone or of empty arrays, a member without a name), or it is an empty array"
	differsStops   = "Debezium stops here: an integer beyond 64 bits, an array as the whole payload, or an array whose parts have different types"
	differsLoses   = "Debezium loses values here: objects of an array have members of one name and different types"
	differsOrder   = "Debezium orders the members of unlike objects in an array anew at each start; here they have the order in which they come first"
	differsLarge   = "Debezium makes more than 32 MiB of this payload: objects of an array have many members that the others lack"
	differsNotNull = "Debezium stops: the column may not be null, and is"
)

// errStops is the error for a value that Debezium finds a schema for, and cannot write.
var errStops = errors.New("the value does not fit its schema")

// expanded is a payload as the router expands it. Without a value there is none: the payload is sent as a string.
type expanded struct {
	schema  *schema
	value   []byte
	raw     string // the payload's JSON as it is, without what follows it
	differs string
	// untyped says that Debezium has a schema of null for the string; see infer.of.
	untyped bool
}

// expand expands a payload, as far as it is an object of JSON.
func (r *Rule) expand(payload string) expanded {
	if payload == "" || payload[0] != '{' && payload[0] != '[' {
		return expanded{}
	}
	n, end, err := parse(payload)
	if err != nil {
		return expanded{}
	}
	x := infer{nulls: r.NullFields == OptionalBytes, empty: r.EmptyArrays == OptionalString, paths: r.Value == JSONWithSchemas}
	e := expanded{raw: payload[:end]}
	s, err := x.of(payloadMember, true, &n)
	switch {
	case errors.Is(err, errTooLarge):
		e.differs = differsLarge
	case err != nil:
		e.differs = differsString
	case s == nil: // an empty array, which is dropped, and nothing is left of the schema
		e.differs, e.untyped = differsString, true
	case n.kind == nodeArray:
		e.differs = differsStops
	default:
		value, err := x.appendValue(make([]byte, 0, len(payload)), &n, s)
		switch {
		case errors.Is(err, errTooLarge):
			e.differs = differsLarge
		case err != nil:
			e.differs = differsStops
		case x.lossy:
			e.differs = differsLoses
		default:
			if e.schema, e.value = s, value; x.unlike {
				e.differs = differsOrder
			}
		}
	}
	return e
}

// appendValue appends a value as JsonConverter writes it by a schema.
func (x *infer) appendValue(to []byte, n *node, s *schema) ([]byte, error) {
	switch n.kind {
	case nodeNull:
		if s.required {
			return to, errStops
		}
		return append(to, "null"...), nil
	case nodeString:
		if s.kind != kindString {
			return to, errStops
		}
		return appendString(to, n.text), nil
	case nodeBoolean:
		if s.kind != kindBoolean {
			return to, errStops
		}
		return append(to, n.text...), nil
	case nodeNumber:
		return n.appendNumber(to, s)
	case nodeArray:
		return x.appendArray(to, n, s)
	}
	if s.kind != kindStruct {
		return to, errStops
	}
	var err error
	to = append(to, '{')
	met, next := 0, 0
	for i := range s.fields {
		f := &s.fields[i]
		if i > 0 {
			to = append(to, ',')
		}
		to = append(appendString(to, f.name), ':')
		place, there := next, next < len(n.names) && n.names[next] == f.name
		if !there {
			place, there = n.place(f.name)
		}
		if !there {
			to = append(to, "null"...)
			continue
		}
		met, next = met+1, place+1
		if to, err = x.appendValue(to, &n.items[place], f.schema); err != nil {
			return to, err
		}
		if len(to) > maxExpanded {
			return to, errTooLarge
		}
	}
	if met < len(n.items) {
		x.lossy = x.lossy || n.hasMore(s)
	}
	return append(to, '}'), nil
}

// hasMore reports whether an object has a member that the schema lacks, other than one that is dropped everywhere.
func (n *node) hasMore(s *schema) bool {
	for i := range n.items {
		item := &n.items[i]
		if item.kind != nodeNull && (item.kind != nodeArray || len(item.items) > 0) && !s.has(n.names[i]) {
			return true
		}
	}
	return false
}

func (n *node) appendNumber(to []byte, s *schema) ([]byte, error) {
	if n.number() != s.kind || n.tooLarge() {
		return to, errStops
	}
	if s.kind == kindDouble {
		f, _ := strconv.ParseFloat(n.text, 64) // beyond the range it is infinite, as in Java
		return appendDouble(to, f), nil
	}
	if n.text == "-0" {
		return append(to, '0'), nil
	}
	return append(to, n.text...), nil
}

func (x *infer) appendArray(to []byte, n *node, s *schema) ([]byte, error) {
	if s.kind != kindArray {
		return to, errStops
	}
	var err error
	to = append(to, '[')
	for i := range n.items {
		if i > 0 {
			to = append(to, ',')
		}
		if to, err = x.appendValue(to, &n.items[i], s.items); err != nil {
			return to, err
		}
	}
	return append(to, ']'), nil
}
