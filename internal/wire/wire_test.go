package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/message"
)

// ruleOf completes a rule.
func ruleOf(t interface {
	Helper()
	Fatal(...any)
}, r Rule) *Rule {
	t.Helper()
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	return &r
}

// TestTracing: the context of a trace in the form of java.util.Properties becomes the headers that OpenTelemetry writes,
// before all others; what cannot be read becomes none, and pairs of the relay are never headers.
func TestTracing(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := ruleOf(t, Rule{Key: String, Value: String})
	for text, want := range map[string]string{
		"#Tue Nov 24 12:00:00 UTC 2026\ntraceparent=" + parent + "\n":                          "traceparent=" + parent,
		"#x\r\n! y\r\ntracestate=a\\=b,c\\:d\\u0065\r\n\r\n  traceparent : " + parent + "\r\n": "traceparent=" + parent + " tracestate=a=b,c:de",
		"trace\\\n   parent=" + parent[:20] + "\\\n\t" + parent[20:]:                           "traceparent=" + parent,
		"traceparent " + parent:        "traceparent=" + parent,
		"tracestate=a=b":               "",
		"traceparent=00-0-0-01":        "",
		"uber-trace-id=1:2:0:1":        "",
		"":                             "",
		"\\":                           "",
		"traceparent=\\u00zz" + parent: "",
	} {
		rec, err := r.Record(nil, nil, []message.Header{{Name: "id", Value: []byte("1")}, {Name: HeaderTracing, Value: []byte(text)}, {Name: "wire-other", Value: []byte("x")}, {Name: "tenant"}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range rec.Headers {
			got = append(got, h.Name+"="+string(h.Value))
		}
		if all := strings.TrimSpace(want + " id=1 tenant="); strings.Join(got, " ") != all {
			t.Errorf("%q: headers %q, want %s", text, got, all)
		}
	}
}

// TestLargePayloads: what a writer may send costs no more than its size. Members of unlike objects multiply, and so do the
// paths that name structs: beyond a bound the payload is sent as it is.
func TestLargePayloads(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	build := func(each func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(each(i))
		}
		return b.String()
	}
	names := build(func(i int) string { return fmt.Sprintf(`"m%d":1`, i) })
	name := strings.Repeat("n", 8_000)
	deep := strings.Repeat(`{"`+name+`":`, 100)
	for what, c := range map[string]struct {
		payload string
		large   bool
		schemas bool
	}{
		"many unlike objects":      {payload: `{"a":[` + build(func(i int) string { return fmt.Sprintf(`{"m%d":1}`, i) }) + `]}`, large: true},
		"two large unlike objects": {payload: `{"a":[{` + names + `},{"x":1,` + names + `}]}`},
		"one large object":         {payload: `{` + names + `}`, schemas: true},
		"one member many times":    {payload: `{` + build(func(i int) string { return fmt.Sprintf(`"m":%d`, i) }) + `}`},
		"long paths":               {payload: deep + `{}` + strings.Repeat("}", 100), large: true, schemas: true},
		"long paths, no schemas":   {payload: deep + `{}` + strings.Repeat("}", 100)},
		"too deep":                 {payload: `{"a":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`},
		"many values":              {payload: `{"a":[0` + strings.Repeat(",0", maxValues) + `]}`, large: true},
		"arrays that do not end":   {payload: `{"a":` + strings.Repeat("[", size)},
	} {
		r := ruleOf(t, Rule{Key: String, Value: map[bool]Converter{true: JSONWithSchemas, false: JSON}[c.schemas], Expand: true})
		rec, err := r.Record(nil, []byte(c.payload), nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if (rec.Differs == differsLarge) != c.large {
			t.Errorf("%s: it differs because %q", what, rec.Differs)
		}
		if c.large && !c.schemas && string(rec.Value) != c.payload {
			t.Errorf("%s: %d bytes were sent, want the payload", what, len(rec.Value))
		}
	}
}

// TestProperties: as java.util.Properties reads them.
func TestProperties(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]string{
		`a\=b\:c\ d = \t\\e\nf` + "\nlast\\":        {"a=b:c d": "\t\\e\nf", "last": ""},
		"# c\r\n!d\n\n x = 1\ry:2\nz 3\nempty":      {"x": "1", "y": "2", "z": "3", "empty": ""},
		"a=1\\\n   2\\\n#3\nb=4":                    {"a": "12#3", "b": "4"},
		"a=1\\\n\nb=2\\\\\nc=\\u00e9\\ud83d\\ude00": {"a": "1", "b": `2\`, "c": "é😀"}, // an empty line ends what goes on
	} {
		if got := ReadProperties(text); !maps.Equal(got, want) {
			t.Errorf("%q is %q, and should be %q", text, got, want)
		}
	}
}

// TestDoubles: each number is written with the fewest digits, and is the same when it is read.
func TestDoubles(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{0: "0.0", math.Copysign(0, -1): "-0.0", 1: "1.0", -2.5: "-2.5", 0.001: "0.001", 0.00099: "9.9E-4", 9999999: "9999999.0", 1e7: "1.0E7",
		123456.789: "123456.789", 2e23: "2.0E23", 1.7976931348623157e308: "1.7976931348623157E308", 4.9e-324: "4.9E-324", 2e-323: "2.0E-323", math.Inf(1): `"Infinity"`, math.Inf(-1): `"-Infinity"`, math.NaN(): `"NaN"`} {
		if got := string(appendDouble(nil, f)); got != want {
			t.Errorf("%v is written as %s, want %s", f, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "number")
		got := string(appendDouble(nil, f))
		if back, err := strconv.ParseFloat(strings.Trim(got, `"`), 64); err != nil || back != f || !math.IsInf(f, 0) && !strings.Contains(got, ".") {
			t.Fatalf("%v is written as %s", f, got)
		}
	})
}

// TestTypes: what a column has and its type does not is named.
func TestTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, text, want string }{
		{"int64", "1.5", `"1.5" is no int64`}, {"int32", "", `"" is no int32`}, {"boolean", "t", `"t" is no boolean`}, {"float64", "x", `"x" is no float64`},
	} {
		typed, err := ParseType(c.typed)
		if err != nil {
			t.Fatal(err)
		}
		r := ruleOf(t, Rule{Key: JSON, KeyType: typed, Value: String})
		if _, err := r.RecordKey([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %q: %v, want %s", c.typed, c.text, err, c.want)
		}
	}
	text, _ := ParseType("string")
	r := ruleOf(t, Rule{Key: String, Value: JSON, Envelope: []Field{{"a", text}}})
	for fields, want := range map[string]string{"": "the header wire-envelope is missing", "[]": "is not an object in JSON", `{"a": 1}`: "the field a of the header wire-envelope: a number is no string", `{"a": "\ud83d"`: "is not an object in JSON"} {
		var hs []message.Header
		if fields != "" {
			hs = []message.Header{{Name: HeaderEnvelope, Value: []byte(fields)}}
		}
		if _, err := r.Record(nil, []byte("{}"), hs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the envelope %s: %v, want %s", fields, err, want)
		}
	}
}

// FuzzRecord: the value of any payload is JSON, and the same each time.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{`{"a":[{"b":1},{"c":[1,2]}],"d":"\ud83d"}`, `[[],[1]]`, "{\"\xed\xa0\xbd\":\"\xff\"}", `{"a":1e999}`, ` {}`, `{"a":`, `"x"`} {
		f.Add(s, s)
	}
	text, _ := ParseType("string?")
	f.Fuzz(func(t *testing.T, payload, fields string) {
		for _, r := range []Rule{{Key: JSON, Value: JSON, Expand: true}, {Key: JSONWithSchemas, Value: JSONWithSchemas, Expand: true, NullFields: OptionalBytes, EmptyArrays: OptionalString},
			{Key: String, Value: JSONWithSchemas, Expand: true, Envelope: []Field{{"a", text}}, SchemaName: "s"}} {
			rule := ruleOf(t, r)
			hs := []message.Header{{Name: HeaderEnvelope, Value: []byte(fields)}, {Name: HeaderTracing, Value: []byte(payload)}}
			a, err := rule.Record([]byte(payload), []byte(payload), hs)
			b, again := rule.Record([]byte(payload), []byte(payload), hs)
			if fmt.Sprint(a, err) != fmt.Sprint(b, again) {
				t.Fatalf("%q: %s and %s", payload, a.Value, b.Value)
			}
			if err == nil && !json.Valid(a.Value) {
				t.Fatalf("%q becomes %q", payload, a.Value)
			}
		}
	})
}
