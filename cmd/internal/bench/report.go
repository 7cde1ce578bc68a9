package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// cell is one figure of a row: what each run measured, and what the median must be, if anything.
type cell struct {
	Name   string
	Runs   []float64
	Target *target
	Whole  bool // counts, shown without digits after the point
}

// MarshalJSON adds what the tables show. A figure that is no number, because nothing happened, is null.
func (c cell) MarshalJSON() ([]byte, error) {
	out := struct {
		Name   string     `json:"name"`
		Runs   []*float64 `json:"runs"`
		Median *float64   `json:"median"`
		Min    *float64   `json:"min"`
		Max    *float64   `json:"max"`
		Target *target    `json:"target,omitempty"`
		Met    *bool      `json:"met,omitempty"`
	}{Name: c.Name, Median: number(median(c.Runs)), Min: number(slices.Min(c.Runs)), Max: number(slices.Max(c.Runs)), Target: c.Target}
	for _, v := range c.Runs {
		out.Runs = append(out.Runs, number(v))
	}
	if c.Target != nil {
		met := c.Target.met(median(c.Runs))
		out.Met = &met
	}
	return json.Marshal(out)
}

func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// text is the median, the range of the runs, and the verdict.
func (c cell) text() string {
	show := figure
	if c.Whole {
		show = func(v float64) string { return fmt.Sprintf("%.0f", v) }
	}
	m := median(c.Runs)
	s := show(m)
	if len(c.Runs) > 1 {
		s += fmt.Sprintf(" (%s–%s)", show(slices.Min(c.Runs)), show(slices.Max(c.Runs)))
	}
	if c.Target != nil {
		verdict := "met"
		if !c.Target.met(m) {
			verdict = "missed"
		}
		s += fmt.Sprintf(", %s %s: %s", map[string]string{">=": "≥", "<=": "≤"}[c.Target.Op], show(c.Target.Value), verdict)
	}
	return s
}

// figure shows three significant digits, and whole numbers from a hundred on.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1 || a == 0:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// row is one case on one broker.
type row struct {
	Broker   string `json:"broker"`
	Case     string `json:"case"`
	Settings string `json:"settings"`
	Cells    []cell `json:"cells"`
}

// table is the result of one scenario.
type table struct {
	Scenario string   `json:"scenario"`
	Title    string   `json:"title"`
	Rows     []row    `json:"rows"`
	Notes    []string `json:"notes,omitempty"`
}

// add adds a case with its figures; figures that must reach something get their targets.
func (t *table) add(b *broker, name, settings string, cells ...cell) {
	for i := range cells {
		if cells[i].Target == nil {
			cells[i].Target = targetOf(t.Scenario, b.kind, name, settings, cells[i].Name)
		}
	}
	t.Rows = append(t.Rows, row{Broker: b.name, Case: name, Settings: settings, Cells: cells})
}

// note keeps a remark once.
func (t *table) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(t.Notes, n) {
		t.Notes = append(t.Notes, n)
	}
}

// names are the columns of figures. A name that only some rows have stands behind the one it follows there.
func (t *table) names() []string {
	var names []string
	for _, r := range t.Rows {
		at := 0
		for _, c := range r.Cells {
			i := slices.Index(names, c.Name)
			if i < 0 {
				i = at
				names = slices.Insert(names, i, c.Name)
			}
			at = i + 1
		}
	}
	return names
}

// grid is the table as text, its heading first. Cells that a row lacks are dashes.
func (t *table) grid() [][]string {
	names := t.names()
	out := [][]string{append([]string{"broker", "case", "settings"}, names...)}
	for _, r := range t.Rows {
		line := []string{r.Broker, r.Case, r.Settings}
		for _, name := range names {
			text := "–"
			if i := slices.IndexFunc(r.Cells, func(c cell) bool { return c.Name == name }); i >= 0 {
				text = r.Cells[i].text()
			}
			line = append(line, text)
		}
		out = append(out, line)
	}
	return out
}

// print writes the table for a terminal.
func (t *table) print(w io.Writer) {
	grid := t.grid()
	widths := make([]int, len(grid[0]))
	for _, line := range grid {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s\n", t.Scenario, t.Title)
	for _, line := range grid {
		for i, text := range line {
			b.WriteString(text + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2))
		}
		b.WriteString("\n")
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	_, _ = io.WriteString(w, b.String())
}

// markdown is the table for BENCHMARKS.md, between the marks of its place.
func (t *table) markdown(facts string) string {
	var b strings.Builder
	begin, end := marks(t.Scenario)
	fmt.Fprintf(&b, "%s\n%s\n\n", begin, facts)
	for i, line := range t.grid() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "\n- %s", n)
	}
	if len(t.Notes) > 0 {
		b.WriteString("\n")
	}
	return b.String() + end
}

// marks are the lines between which the results of a scenario stand.
func marks(scenario string) (begin, end string) {
	return "<!-- bench " + scenario + " -->", "<!-- end " + scenario + " -->"
}

// place puts a section where its marks are in the document, or at its end.
func place(document, scenario, section string) string {
	begin, end := marks(scenario)
	from := strings.Index(document, begin)
	to := strings.Index(document, end)
	if from < 0 || to < from {
		return strings.TrimRight(document, "\n") + "\n\n## " + scenario + "\n\n" + section + "\n"
	}
	return document[:from] + section + document[to+len(end):]
}

// output collects the tables and writes them where the options say.
type output struct {
	options *options
	facts   string
	tables  []table
}

func (o *output) add(t table, w io.Writer) error {
	if len(t.Rows) == 0 {
		return fmt.Errorf("the scenario %s has measured nothing", t.Scenario)
	}
	o.tables = append(o.tables, t)
	t.print(w)
	if o.options.json != "" {
		raw, err := json.MarshalIndent(map[string]any{"facts": o.facts, "tables": o.tables}, "", "  ")
		if err != nil {
			return fmt.Errorf("-json: %w", err)
		}
		if err := os.WriteFile(o.options.json, append(raw, '\n'), 0o644); err != nil {
			return fmt.Errorf("-json: %w", err)
		}
	}
	if o.options.markdown == "" {
		return nil
	}
	document, err := os.ReadFile(o.options.markdown)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("-markdown: %w", err)
	}
	text := place(string(document), t.Scenario, t.markdown(o.facts))
	if err := os.WriteFile(o.options.markdown, []byte(strings.TrimLeft(text, "\n")), 0o644); err != nil {
		return fmt.Errorf("-markdown: %w", err)
	}
	return nil
}
