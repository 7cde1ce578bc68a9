package packaging

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/relay"
)

// TestCausesAreNamedEverywhere: the schema takes and explains every cause of a hold, and the page about the relay says what
// such a hold waits for. openapi.yaml has the causes by itself (TestOpenAPI of httpapi).
func TestCausesAreNamedEverywhere(t *testing.T) {
	t.Parallel()
	var causes []string
	for _, c := range relay.Causes() {
		causes = append(causes, string(c))
	}
	text := func(path ...string) string { return read(t, filepath.Join(append([]string{root}, path...)...)) }

	schema := text("internal", "migrations", "outbox", "0001_baseline.sql")
	check := regexp.MustCompile(`outbox_hold_cause_check check \(cause in \(([^)]*)\)\)`).FindStringSubmatch(schema)
	if want := "'" + strings.Join(causes, "', '") + "'"; check == nil || check[1] != want {
		t.Errorf("the check of outbox_hold.cause is %q, want %s", check, want)
	}
	comment := regexp.MustCompile(`comment on column postrider\.outbox_hold\.cause is '([^']*)'`).FindStringSubmatch(schema)
	if comment == nil {
		t.Fatal("outbox_hold.cause has no comment")
	}
	_, page, _ := strings.Cut(text("docs", "design", "relay.md"), "\n## Holds and exceptions\n")
	page, _, _ = strings.Cut(page, "\n## ")
	for _, c := range causes {
		if !strings.Contains(". "+comment[1], ". "+c+": ") {
			t.Errorf("the comment of outbox_hold.cause does not say what %s is: %s", c, comment[1])
		}
		if !regexp.MustCompile("(?m)^\\| \\w+ \\|.*`" + c + "`.*\\|$").MatchString(page) {
			t.Errorf("the table in docs/design/relay.md, Holds and exceptions, has no %s", c)
		}
	}
}
