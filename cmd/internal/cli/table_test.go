package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestGridFitsThePage(t *testing.T) {
	t.Parallel()
	head := []string{"ID", "TOPIC", "MESSAGE", "STATUS"}
	rows := [][]string{
		{"0198c0de-0000-7000-8000-000000000001", "orders", strings.Repeat("the amount is negative ", 8), "pending"},
		{"0198c0de-0000-7000-9000-000000000001", "payments", "", "resolved"},
	}
	for _, width := range []int{0, 60} {
		p := &page{terminal: terminal{width: width}}
		if err := grid(p, head, rows); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(p.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); width > 0 && n > width {
				t.Errorf("width %d: a line has %d characters: %s", width, n, line)
			}
		}
		if width == 0 && !strings.HasPrefix(p.String(), "ID                                    TOPIC     MESSAGE") {
			t.Errorf("width %d:\n%s", width, p)
		}
		if width > 0 && (!strings.Contains(p.String(), "0198c0de-0000-7000-8 ") || !strings.Contains(p.String(), "0198c0de-0000-7000-9 ") || !strings.Contains(p.String(), "…")) {
			t.Errorf("width %d: ids are not cut to where they differ, or nothing is cut:\n%s", width, p)
		}
	}
	wide := &page{terminal: terminal{width: 60}, wide: true}
	if err := grid(wide, head, rows); err != nil || !strings.Contains(wide.String(), rows[0][0]) || !strings.Contains(wide.String(), strings.TrimSpace(rows[0][2])) {
		t.Errorf("--wide: %v\n%s", err, wide)
	}
}

func TestGridColours(t *testing.T) {
	t.Parallel()
	for colour, want := range map[bool]string{true: "\x1b[1mSTATE\x1b[0m\n\x1b[31mfailed\x1b[0m\nother\n", false: "STATE\nfailed\nother\n"} {
		p := &page{terminal: terminal{colour: colour}}
		if err := grid(p, []string{"STATE"}, [][]string{{"failed"}, {"other"}}); err != nil || p.String() != want {
			t.Errorf("colour %v: %q, %v", colour, p.String(), err)
		}
	}
}

// TestOnlyStatesHaveColours: a topic may be called as a state is.
func TestOnlyStatesHaveColours(t *testing.T) {
	t.Parallel()
	p := &page{terminal: terminal{colour: true}}
	if err := grid(p, []string{"TOPIC", "STATUS"}, [][]string{{"new", "new"}}); err != nil || !strings.HasSuffix(p.String(), "\nnew    \x1b[33mnew\x1b[0m\n") {
		t.Errorf("%q, %v", p, err)
	}
}

// TestWhatIsNotNarrowed: ids and numbers are seen whole, other columns are narrowed, and ids are cut only where commands take
// beginnings.
func TestWhatIsNotNarrowed(t *testing.T) {
	t.Parallel()
	id, number := "0198c0de-0000-7000-8000-000000000001", "12345678901234567"
	p := &page{terminal: terminal{width: 80}}
	if err := grid(p, []string{"ID", "EVENT", "NUMBER", "KEY"}, [][]string{{id, id, number, strings.Repeat("feed", 10)}}); err != nil {
		t.Fatal(err)
	}
	contains(t, p.String(), "0198c0de  "+id+"  "+number+"  feedfee", "…\n")
}

// TestGridIsAlignedAndSafe: whatever is in the cells, columns are aligned and no control character reaches the terminal.
func TestGridIsAlignedAndSafe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 5).Draw(t, "columns")
		cell := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-f0-9]{8}-[a-f0-9]{4}-7[a-f0-9]{3}-8[a-f0-9]{3}-[a-f0-9]{12}`), rapid.SampledFrom([]string{"", "-", "failed", "\x1b[2J"}))
		head := rapid.SliceOfN(rapid.StringMatching(`[A-Z]{1,12}`), columns, columns).Draw(t, "head")
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, columns, columns), 0, 6).Draw(t, "rows")
		width := rapid.IntRange(0, 120).Draw(t, "width")
		p := &page{terminal: terminal{width: width}}
		if err := grid(p, head, rows); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n")
		if len(lines) != len(rows)+1 {
			t.Fatalf("%d lines for %d rows:\n%q", len(lines), len(rows), lines)
		}
		for _, line := range lines {
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Fatalf("a control character is in %q", line)
			}
			if n := utf8.RuneCountInString(line); width >= columns*(36+gap) && n > width {
				t.Fatalf("%d characters on a page of %d: %q", n, width, line)
			}
		}
	})
}

func TestTimesAreRelativeOnATerminal(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for at, want := range map[string]string{
		"2026-01-31T12:00:00Z": "0s ago", "2026-01-31T11:58:01Z": "119s ago", "2026-01-31T11:58:00Z": "2m ago", "2026-01-31T09:59:00Z": "2h ago",
		"2026-01-29T12:00:00Z": "2d ago", "2026-01-31T12:05:00Z": "in 5m", "0001-01-01T00:00:00Z": "106751d ago", "yesterday": "yesterday", "-": "-",
	} {
		if got := relative(at, now); got != want {
			t.Errorf("%s is %q, want %q", at, got, want)
		}
	}
	for width, want := range map[int]string{0: "AT\n2026-01-31T11:00:00Z\n", 80: "AT\n60m ago\n"} {
		p := &page{terminal: terminal{width: width}, now: now}
		if err := grid(p, []string{"AT"}, [][]string{{"2026-01-31T11:00:00Z"}}); err != nil || p.String() != want {
			t.Errorf("width %d: %q, %v", width, p.String(), err)
		}
	}
}
