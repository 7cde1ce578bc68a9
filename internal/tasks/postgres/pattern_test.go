package postgres_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/tasks/task"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestPatternsMeanTheSameProperty: a pattern that Parse takes PostgreSQL takes, too, and it fits the same texts.
func TestPatternsMeanTheSameProperty(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	pieces := []string{"a", "b", "é", "x", ".", "^", "$", "|", "(", "(?:", ")", "[", "[^", "]", "-", "[:", ":]", "[:alpha:]", "[.", "[=", "*", "+", "?", "*?", "**",
		"{", "{2}", "{1,}", "{0,255}", "{256}", "{,2}", "{3", "}", "(?i)", "(?s:", "(?P<n>", "(?=", "(?!", `\`, `\d`, `\D`, `\s`, `\w`, `\W`, `\b`, `\B`, `\A`, `\Z`, `\z`,
		`\p{L}`, `\pN`, `\Q`, `\E`, `\x41`, `\x{41}`, `\1`, `\07`, `\n`, `\t`, `\a`, `\.`, `\-`, `\]`, `\[`, `\{`, `\m`, `\y`, `***:`, ",", ":", "0", "7"}
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 5).Draw(t, "pattern"), "")
		text, err := json.Marshal(map[string]any{"name": "n", "namespace_name": "ns", "version": "1.0.0", "input_schema": map[string]any{"pattern": pattern}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := task.Parse("drawn", text); err != nil {
			return
		}
		taken++
		goes := regexp.MustCompile(pattern)
		for _, text := range []string{"", "a", "ab", "axb", "b7", "7", "-", "{3", "{,2}", "]", "[a", "a:", "aab", "x41", "\t", "é"} {
			var fits bool
			if err := pool.QueryRow(t.Context(), `select $1::text ~ $2::text`, text, pattern).Scan(&fits); err != nil {
				t.Fatalf("Parse takes the pattern %q: %v", pattern, err)
			}
			if want := goes.MatchString(text); fits != want {
				t.Fatalf("the pattern %q fits %q: %v in the database, %v in Go", pattern, text, fits, want)
			}
		}
	})
	if taken < 10 {
		t.Errorf("only %d of the drawn patterns were taken", taken)
	}
}
