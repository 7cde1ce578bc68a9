package httpapi

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
)

// TestRefusalsAreDocumented: the page about the desk has each code of an error with its status, and each reason for which an
// investigation is skipped, and no others.
func TestRefusalsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/desk.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := func(head, row string) []string {
		t.Helper()
		at := regexp.MustCompile(`(?m)^\| ` + head + ` \|.*\n(?:\|.*\n)+`).Find(page)
		var found []string
		for _, m := range regexp.MustCompile(`(?m)^`+row).FindAllSubmatch(at, -1) {
			name := string(m[1])
			if len(m) > 2 {
				name += " " + string(m[2])
			}
			found = append(found, name)
		}
		slices.Sort(found)
		return found
	}
	var codes []string
	for code := range maps.Keys(statuses) {
		codes = append(codes, fmt.Sprint(code, " ", statuses[code]))
	}
	var reasons []string
	for _, reason := range dlq.SkipReasons() {
		reasons = append(reasons, string(reason))
	}
	slices.Sort(codes)
	slices.Sort(reasons)
	if got := rows("code", "\\| `([A-Z_]+)` \\| ([0-9]+) \\|"); !slices.Equal(got, codes) {
		t.Errorf("the page has the codes %q, and the API answers %q", got, codes)
	}
	if got := rows("reason", "\\| `([a-z_]+)` \\|"); !slices.Equal(got, reasons) {
		t.Errorf("the page has the reasons %q, and answers have %q", got, reasons)
	}
}
