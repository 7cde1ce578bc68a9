package wiretest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider/internal/wire"
)

// oldDigits is the first Java that writes the fewest digits of a double (JDK-4511638).
const oldDigits = 19

var doubles = regexp.MustCompile(`-?[0-9]+\.[0-9]+(E-?[0-9]+)?`)

// sameBytes compares what the router sends with ours. An older Java writes more digits of some doubles: then numbers are
// compared by their values.
func (r *router) sameBytes(theirs, ours []byte) bool {
	if (theirs == nil) != (ours == nil) {
		return false
	}
	if bytes.Equal(theirs, ours) {
		return true
	}
	shortest := func(b []byte) []byte {
		return doubles.ReplaceAllFunc(b, func(text []byte) []byte {
			f, _ := strconv.ParseFloat(string(text), 64) // the expression allows numbers alone
			return strconv.AppendFloat(nil, f, 'g', -1, 64)
		})
	}
	return r.java < oldDigits && bytes.Equal(shortest(theirs), shortest(ours))
}

// sameButOrder compares JSON whatever the order of members, and of the fields of schemas.
func (r *router) sameButOrder(theirs, ours []byte) bool {
	var a, b any
	if json.Unmarshal(theirs, &a) != nil || json.Unmarshal(ours, &b) != nil {
		return false
	}
	return reflect.DeepEqual(sorted(a), sorted(b))
}

// sorted sorts the fields of schemas by name.
func sorted(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = sorted(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = sorted(v[name])
		}
		if fields, are := v["fields"].([]any); are && v["type"] == "struct" {
			slices.SortStableFunc(fields, func(a, b any) int {
				name := func(f any) string { s, _ := f.(map[string]any)["field"].(string); return s }
				return strings.Compare(name(a), name(b))
			})
		}
	}
	return v
}

// compare checks that the value which we make is what the router sends, or that ours differs for the reason that is given.
func (r *router) compare(t fataler, rule *wire.Rule, w row, a answer, ours wire.Record) {
	t.Helper()
	payload := "null"
	if w.payload != nil {
		payload = *w.payload
	}
	wrong := func(what string) {
		t.Helper()
		t.Errorf("%s\nrule    %s\npayload %s\nrouter  %s%s\nours    %s\ndiffers %q", what, rule, payload, a.Value, a.Error, ours.Value, ours.Differs)
	}
	switch {
	case ours.Differs == "":
		if a.Error != "" || !r.sameBytes(a.Value, ours.Value) {
			wrong("the values are not the same")
		}
	case strings.Contains(ours.Differs, "orders"):
		if a.Error != "" || !r.sameButOrder(a.Value, ours.Value) {
			wrong("the values differ by more than the order of members")
		}
	case strings.Contains(ours.Differs, "stops"):
		if a.Error == "" {
			wrong("the router sends it")
		}
	case strings.Contains(ours.Differs, "as a string"):
		if a.Error != "" || !bytes.Contains(a.Value, []byte(quotedAsSent(payload))) {
			wrong("the router does not send it as a string")
		}
	case strings.Contains(ours.Differs, "loses"):
		if a.Error == "" && r.sameButOrder(a.Value, ours.Value) {
			wrong("the router loses nothing")
		}
	default:
		wrong("no such reason is known")
	}
}

// quotedAsSent is a text as a string of JSON, as a converter writes it.
func quotedAsSent(s string) string {
	rule := wire.Rule{Key: wire.JSON, Value: wire.JSON}
	if err := rule.Validate(); err != nil {
		return err.Error()
	}
	key, err := rule.RecordKey([]byte(s))
	if err != nil {
		return err.Error()
	}
	return string(key)
}
