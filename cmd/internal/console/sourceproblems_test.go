package console

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSourceProblemsAreThoseOfTheRunbook: the page has words for each reason that the runbook has a remedy for. Those that only a
// relay meets, and no look, are left out.
func TestSourceProblemsAreThoseOfTheRunbook(t *testing.T) {
	t.Parallel()
	book, err := os.ReadFile("../../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(book), "### SourceRefused\n")
	section, _, _ = strings.Cut(section, "\n### ")
	var reasons []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(section, -1) {
		for _, reason := range strings.Split(row[1], ", ") {
			reasons = append(reasons, strings.Trim(reason, "`"))
		}
	}
	if len(reasons) < 10 {
		t.Fatalf("the runbook has the reasons %q", reasons)
	}
	for _, reason := range reasons {
		if _, known := sourceProblems[reason]; known == (reason == "brokers") {
			t.Errorf("%s: the page has words for it: %v", reason, known)
		}
	}
	for reason := range sourceProblems {
		if !slices.Contains(reasons, reason) {
			t.Errorf("the runbook does not have %s", reason)
		}
	}
}
