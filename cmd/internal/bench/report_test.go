package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestCellText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cell cell
		want string
	}{
		{cell{Runs: []float64{123456.7}}, "123457"},
		{cell{Runs: []float64{3, 1, 2}}, "2.00 (1.00–3.00)"},
		{cell{Runs: []float64{0.6}, Target: atLeast(0.6)}, "0.600, ≥ 0.600: met"},
		{cell{Runs: []float64{0.5, 0.7, 0.59}, Target: atLeast(0.6)}, "0.590 (0.500–0.700), ≥ 0.600: missed"},
		{cell{Runs: []float64{1.9}, Target: atMost(2)}, "1.90, ≤ 2.00: met"},
		{cell{Runs: []float64{2.1}, Target: atMost(2)}, "2.10, ≤ 2.00: missed"},
		{cell{Runs: []float64{0}}, "0.00"},
		{cell{Runs: []float64{math.NaN()}}, "–"},
		{cell{Runs: []float64{-12.34}}, "-12.3"},
		{cell{Runs: []float64{0, 3, 12}, Target: atMost(0), Whole: true}, "3 (0–12), ≤ 0: missed"},
	} {
		if got := c.cell.text(); got != c.want {
			t.Errorf("%v: %q, want %q", c.cell, got, c.want)
		}
	}
}

func TestNotANumberMeetsNothing(t *testing.T) {
	t.Parallel()
	for _, target := range []*target{atLeast(1), atMost(1)} {
		if target.met(math.NaN()) {
			t.Errorf("not a number is %s %v", target.Op, target.Value)
		}
	}
}

func sampleTable() table {
	tab := table{Scenario: "drain", Title: "Draining"}
	b := &broker{name: "kfake"}
	tab.add(b, "floor", "batch 1", cell{Name: "events/s", Runs: []float64{10, 30, 20}}, cell{Name: "CPU", Runs: []float64{1}})
	tab.add(b, "relay", "batch 2", cell{Name: "events/s", Runs: []float64{5, 6, 7}}, cell{Name: "of floor", Runs: []float64{0.3}, Target: atLeast(0.6)}, cell{Name: "CPU", Runs: []float64{2}})
	tab.note("a %s", "remark")
	tab.note("a %s", "remark")
	return tab
}

func TestGrid(t *testing.T) {
	t.Parallel()
	tab := sampleTable()
	want := [][]string{
		{"broker", "case", "settings", "events/s", "of floor", "CPU"},
		{"kfake", "floor", "batch 1", "20.0 (10.0–30.0)", "–", "1.00"},
		{"kfake", "relay", "batch 2", "6.00 (5.00–7.00)", "0.300, ≥ 0.600: missed", "2.00"},
	}
	if got := tab.grid(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(tab.Notes) != 1 {
		t.Errorf("notes %q: each is said once", tab.Notes)
	}
}

func TestPrintAlignsColumns(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tab := sampleTable()
	tab.print(&out)
	lines := strings.Split(out.String(), "\n")
	at := strings.Index(lines[2], "CPU")
	for _, line := range lines[3:5] {
		// Dashes between figures are several bytes and one column.
		if got := string([]rune(line)[at : at+4]); got != "1.00" && got != "2.00" {
			t.Errorf("column CPU begins with %q in %q", got, line)
		}
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	begin, end := marks("drain")
	document := "# Title\n\n" + begin + "\nold\n" + end + "\n\n## Next\n"
	section := begin + "\nnew\n" + end
	if got, want := place(document, "drain", section), "# Title\n\n"+section+"\n\n## Next\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	appended := place("# Title\n", "drain", section)
	if want := "# Title\n\n## drain\n\n" + section + "\n"; appended != want {
		t.Errorf("without marks: got %q, want %q", appended, want)
	}
	if again := place(appended, "drain", section); again != appended {
		t.Errorf("putting it there again changed %q to %q", appended, again)
	}
}

// The files hold every table so far, and the document keeps what else is in it.
func TestOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := output{options: &options{json: filepath.Join(dir, "out.json"), markdown: filepath.Join(dir, "out.md")}, facts: "two cores"}
	if err := os.WriteFile(o.options.markdown, []byte("# Benchmarks\n\nWords.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := sampleTable()
	second.Scenario = "idle"
	var printed strings.Builder
	for _, tab := range []table{sampleTable(), second, sampleTable()} {
		if err := o.add(tab, &printed); err != nil {
			t.Fatal(err)
		}
	}
	md, err := os.ReadFile(o.options.markdown)
	if err != nil {
		t.Fatal(err)
	}
	for text, times := range map[string]int{"Words.": 1, "<!-- bench drain -->": 1, "<!-- bench idle -->": 1, "two cores": 2,
		"| kfake | relay | batch 2 | 6.00 (5.00–7.00) | 0.300, ≥ 0.600: missed | 2.00 |": 2, "- a remark": 2} {
		if got := strings.Count(string(md), text); got != times {
			t.Errorf("%q stands %d times in the document, want %d:\n%s", text, got, times, md)
		}
	}
	raw, err := os.ReadFile(o.options.json)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Facts  string
		Tables []struct {
			Scenario string
			Rows     []struct {
				Cells []struct {
					Name   string
					Median float64
					Runs   []float64
					Met    *bool
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Facts != "two cores" || len(got.Tables) != 3 {
		t.Fatalf("facts %q and %d tables", got.Facts, len(got.Tables))
	}
	ratio := got.Tables[0].Rows[1].Cells[1]
	if ratio.Median != 0.3 || ratio.Met == nil || *ratio.Met {
		t.Errorf("the ratio is %+v, want 0.3 and not met", ratio)
	}
	if raw, err := json.Marshal(cell{Name: "p50", Runs: []float64{math.NaN()}, Target: atMost(1)}); err != nil ||
		string(raw) != `{"name":"p50","runs":[null],"median":null,"min":null,"max":null,"target":{"op":"\u003c=","value":1},"met":false}` {
		t.Errorf("what is not a number is %s (%v)", raw, err)
	}
	if err := o.add(table{Scenario: "flat"}, &printed); err == nil {
		t.Error("a table without rows is no result")
	}
}
