package console

import (
	"errors"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/api"
)

// TestAnExportIsWholeOrCut: a list of more rows than an export has ends in an error, in CSV and in JSON, and one of just as
// many does not.
func TestAnExportIsWholeOrCut(t *testing.T) {
	t.Parallel()
	pages := map[string]api.List[string]{"2": api.ListOf([]string{"c"}, "3"), "3": api.ListOf([]string{"d"}, "")}
	next := func(after string) (api.List[string], error) { return pages[after], nil }
	columns := []column[string]{{"name", func(s string) string { return s }}}
	for _, c := range []struct {
		most      int
		csv, json string
		err       error
	}{
		{4, "name\na\nb\nc\nd\n", "[\"a\"\n,\"b\"\n,\"c\"\n,\"d\"\n]\n", nil},
		{3, "", "[\"a\"\n,\"b\"\n,\"c\"\n", errTooLong},
	} {
		var asCSV, asJSON strings.Builder
		for _, rows := range []rowWriter[string]{csvRows(&asCSV, columns), jsonRows[string](&asJSON)} {
			n, err := writePages(api.ListOf([]string{"a", "b"}, "2"), c.most, rows, next)
			if n != c.most || !errors.Is(err, c.err) {
				t.Errorf("of %d at most: %d rows, %v", c.most, n, err)
			}
		}
		if asCSV.String() != c.csv || asJSON.String() != c.json {
			t.Errorf("of %d at most: %q and %q", c.most, &asCSV, &asJSON)
		}
	}
	var none strings.Builder
	if n, err := writePages(api.List[string]{}, 3, jsonRows[string](&none), next); n != 0 || err != nil || none.String() != "[]\n" {
		t.Errorf("an empty list: %d rows, %q, %v", n, &none, err)
	}
}
