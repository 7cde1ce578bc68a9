package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// retired are words that the project says otherwise: one thing has one name, and it is the one that a reader of PostgreSQL
// and Kafka knows.
var retired = []struct {
	word    string // in small letters, also as part of another word
	instead string
	unless  []string // the word goes on like this
}{
	{"doorbell", "notifier", nil},
	{"storm", "circuit breaker", []string{"_events", "_window", "events", "window"}}, // settings keep their names
	{"standstill", "stall", nil},
	{"sunken", "position, gap or final id", nil},
	{"lowwater", "position, gap or final id", nil},
	{"forgetter", "what it does: pruner, collector, reconciler", nil},
	{"walker", "what it does: pruner, collector, reconciler", nil},
	{"crowd", "hot key", nil},
	{"victim", "crashchild, or the process that is killed", nil},
	{"requeue elsewhere", "redrive", nil},
	{"outbox_resend", "dlq_redrive_letters", nil},
	{"dlq_replay", "dlq_redrive", nil},
	{"replay_state", "redrive_state", nil},
	{"newdesk", "actions, investigations or services: desk is a word of the documents", nil},
	{"somebody", "the person or the program", nil},
	{"whoever", "the person or the program", nil},
	{"of which", "a sentence with the thing as its subject", nil},
	{"package desk", "actions, investigations or services: desk is a word of the documents", nil},
}

// kinds are the kinds of files that people read.
var kinds = []string{".go", ".sql", ".md", ".yml", ".yaml", ".json", ".sh"}

// says returns where a text says a retired word; -1 where it does not.
func says(text []byte, word string, unless []string) int {
	for from := 0; ; {
		at := bytes.Index(text[from:], []byte(word))
		if at < 0 {
			return -1
		}
		from += at + len(word)
		if !slices.ContainsFunc(unless, func(end string) bool { return bytes.HasPrefix(text[from:], []byte(end)) }) {
			return from - len(word)
		}
	}
}

func TestRetiredWords(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bin", "coverage", "node_modules"}, d.Name()) {
			return filepath.SkipDir
		}
		if d.IsDir() || !slices.Contains(kinds, filepath.Ext(path)) || d.Name() == "words_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		text = bytes.ToLower(text)
		for _, r := range retired {
			if at := says(text, r.word, r.unless); at >= 0 {
				t.Errorf("%s:%d says %q; say %s", path, 1+bytes.Count(text[:at], []byte("\n")), r.word, r.instead)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"the storm is over": 4, "storm_events: 0": -1, "storm_events in a storm": 18, "stormevents": -1, "calm": -1} {
		if got := says([]byte(text), "storm", []string{"_events", "events"}); got != want {
			t.Errorf("%q says it at %d, want %d", text, got, want)
		}
	}
}
