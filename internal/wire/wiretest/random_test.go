package wiretest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/wire"
)

// documents is how many documents each check of the property draws; rapid makes a hundred checks.
const documents = 40

// TestRandomJSON compares ours with the real router on random JSON, under every way to expand it.
func TestRandomJSON(t *testing.T) {
	t.Parallel()
	r := startRouter(t)
	met := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		for range documents {
			rule := valid(t, randomRule(t))
			text := randomObject(t, 0)
			w := row{key: ptr("k"), payload: &text}
			if len(rule.Envelope) > 0 {
				w.columns = []column{eventType}
			}
			rec := ours(t, rule, w, []byte(text), []byte("k"))
			r.compare(t, rule, w, r.send(t, rule, w, nil), rec)
			why, _, _ := strings.Cut(rec.Differs, ":")
			met[why]++
		}
	})
	for _, why := range slices.Sorted(maps.Keys(met)) {
		t.Logf("%5d documents: %s", met[why], cmp.Or(why, "the same bytes"))
	}
	if met[""] == 0 || met["Debezium stops here"] == 0 {
		t.Errorf("the documents are all of one kind: %v", met)
	}
}

func randomRule(t *rapid.T) wire.Rule {
	rule := wire.Rule{Key: wire.String, Value: rapid.SampledFrom([]wire.Converter{wire.JSON, wire.JSON, wire.JSONWithSchemas}).Draw(t, "value"), Expand: true}
	if rapid.Bool().Draw(t, "nulls") {
		rule.NullFields = wire.OptionalBytes
	}
	if rapid.Bool().Draw(t, "empty") {
		rule.EmptyArrays = wire.OptionalString
	}
	if rapid.IntRange(0, 3).Draw(t, "envelope") == 0 {
		rule.Envelope = []wire.Field{{Name: "eventType", Type: typed("string?")}}
		if rule.Value == wire.JSONWithSchemas {
			rule.SchemaName = "srv.public.outbox.Order.Value"
		}
	}
	return rule
}

// deepest is how deep a document goes.
const deepest = 4

// randomObject writes an object, with members of few names, so that objects are alike and members come twice.
func randomObject(t *rapid.T, depth int) string {
	n := rapid.IntRange(0, 4).Draw(t, "members")
	members := make([]string, n)
	for i := range members {
		name := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.SampledFrom([]string{"a.b", " ", "é", `\u0061`, `\ud83d\ude00`, "😀", ""})).Draw(t, "name")
		members[i] = fmt.Sprintf(`"%s"%s:%s`, name, randomSpace(t), randomValue(t, depth+1))
	}
	return "{" + randomSpace(t) + strings.Join(members, ","+randomSpace(t)) + "}"
}

func randomSpace(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")
}

func randomValue(t *rapid.T, depth int) string {
	most := 7
	if depth >= deepest {
		most = 4
	}
	switch rapid.IntRange(0, most).Draw(t, "kind") {
	case 0:
		return "null"
	case 1:
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "boolean")
	case 2, 3:
		return randomNumber(t)
	case 4:
		return randomString(t)
	case 5, 6:
		return randomArray(t, depth)
	}
	return randomObject(t, depth)
}

// randomArray writes an array whose items are mostly of one kind, because Debezium sends no other.
func randomArray(t *rapid.T, depth int) string {
	item := func() string { return rapid.SampledFrom([]string{"1", "2", "-7", "null"}).Draw(t, "int") }
	switch rapid.IntRange(0, 7).Draw(t, "items") {
	case 0:
		item = func() string { return randomValue(t, depth+1) }
	case 1:
		item = func() string { return randomString(t) }
	case 2:
		item = func() string { return randomDouble(t) }
	case 3, 4:
		if depth < deepest {
			item = func() string { return randomObject(t, depth+1) }
		}
	case 5:
		if depth < deepest {
			item = func() string { return randomArray(t, depth+1) }
		}
	case 6: // objects that are alike
		item = func() string {
			return fmt.Sprintf(`{"x":%s,"y":"%d"}`, rapid.SampledFrom([]string{"1", "2"}).Draw(t, "x"), depth)
		}
	}
	items := make([]string, rapid.IntRange(0, 4).Draw(t, "length"))
	for i := range items {
		items[i] = item()
	}
	return "[" + strings.Join(items, ","+randomSpace(t)) + "]"
}

func randomNumber(t *rapid.T) string {
	if rapid.IntRange(0, 2).Draw(t, "fraction") == 0 {
		return randomDouble(t)
	}
	switch rapid.IntRange(0, 9).Draw(t, "integer") {
	case 0:
		return rapid.SampledFrom([]string{"0", "-0", "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "-9223372036854775808"}).Draw(t, "edge")
	case 1:
		return rapid.SampledFrom([]string{"9223372036854775808", "-9223372036854775809", "12345678901234567890123"}).Draw(t, "large")
	case 2, 3:
		return fmt.Sprint(rapid.Int64().Draw(t, "long"))
	}
	return fmt.Sprint(rapid.Int32().Draw(t, "int"))
}

func randomDouble(t *rapid.T) string {
	switch rapid.IntRange(0, 4).Draw(t, "double") {
	case 0:
		return strconv.FormatFloat(rapid.Float64().Draw(t, "any"), 'e', -1, 64)
	case 1:
		return rapid.SampledFrom([]string{"0.0", "-0.0", "1e400", "-1e400", "4.9e-324", "1e-400", "0.001", "9.999e-4", "1e7", "9999999.0", "1E+2", "2e23", "0.1000000000000000055"}).Draw(t, "edge")
	}
	return fmt.Sprintf("%d.%d%s", rapid.IntRange(-2000, 2000).Draw(t, "whole"), rapid.IntRange(0, 99999).Draw(t, "part"),
		rapid.SampledFrom([]string{"", "", "e3", "E-5", "e+20"}).Draw(t, "exponent"))
}

func randomString(t *rapid.T) string {
	var s strings.Builder
	for range rapid.IntRange(0, 5).Draw(t, "characters") {
		s.WriteString(rapid.SampledFrom([]string{"a", "Z", " ", "/", "é", "ß", "一", "😀", "\u2028", "\u007f", `\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`,
			`\u0000`, `\u001F`, `\u00e9`, `\uD83D\ude00`, `\ud83d`, `\ude00`, "<", "&", "'"}).Draw(t, "character"))
	}
	return `"` + s.String() + `"`
}
