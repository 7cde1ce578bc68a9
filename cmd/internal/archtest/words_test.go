package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// retired are words that the project says otherwise: one thing has one name, and it is the one that a reader of PostgreSQL
// and Kafka knows.
var retired = []struct {
	pattern string // in texts of every kind, in any case
	instead string
}{
	{`doorbell`, "notifier"},
	// The settings storm_events and storm_window_seconds have had their names for longer.
	{`storm(?:y|s|ed)?(?:$|[^_a-z]|_[^ew])`, "circuit breaker"},
	{`stand-?still`, "stall"},
	{`sunken|low-?water`, "position, gap or final id"},
	{`forgetter|\bwalkers?\b`, "what it does: pruner, collector, reconciler"},
	{`\bcrowds?\b`, "hot key"},
	{`\bvictims?\b`, "crashchild, or the process that is killed"},
	{`requeue elsewhere|outbox_resend|dlq_replay|replay_state`, "redrive"},
	{`\bdesk\.[a-z]+\(|\bnewdesk\b|\btype \w*desk\b|package desk\b`, "actions, editor or services: desk is a word of the documents only"},
}

// texts are the kinds of files in which people read.
var texts = []string{".go", ".sql", ".md", ".yml", ".yaml", ".json", ".sh"}

func TestRetiredWords(t *testing.T) {
	t.Parallel()
	var patterns []*regexp.Regexp
	for _, r := range retired {
		patterns = append(patterns, regexp.MustCompile(`(?im)`+r.pattern))
	}
	for text, want := range map[string]int{"the storm is over": 1, "Storm{": 1, "storm_events: 0": -1, "OUTBOX_STORM_WINDOW_SECONDS": -1, "StormEvents": -1, "Doorbell": 0} {
		if got := slices.IndexFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(text) }); got != want {
			t.Errorf("%q is found by pattern %d, want %d", text, got, want)
		}
	}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "coverage" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !slices.Contains(texts, filepath.Ext(path)) || d.Name() == "words_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, p := range patterns {
			if at := p.FindIndex(text); at != nil {
				t.Errorf("%s:%d says %q; say %s", path, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]], retired[i].instead)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
