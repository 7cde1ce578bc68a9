package soak

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/history"
)

// pageOf is the part of docs/faults.md about a run. Copies belong to the fault that explains them; a copy that no fault
// explains, and an event that was lost or put out of order while nothing was broken, is in the last line alone.
func (n *nemesis) pageOf(h history.History, v history.Verdict) string {
	rows, total := n.tally(h, v)
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %v on %s; seed %d\n\n", n.began.UTC().Format(time.DateOnly), time.Since(n.began).Round(time.Second), n.broker, n.seed)
	fmt.Fprintln(&out, "| fault | runs | seconds | writes meanwhile | of them refused | lost | copied | reordered |")
	fmt.Fprintln(&out, "|---|---|---|---|---|---|---|---|")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		fmt.Fprintf(&out, "| %s | %d | %.1f | %d | %d | %d | %d | %d |\n", name, r.times, r.lasted.Seconds(), r.ok+r.fail+r.unknown, r.fail, r.lost, v.After[name], r.reordered)
	}
	fmt.Fprintf(&out, "| the whole run | %d | | %d | %d | %d | %d | %d |\n\n", total.times, total.ok+total.fail+total.unknown, total.fail, len(v.Lost), v.Duplicates, len(v.Reordered))
	fmt.Fprintf(&out, "%s. An acknowledgement was lost for %d writes. Relays died at these steps: %s.\n", v, total.unknown, diedAt(n.diedAt))
	return out.String()
}

// diedAt is the steps at which relays died, with how often.
func diedAt(steps map[string]int) string {
	var all []string
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		all = append(all, fmt.Sprintf("%s %d", step, steps[step]))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// renewPage puts a text between the marks of a test in a page.
func renewPage(path, test, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := fmt.Sprintf("<!-- soak %s -->\n", test), fmt.Sprintf("<!-- end %s -->\n", test)
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no place for %s: put %q and %q there", path, test, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}

// A breach is seen in the line of the fault in which it happened, and in the last line.
func TestFaultsPage(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	n := &nemesis{stage: &stage{diedAt: map[string]int{"read": 2}}, began: start, seed: 7}
	h := history.History{
		Committed: []history.Event{{ID: "a", Subject: "k", Seq: 1, At: at(0)}, {ID: "b", Subject: "k", Seq: 2, At: at(11)}, {ID: "c", Subject: "k", Seq: 3, At: at(12)}, {ID: "d", Subject: "k", Seq: 4, At: at(40)}},
		Reads: []history.Read{{ID: "c", Subject: "k", Partition: "p", Offset: 0, At: at(13)}, {ID: "a", Subject: "k", Partition: "p", Offset: 1, At: at(14)},
			{ID: "c", Subject: "k", Partition: "p", Offset: 2, At: at(15)}},
		Writes:    []history.Write{{ID: "b", Result: history.OK, At: at(11)}, {ID: "x", Result: history.Fail, At: at(12)}},
		Faults:    []history.Fault{{Name: "away", From: at(10), To: at(20)}, {Name: "slow", From: at(30), To: at(35)}},
		Aftermath: time.Second,
	}
	text := n.pageOf(h, h.Check())
	for _, line := range []string{"| away | 1 | 10.0 | 2 | 1 | 1 | 1 | 1 |\n", "| slow | 1 | 5.0 | 0 | 0 | 0 | 0 | 0 |\n", "| the whole run | 2 | | 2 | 1 | 2 | 1 | 1 |\n", "read 2."} {
		if !strings.Contains(text, line) {
			t.Errorf("the page lacks %q:\n%s", line, text)
		}
	}
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("before\n<!-- soak T/kafka -->\nold\n<!-- end T/kafka -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := renewPage(path, "T/kafka", "new\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "before\n<!-- soak T/kafka -->\nnew\n<!-- end T/kafka -->\nafter\n" {
		t.Errorf("%s, %v", got, err)
	}
	if err := renewPage(path, "T/kfake", "new\n"); err == nil {
		t.Error("a page without a place was renewed")
	}
}
