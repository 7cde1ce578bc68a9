package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCommentsArePlain: a comment has a thing as its subject. Words that stand for a thing instead of naming it are rare.
func TestCommentsArePlain(t *testing.T) {
	t.Parallel()
	riddle := regexp.MustCompile(`(?i)\b(those|such|nobody|what is)\b`)
	root, lines, riddles := filepath.Join("..", "..", ".."), 0, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		for line := range bytes.Lines(source) {
			if comment := bytes.TrimSpace(line); bytes.HasPrefix(comment, []byte("// ")) {
				if lines++; riddle.Match(comment) {
					riddles++
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if lines < 5000 {
		t.Fatalf("only %d lines of comments were found", lines)
	}
	if share := float64(riddles) / float64(lines); share > 0.015 {
		t.Errorf("%.1f %% of %d lines of comments lean on those, such, nobody or what is; at most 1.5 %% may", 100*share, lines)
	}
}
