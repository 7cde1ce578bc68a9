package wire

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/postrider/postrider/message"
)

// HeaderID has the event's id on every record of the router.
const HeaderID = "id"

// Headers of a row that are no headers of its record.
const (
	// headerPrefix begins them.
	headerPrefix = "wire-"
	// HeaderEnvelope has the fields of the envelope, by name, as an object in JSON.
	HeaderEnvelope = "wire-envelope"
	// HeaderTracing has a trace's context as the text of java.util.Properties, as the column tracingspancontext has it.
	HeaderTracing = "wire-tracing"
)

// payloadMember is the payload's name in an envelope, and the name of its schema.
const payloadMember = "payload"

// Record is a record as the router sends it.
type Record struct {
	Key, Value []byte
	Headers    []message.Header
	// Differs says where and why Debezium would send something else, or nothing; it is empty where the bytes are the same.
	Differs string
}

// RecordKey returns the key of a record, for the text of the key's column. It is nil for no key.
func (r *Rule) RecordKey(key []byte) ([]byte, error) {
	out, _, err := r.key(key)
	return out, err
}

func (r *Rule) key(key []byte) (out []byte, differs string, err error) {
	if r.Key == String || r.Key == Bytes {
		return key, "", nil
	}
	if out, differs, err = r.KeyType.appendText(nil, key); err != nil {
		return nil, "", fmt.Errorf("the key: %w", err)
	}
	if r.Key == JSONWithSchemas {
		out = withSchema(r.KeyType.schema, out)
	}
	return out, differs, nil
}

// Record makes the record of a row: key and payload are the text, or the bytes, of their columns, and headers those of the row.
// Errors say which part of the row is not what the rule needs.
func (r *Rule) Record(key, payload []byte, headers []message.Header) (rec Record, err error) {
	var differs string
	if rec.Key, differs, err = r.key(key); err != nil {
		return rec, err
	}
	var fields []byte
	if rec.Headers, fields = split(headers); fields == nil && len(r.Envelope) > 0 {
		return rec, fmt.Errorf("the header %s is missing, and the rule has an envelope", HeaderEnvelope)
	}
	rec.Value, rec.Differs, err = r.value(payload, fields)
	if rec.Differs == "" {
		rec.Differs = differs
	}
	return rec, err
}

// split takes the headers that are none of the record out, and puts a trace's context at their place before all others, as
// OpenTelemetry does in Debezium.
func split(headers []message.Header) (own []message.Header, envelope []byte) {
	own = make([]message.Header, 0, len(headers)+1)
	for _, h := range headers {
		if h.Name == HeaderTracing {
			own = append(own, traceOf(string(h.Value))...)
		}
	}
	for _, h := range headers {
		switch {
		case h.Name == HeaderEnvelope:
			envelope = h.Value
		case !strings.HasPrefix(h.Name, headerPrefix):
			own = append(own, h)
		}
	}
	return own, envelope
}

func (r *Rule) value(payload, fields []byte) (out []byte, differs string, err error) {
	text := r.ValueType.kind == kindString
	switch {
	case r.Tombstones && (payload == nil || text && blank(payload)):
		return nil, "", nil
	case r.Value == String || r.Value == Bytes:
		return payload, "", nil
	}
	var e expanded
	if r.Expand && text && payload != nil {
		e = r.expand(string(payload))
	}
	schema, schemas := r.ValueType.schema, r.Value == JSONWithSchemas
	switch {
	case e.value != nil:
		out, differs = e.value, e.differs
		if schemas {
			schema = string(e.schema.appendSchema(nil, "", false))
		}
	case e.raw != "" && !schemas:
		out, differs = []byte(e.raw), e.differs
	default:
		if out, differs, err = r.ValueType.appendText(make([]byte, 0, len(payload)+2), payload); err != nil {
			return nil, "", fmt.Errorf("the payload: %w", err)
		}
		switch { // a payload that has no schema is a string, as in Debezium
		case e.untyped && len(r.Envelope) > 0:
			differs = differsStops
		case e.untyped:
			schema = "null"
		case e.differs != differsString:
			differs = cmp.Or(e.differs, differs)
		}
	}
	if len(r.Envelope) > 0 {
		if schema, out, err = r.envelope(schema, out, fields, &differs); err != nil {
			return nil, "", err
		}
	}
	if schemas {
		out = withSchema(schema, out)
	}
	return out, differs, nil
}

// blank reports whether Java's trim leaves nothing of a text.
func blank(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return r > ' ' })
}

func withSchema(schema string, value []byte) []byte {
	out := append(make([]byte, 0, len(schema)+len(value)+32), `{"schema":`...)
	out = append(append(append(out, schema...), `,"payload":`...), value...)
	return append(out, '}')
}

// envelope puts the payload and the additional fields into one struct.
func (r *Rule) envelope(payloadSchema string, payload, fields []byte, differs *string) (schema string, out []byte, err error) {
	n, _, err := parse(string(fields))
	if err != nil || n.kind != nodeObject {
		return "", nil, fmt.Errorf("the header %s is not an object in JSON: %.80q", HeaderEnvelope, fields)
	}
	ofFields := append([]byte(`{"type":"struct","fields":[`), inField(payloadSchema, payloadMember)...)
	out = append(append(make([]byte, 0, len(payload)+256), `{"payload":`...), payload...)
	for _, f := range r.Envelope {
		ofFields = append(append(ofFields, ','), inField(f.Type.schema, f.Name)...)
		out = append(appendString(append(out, ','), f.Name), ':')
		value := &node{kind: nodeNull}
		if i, there := n.place(f.Name); there {
			value = &n.items[i]
		}
		var why string
		if out, why, err = f.Type.appendNode(out, value); err != nil {
			return "", nil, fmt.Errorf("the field %s of the header %s: %w", f.Name, HeaderEnvelope, err)
		}
		*differs = cmp.Or(*differs, why)
	}
	ofFields = appendString(append(ofFields, `],"optional":false,"name":`...), r.SchemaName)
	return string(append(ofFields, '}')), append(out, '}'), nil
}

// inField is the schema of a field with this name.
func inField(schema, name string) []byte {
	return append(appendString(append([]byte(strings.TrimSuffix(schema, "}")), `,"field":`...), name), '}')
}
