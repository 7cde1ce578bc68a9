package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestDifferences: what is missing or of another kind comes before values, which differ from event to event.
func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ bad, good, want string }{
		"the same":      {`{"a": 1}`, `{"a":1}`, ""},
		"a value":       {`{"a": {"n": 1}}`, `{"a": {"n": 2}}`, "a.n 1 2 false false"},
		"large numbers": {`{"n": 12345678901234567890}`, `{"n": 12345678901234567891}`, "n 12345678901234567890 12345678901234567891 false false"},
		"another kind":  {`{"n": "5"}`, `{"n": 5}`, `n "5" 5 false true`},
		"missing":       {`{"a": 1}`, `{"a": 1, "b": null}`, "b  null true false"},
		"items":         {`[1, {"x": 2}]`, `[1, {"x": 3}, 4]`, "[1].x 2 3 false false;  2 items 3 items false false"},
		"more behind":   {`{"a":1}}`, `{"a":1}`, `payload no JSON: {"a":1}} JSON false true`},
		"two values":    {`1 2`, `1`, "payload no JSON: 1 2 JSON false true"},
		"white space":   {"{\"a\":1}\n ", `{"a":1}`, ""},
		"no JSON":       {"\xff{", `{}`, "payload no JSON: \xff{ JSON false true"},
		"deep":          {strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "[]", " 1 item 0 items false false"},
		"too deep":      {strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "[]", "payload no JSON: " + strings.Repeat("[", 200) + "… JSON false true"},
		"large":         {`"` + strings.Repeat("x", maxCompared) + `"`, `1`, "payload 1.0 MiB 1 byte false false"},
	} {
		var got []string
		for _, d := range comparePayloads([]byte(c.bad), []byte(c.good)) {
			got = append(got, fmt.Sprint(d.Path, " ", d.Bad, " ", d.Good, " ", d.Missing, " ", d.OtherKind))
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	headers := compareHeaders(badHeaders(json.RawMessage(`[["trace","x"],["postrider-invalid-headers","{\"priority\": 5}"]]`)), headerTree(json.RawMessage(`{"trace": "x", "priority": "5"}`)))
	if len(headers) != 1 || headers[0] != (difference{Path: "header priority", Bad: "5", Good: `"5"`, OtherKind: true}) {
		t.Errorf("headers that could not be read: %+v", headers)
	}
	if got := headerTree(json.RawMessage(`[["a","1"],["a","2"],["a","3"],["odd"]]`)); fmt.Sprint(got) != "map[a:[1 2 3]]" {
		t.Errorf("a name that comes more than once: %v", got)
	}
}

// TestTheNamedHeaderComesFirst: the header that the error names comes before others that are missing, and a word that only contains
// its name does not name it.
func TestTheNamedHeaderComesFirst(t *testing.T) {
	t.Parallel()
	for failure, want := range map[string]string{
		`header "priority" must be a string`: "header priority", "the low-priority queue is full": "header a", "priority": "header priority", "priorityx priority": "header priority", "priority_x": "header a", "": "header a", "ää priority": "header priority",
	} {
		all := []difference{{Path: "priority", Missing: true}, {Path: "header priority", OtherKind: true}, {Path: "header a", Missing: true}}
		all[0].Missing = false
		if sortDifferences(all, failure); all[0].Path != want {
			t.Errorf("with %q %q comes first, not %q", failure, all[0].Path, want)
		}
	}
}
