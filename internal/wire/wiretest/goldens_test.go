package wiretest

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/wire"
	"github.com/postrider/postrider/message"
)

// ours makes the record as the relay does of what the forwarding trigger writes for the row.
func ours(t fataler, rule *wire.Rule, w row, value, key []byte) wire.Record {
	t.Helper()
	headers := []message.Header{{Name: "id", Value: []byte(rowID)}}
	var envelope []string
	for _, c := range w.columns {
		name := c.alias
		if name == "" {
			name = c.name
		}
		switch c.placement {
		case "header":
			h := message.Header{Name: name}
			if c.text != nil {
				h.Value = []byte(*c.text)
			}
			headers = append(headers, h)
		case "envelope":
			envelope = append(envelope, fmt.Sprintf(`%s: %s`, quoted(name), *c.text))
		}
	}
	if len(envelope) > 0 {
		headers = append(headers, message.Header{Name: wire.HeaderEnvelope, Value: []byte("{" + strings.Join(envelope, ", ") + "}")})
	}
	rec, err := rule.Record(key, value, headers)
	if err != nil {
		t.Fatalf("rule %s, payload %s: %v", rule, value, err)
	}
	return rec
}

// valid completes a rule.
func valid(t fataler, rule wire.Rule) *wire.Rule {
	t.Helper()
	if err := rule.Validate(); err != nil {
		t.Fatalf("the rule %s: %v", &rule, err)
	}
	return &rule
}

func typed(text string) wire.Type {
	t, err := wire.ParseType(text)
	if err != nil {
		panic(err)
	}
	return t
}

func ptr(s string) *string { return &s }

// golden is a row of the byte surface.
type golden struct {
	rule  wire.Rule
	key   string // empty for o-1, null for none
	keyIs string // in Connect's JSON, where it is no text
	// payload is text, or null; bytes are base64.
	payload string
	bytes   string
	columns []column
	// value is the converter's class, where it is not the one of the rule.
	value map[string]any
	// want is the value that both send, where it shows something; differs is why the router sends another or none.
	want, differs string
	topic         string
	settings      map[string]string
	partition     *int32
	timestamp     int64
}

const columnText = `{"type":"string","optional":true}`

var eventType = column{name: "type2", alias: "eventType", placement: "envelope", schema: columnText, value: `"OrderCreated"`, text: ptr(`"OrderCreated"`)}

const everything = `{"a": 2.50, "b": null, "c": [], "d": "é\"/<😀", "i": 3, "l": 5000000000, "o": {"x": [], "y": {"z": null}}, "t": [true, false], "n": [1, null, 3]}`

// TestGoldens asks the real router for every row of the byte surface: key, value, headers, partition, timestamp and topic.
func TestGoldens(t *testing.T) {
	t.Parallel()
	r := startRouter(t)
	plain := wire.Rule{Key: wire.String, Value: wire.String}
	schemaless, schemas := wire.Rule{Key: wire.JSON, Value: wire.JSON}, wire.Rule{Key: wire.JSONWithSchemas, Value: wire.JSONWithSchemas}
	with := func(rule wire.Rule, change func(*wire.Rule)) wire.Rule {
		change(&rule)
		return rule
	}
	expand := func(r *wire.Rule) { r.Expand = true }
	keep := func(r *wire.Rule) {
		r.Expand, r.NullFields, r.EmptyArrays = true, wire.OptionalBytes, wire.OptionalString
	}
	tombstones := func(r *wire.Rule) { r.Tombstones = true }
	envelope := func(r *wire.Rule) {
		if r.Envelope = []wire.Field{{Name: "eventType", Type: typed("string?")}}; r.Value == wire.JSONWithSchemas {
			r.SchemaName = "srv.public.outbox.Order.Value"
		}
	}
	both := func(r *wire.Rule) { expand(r); envelope(r) }
	ofBytes := func(r *wire.Rule) { r.ValueType = typed("bytes?") }
	optionalKey := func(name string) func(*wire.Rule) { return func(r *wire.Rule) { r.KeyType = typed(name) } }
	mini := []column{eventType}
	for name, g := range map[string]golden{
		"text":                                   {rule: plain, payload: everything, want: everything},
		"a string in JSON":                       {rule: schemaless, payload: everything, want: `"{\"a\": 2.50, \"b\": null, \"c\": [], \"d\": \"é\\\"/<\uD83D\uDE00\", \"i\": 3, \"l\": 5000000000, \"o\": {\"x\": [], \"y\": {\"z\": null}}, \"t\": [true, false], \"n\": [1, null, 3]}"`},
		"a string with its schema":               {rule: schemas, payload: `{}`, want: `{"schema":{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1},"payload":"{}"}`},
		"a text column with schemas":             {rule: with(schemas, func(r *wire.Rule) { r.ValueType = typed("string") }), payload: `x`, want: `{"schema":{"type":"string","optional":false},"payload":"x"}`},
		"expanded":                               {rule: with(schemaless, expand), payload: everything, want: `{"a":2.5,"d":"é\"/<\uD83D\uDE00","i":3,"l":5000000000,"o":{"y":{}},"t":[true,false],"n":[1,null,3]}`},
		"expanded, all kept":                     {rule: with(schemaless, keep), payload: everything, want: `{"a":2.5,"b":null,"c":[],"d":"é\"/<\uD83D\uDE00","i":3,"l":5000000000,"o":{"x":[],"y":{"z":null}},"t":[true,false],"n":[1,null,3]}`},
		"expanded, nulls kept":                   {rule: with(schemaless, func(r *wire.Rule) { expand(r); r.NullFields = wire.OptionalBytes }), payload: everything},
		"expanded, empty arrays kept":            {rule: with(schemaless, func(r *wire.Rule) { expand(r); r.EmptyArrays = wire.OptionalString }), payload: everything},
		"expanded with schemas":                  {rule: with(schemas, expand), payload: everything},
		"expanded with schemas, all kept":        {rule: with(schemas, keep), payload: everything},
		"expanded numbers":                       {rule: with(schemaless, expand), payload: `{"dec": 0.1000000000000000055, "e": 1e3, "neg": -0, "f": 100.0, "g": 1e21, "h": 1e-4, "inf": 1e400, "min": 4.9e-324, "n0": -0.0}`, want: `{"dec":0.1,"e":1000.0,"neg":0,"f":100.0,"g":1.0E21,"h":1.0E-4,"inf":"Infinity","min":4.9E-324,"n0":-0.0}`},
		"objects with the same members":          {rule: with(schemas, expand), payload: `{"a": [{"x": 1}, null, {"x": 2}]}`},
		"unlike objects":                         {rule: with(schemaless, expand), payload: `{"objs": [{"a": 1}, {"b": "x"}]}`, want: `{"objs":[{"a":1,"b":null},{"a":null,"b":"x"}]}`, differs: "orders"},
		"unlike objects with schemas":            {rule: with(schemas, expand), payload: `{"objs": [{"a": 1}, {"b": "x"}]}`, differs: "orders"},
		"arrays in arrays":                       {rule: with(schemas, expand), payload: `{"a": [[{"x": 1}], [{"x": null}], []], "b": [[1, 2], [null]]}`},
		"a member twice":                         {rule: with(schemaless, expand), payload: `{"a": 1, "b": 2, "a": 3}`, want: `{"a":3,"b":2}`},
		"something behind the object":            {rule: with(schemaless, expand), payload: `{"a": 1} x`, want: `{"a":1}`},
		"no object":                              {rule: with(schemaless, expand), payload: `5`, want: `"5"`},
		"a string":                               {rule: with(schemaless, expand), payload: `"a"`, want: `"\"a\""`},
		"white space before it":                  {rule: with(schemaless, expand), payload: ` {"a": 1}`, want: `" {\"a\": 1}"`},
		"no JSON":                                {rule: with(schemaless, expand), payload: `{"a": 01}`, want: `"{\"a\": 01}"`},
		"an array of different types":            {rule: with(schemaless, expand), payload: `{"m": [1, "a"]}`, want: `{"m": [1, "a"]}`, differs: "as a string"},
		"of different types with schemas":        {rule: with(schemas, expand), payload: `{"m": [1, "a"]}`, want: `{"schema":{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1},"payload":"{\"m\": [1, \"a\"]}"}`},
		"int and long in one array":              {rule: with(schemaless, expand), payload: `{"arr": [1, 5000000000]}`, want: `{"arr": [1, 5000000000]}`, differs: "as a string"},
		"a member without a name":                {rule: with(schemaless, expand), payload: `{"": 1}`, want: `{"": 1}`, differs: "as a string"},
		"an integer beyond 64 bits":              {rule: with(schemaless, expand), payload: `{"big": 12345678901234567890}`, want: `{"big": 12345678901234567890}`, differs: "stops"},
		"beyond 64 bits with schemas":            {rule: with(schemas, expand), payload: `{"big": 12345678901234567890}`, want: `{"schema":{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1},"payload":"{\"big\": 12345678901234567890}"}`, differs: "stops"},
		"an array at the top":                    {rule: with(schemaless, expand), payload: `[{"a": 1}]`, want: `[{"a": 1}]`, differs: "stops"},
		"an empty array at the top":              {rule: with(schemaless, expand), payload: `[]`, want: `[]`, differs: "as a string"},
		"an empty array at the top, schemas":     {rule: with(schemas, expand), payload: `[]`, want: `{"schema":null,"payload":"[]"}`},
		"an empty array at the top, kept":        {rule: with(schemaless, keep), payload: `[]`, want: `[]`, differs: "stops"},
		"values that are lost":                   {rule: with(schemaless, expand), payload: `{"a": [[{"x": 1}], [{"y": 2}]]}`, want: `{"a": [[{"x": 1}], [{"y": 2}]]}`, differs: "loses"},
		"null":                                   {rule: plain, payload: "null"},
		"null in JSON":                           {rule: schemaless, payload: "null", want: "null"},
		"null with schemas":                      {rule: schemas, payload: "null", want: `{"schema":{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1},"payload":null}`},
		"null, expanded":                         {rule: with(schemas, expand), payload: "null"},
		"null where it may not be":               {rule: with(schemaless, func(r *wire.Rule) { r.ValueType = typed("json") }), payload: "null", differs: "stops"},
		"blank":                                  {rule: plain, payload: "", want: ""},
		"blank in JSON":                          {rule: schemaless, payload: "", want: `""`},
		"blank, expanded":                        {rule: with(schemas, expand), payload: ""},
		"a tombstone of null":                    {rule: with(plain, tombstones), payload: "null"},
		"a tombstone of null with schemas":       {rule: with(schemas, tombstones), payload: "null"},
		"a tombstone of blanks":                  {rule: with(schemaless, tombstones), payload: " \t\n"},
		"no tombstone of a space of Unicode":     {rule: with(schemaless, tombstones), payload: "\u00a0"},
		"a tombstone with an envelope":           {rule: with(with(schemas, tombstones), both), payload: "", columns: mini},
		"bytes":                                  {rule: wire.Rule{Key: wire.String, Value: wire.Bytes}, bytes: "\x00\x01\xff{"},
		"bytes by Debezium's converter":          {rule: wire.Rule{Key: wire.String, Value: wire.Bytes}, bytes: "\x00\x01\xff{", value: binaryData},
		"no bytes":                               {rule: wire.Rule{Key: wire.String, Value: wire.Bytes}, bytes: "", payload: "null"},
		"bytes in JSON":                          {rule: with(schemaless, ofBytes), bytes: "\x00\x01\xff", want: `"AAH/"`},
		"bytes with schemas":                     {rule: with(schemas, ofBytes), bytes: "\x00\x01\xff", want: `{"schema":{"type":"bytes","optional":true},"payload":"AAH/"}`},
		"bytes in JSON, expanded":                {rule: with(schemaless, func(r *wire.Rule) { ofBytes(r); expand(r) }), bytes: `{"a":1}`},
		"an envelope":                            {rule: with(schemaless, envelope), payload: `{"a": 1}`, columns: mini, want: `{"payload":"{\"a\": 1}","eventType":"OrderCreated"}`},
		"an envelope with schemas":               {rule: with(schemas, envelope), payload: `{"a": 1}`, columns: mini, want: `{"schema":{"type":"struct","fields":[{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1,"field":"payload"},{"type":"string","optional":true,"field":"eventType"}],"optional":false,"name":"srv.public.outbox.Order.Value"},"payload":{"payload":"{\"a\": 1}","eventType":"OrderCreated"}}`},
		"an envelope, expanded":                  {rule: with(schemaless, both), payload: `{"a": [1], "b": null}`, columns: mini, want: `{"payload":{"a":[1]},"eventType":"OrderCreated"}`},
		"an envelope, expanded, with schemas":    {rule: with(schemas, both), payload: `{"a": [1], "b": null}`, columns: mini},
		"an envelope, null":                      {rule: with(schemas, envelope), payload: "null", columns: mini},
		"an envelope, too large an integer":      {rule: with(schemaless, both), payload: `{"a": 12345678901234567890}`, columns: mini, differs: "stops"},
		"an envelope, an empty array at the top": {rule: with(schemas, both), payload: `[]`, columns: mini, differs: "stops"},
		"an envelope, different types":           {rule: with(schemaless, both), payload: `{"a": [1, true]}`, columns: mini, differs: "as a string"},
		"an envelope of every type": {payload: "x", rule: with(schemas, func(r *wire.Rule) {
			r.SchemaName = "srv.public.outbox.Order.Value"
			for _, name := range []string{"uuid", "int16", "int32?", "int64", "float64", "boolean", "bytes", "string?"} {
				r.Envelope = append(r.Envelope, wire.Field{Name: "f" + strings.TrimSuffix(name, "?"), Type: typed(name)})
			}
		}), columns: []column{
			{name: "fuuid", placement: "envelope", schema: typed("uuid").Schema(), value: `"da8d6de6-3b77-45ff-8f44-57db55a7a06c"`, text: ptr(`"da8d6de6-3b77-45ff-8f44-57db55a7a06c"`)},
			{name: "fint16", placement: "envelope", schema: typed("int16").Schema(), value: `-5`, text: ptr(`-5`)},
			{name: "fint32", placement: "envelope", schema: typed("int32?").Schema(), value: `null`, text: ptr(`null`)},
			{name: "fint64", placement: "envelope", schema: typed("int64").Schema(), value: `9007199254740993`, text: ptr(`9007199254740993`)},
			{name: "ffloat64", placement: "envelope", schema: typed("float64").Schema(), value: `1.0E10`, text: ptr(`10000000000`)},
			{name: "fboolean", placement: "envelope", schema: typed("boolean").Schema(), value: `true`, text: ptr(`true`)},
			{name: "fbytes", placement: "envelope", schema: typed("bytes").Schema(), value: `"AQI="`, text: ptr(`"AQI="`)},
			{name: "fstring", placement: "envelope", schema: typed("string?").Schema(), value: `"é\ud83d\ude00"`, text: ptr(`"é😀"`)},
		}},
		"headers": {rule: plain, payload: "x", columns: []column{
			{name: "tenant", placement: "header", schema: columnText, value: `"acme é"`, text: ptr("acme é")},
			{name: "ver", placement: "header", alias: "version", schema: `{"type":"int32","optional":true}`, value: `7`, text: ptr("7")},
			{name: "flag", placement: "header", schema: `{"type":"boolean","optional":true}`, value: `true`, text: ptr("true")},
			{name: "blob", placement: "header", schema: `{"type":"bytes","optional":true}`, value: `"AQI="`, text: ptr("AQI=")},
			{name: "none", placement: "header", schema: columnText, value: `null`},
			{name: "at", placement: "header", schema: `{"type":"int64","optional":true,"name":"io.debezium.time.MicroTimestamp","version":1}`, value: `1614834367891234`, text: ptr("1614834367891234")},
			{name: "atz", placement: "header", schema: `{"type":"string","optional":true,"name":"io.debezium.time.ZonedTimestamp","version":1}`, value: `"2021-03-04T05:06:07.891234Z"`, text: ptr("2021-03-04T05:06:07.891234Z")},
			{name: "day", placement: "header", schema: `{"type":"int32","optional":true,"name":"io.debezium.time.Date","version":1}`, value: `18690`, text: ptr("18690")},
		}},
		"a partition":                    {rule: plain, payload: "x", partition: new(int32(3)), columns: []column{{name: "part", placement: "partition", schema: `{"type":"int32","optional":false}`, value: "3"}}},
		"a timestamp in microseconds":    {rule: plain, payload: "x", timestamp: 1614834367891, columns: []column{{name: "at", placement: "timestamp", schema: `{"type":"int64","optional":true,"name":"io.debezium.time.MicroTimestamp","version":1}`, value: "1614834367891234"}}},
		"a timestamp that is null":       {rule: plain, payload: "x", columns: []column{{name: "at", placement: "timestamp", schema: `{"type":"int64","optional":true,"name":"io.debezium.time.MicroTimestamp","version":1}`, value: "null"}}},
		"routed by another column":       {rule: plain, payload: "x", topic: "OrderCreated.x", settings: map[string]string{"route.by.field": "type", "route.topic.regex": "(.*)", "route.topic.replacement": "$1.x"}},
		"a route that does not match":    {rule: plain, payload: "x", topic: "Order", settings: map[string]string{"route.topic.regex": "order(.*)", "route.topic.replacement": "$1"}},
		"no key":                         {rule: with(plain, optionalKey("string?")), key: "null", payload: "x"},
		"no key in JSON":                 {rule: with(schemaless, optionalKey("string?")), key: "null", payload: "x"},
		"no key with schemas":            {rule: with(schemas, optionalKey("string?")), key: "null", payload: "x"},
		"a number as the key":            {rule: with(schemaless, optionalKey("int64")), key: "9007199254740993", keyIs: "9007199254740993", payload: "x"},
		"a number, text":                 {rule: with(plain, optionalKey("int64")), key: "7", keyIs: "7", payload: "x"},
		"a number with schemas":          {rule: with(schemas, optionalKey("int32")), key: "-7", keyIs: "-7", payload: "x"},
		"a UUID as the key":              {rule: with(schemas, optionalKey("uuid")), key: rowID, payload: "x"},
		"a key with a schema of its own": {rule: with(schemas, optionalKey(`{"type": "string", "optional": false, "name": "io.debezium.data.Enum", "version": 1, "parameters": {"allowed": "a,b"}, "default": "a"}`)), key: "b", payload: "x"},
		"a key that JSON escapes":        {rule: schemaless, key: "o\"1/😀\n", payload: "x"},
	} {
		t.Run(name, func(t *testing.T) { // one after the other, because the router answers so
			rule := valid(t, g.rule)
			w := row{key: ptr("o-1"), keyJSON: g.keyIs, columns: g.columns, settings: g.settings}
			switch g.key {
			case "":
			case "null":
				w.key = nil
			default:
				w.key = &g.key
			}
			var key, payload []byte
			if w.key != nil {
				key = []byte(*w.key)
			}
			switch {
			case g.bytes != "":
				payload, w.payloadJSON = []byte(g.bytes), quoted(base64.StdEncoding.EncodeToString([]byte(g.bytes)))
			case g.payload != "null":
				payload, w.payload = []byte(g.payload), &g.payload
			}
			a, rec := r.send(t, rule, w, g.value), ours(t, rule, w, payload, key)
			r.compare(t, rule, w, a, rec)
			if (g.differs == "") != (rec.Differs == "") || !strings.Contains(rec.Differs, g.differs) {
				t.Errorf("it differs because %q, want %q", rec.Differs, g.differs)
			}
			if g.want != "" && string(rec.Value) != g.want {
				t.Errorf("sent %s\nwant %s", rec.Value, g.want)
			}
			if a.Error != "" {
				return
			}
			if !r.sameBytes(a.Key, rec.Key) {
				t.Errorf("the key is %q, the router's %q", rec.Key, a.Key)
			}
			var theirs, own []string
			for _, h := range a.Headers {
				value := "null"
				if text, is := h[1].(string); is {
					raw, err := base64.StdEncoding.DecodeString(text)
					if err != nil {
						t.Fatal(err)
					}
					value = fmt.Sprintf("%q", raw)
				}
				theirs = append(theirs, fmt.Sprintf("%s=%s", h[0], value))
			}
			for _, h := range rec.Headers {
				value := "null"
				if h.Value != nil {
					value = fmt.Sprintf("%q", h.Value)
				}
				own = append(own, h.Name+"="+value)
			}
			if a, b := strings.Join(theirs, "\n"), strings.Join(own, "\n"); a != b {
				t.Errorf("the headers are\n%s\nthe router's\n%s", b, a)
			}
			topic, timestamp := g.topic, g.timestamp
			if topic == "" {
				topic = "outbox.event.Order"
			}
			if timestamp == 0 {
				timestamp = 1700000000000 // when Debezium read it
			}
			if a.Topic != topic || *a.Timestamp != timestamp || (a.Partition == nil) != (g.partition == nil) || a.Partition != nil && *a.Partition != *g.partition {
				t.Errorf("the router sends it to %s, partition %v, at %d", a.Topic, a.Partition, *a.Timestamp)
			}
		})
	}
}
