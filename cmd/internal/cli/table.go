package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// page is where a table is written before it is shown: it knows what it must fit.
type page struct {
	bytes.Buffer
	terminal
	wide bool // --wide: cells and ids are seen whole
	now  time.Time
}

// fits reports whether tables are made to fit the page.
func (p *page) fits() bool { return p != nil && p.width > 0 && !p.wide }

const (
	// maxCell is how wide a cell may be where nothing says how wide a line is.
	maxCell = 80
	// minCell is how narrow a column is made for a line to fit.
	minCell = 10
	// gap is between two columns.
	gap = 2
	// shortID is the fewest characters of an id that are shown.
	shortID = 8
)

// shortIDs are the heads of columns of ids whose beginnings commands take (completeIDs, findStep). Ids in other columns are
// seen whole: ids of events, and ids of the audit log, which are of things of any kind.
var shortIDs = []string{"ID", "TASK"}

// grid aligns rows of cells under a head. Cells are made visible; an empty one is "-". On a page that has a width, times are
// relative, ids under shortIDs are cut to the fewest characters that tell them apart, and the widest columns are narrowed
// until a line fits.
func grid(w io.Writer, head []string, rows [][]string) error {
	p, _ := w.(*page)
	cells := make([][]string, len(rows))
	for i, row := range rows {
		cells[i] = make([]string, len(row))
		for j, cell := range row {
			if cells[i][j] = visible(cell); cells[i][j] == "" {
				cells[i][j] = "-"
			}
			if p.fits() {
				cells[i][j] = relative(cells[i][j], p.now)
			}
		}
	}
	limits, fixed := make([]int, len(head)), make([]bool, len(head))
	for j := range head {
		if p.fits() {
			ids := hasOnly(cells, j, isID)
			if ids && slices.Contains(shortIDs, head[j]) {
				cutIDs(cells, j)
			}
			fixed[j] = ids || hasOnly(cells, j, isNumber)
		}
		limits[j] = widest(head, cells, j)
		if p == nil || !p.wide {
			limits[j] = min(limits[j], max(maxCell, utf8.RuneCountInString(head[j])))
		}
	}
	if p.fits() {
		narrow(limits, fixed, p.width)
	}
	var text strings.Builder
	line(&text, head, limits, p.paint(bold))
	for _, row := range cells {
		line(&text, row, limits, p.paint(stateColour(head)))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// wideGrid is grid for cells that must be seen whole on every page.
func wideGrid(w io.Writer, head []string, rows [][]string) error {
	whole := &page{wide: true}
	if p, is := w.(*page); is {
		whole.terminal = p.terminal
	}
	if err := grid(whole, head, rows); err != nil {
		return err
	}
	_, err := w.Write(whole.Bytes())
	return err
}

// relative is how long ago a moment was, or in how long it will be; any other text stays.
func relative(cell string, now time.Time) string {
	at, err := time.Parse(momentLayout, cell)
	if err != nil {
		return cell
	}
	if at.After(now) {
		return "in " + span(at.Sub(now))
	}
	return span(now.Sub(at)) + " ago"
}

// span is a time in its largest unit that it has at least two of, rounded down.
func span(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= 2*unit.length {
			return strconv.FormatInt(int64(d/unit.length), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

// widest is how wide a column must be to show each cell whole.
func widest(head []string, rows [][]string, column int) int {
	width := utf8.RuneCountInString(head[column])
	for _, row := range rows {
		if column < len(row) {
			width = max(width, utf8.RuneCountInString(row[column]))
		}
	}
	return width
}

// hasOnly reports whether a column has cells of a kind and empty ones, and at least one that is not empty.
func hasOnly(rows [][]string, column int, is func(cell string) bool) bool {
	some := false
	for _, row := range rows {
		switch cell := row[column]; {
		case cell == "-":
		case is(cell):
			some = true
		default:
			return false
		}
	}
	return some
}

func isID(cell string) bool { return len(cell) == 36 && uuid.Validate(cell) == nil }

func isNumber(cell string) bool { return strings.Trim(cell, "0123456789") == "" }

// cutIDs cuts a column of ids to the fewest characters by which they differ.
func cutIDs(rows [][]string, column int) {
	ids := map[string]bool{}
	for _, row := range rows {
		if row[column] != "-" {
			ids[row[column]] = true
		}
	}
	length := shortID
	for ; length < 36; length++ {
		short := map[string]bool{}
		for id := range ids {
			short[id[:length]] = true
		}
		if len(short) == len(ids) {
			break
		}
	}
	for _, row := range rows {
		if row[column] != "-" {
			row[column] = row[column][:length]
		}
	}
}

// narrow takes width from the widest columns until a line fits, or no column can give any. Fixed columns stay: what is cut
// from an id or a number cannot be guessed.
func narrow(limits []int, fixed []bool, width int) {
	for {
		total, most := -gap, -1
		for j, limit := range limits {
			total += limit + gap
			if limit > minCell && (most < 0 || limit > limits[most]) && !fixed[j] {
				most = j
			}
		}
		if total <= width || most < 0 {
			return
		}
		limits[most]--
	}
}

// line writes cells, each cut to its limit and padded to it, but for the last.
func line(w io.Writer, cells []string, limits []int, paint func(column int, cell string) (before, after string)) {
	for j, cell := range cells {
		before, after := paint(j, cell)
		cell = shorten(cell, limits[j])
		fmt.Fprint(w, before, cell, after)
		if j < len(cells)-1 {
			fmt.Fprint(w, strings.Repeat(" ", limits[j]-utf8.RuneCountInString(cell)+gap))
		}
	}
	fmt.Fprintln(w)
}

// paint is how a page colours cells: not at all where it may not.
func (p *page) paint(with func(column int, cell string) string) func(column int, cell string) (before, after string) {
	return func(column int, cell string) (string, string) {
		if p == nil || !p.colour {
			return "", ""
		}
		if code := with(column, cell); code != "" {
			return "\x1b[" + code + "m", "\x1b[0m"
		}
		return "", ""
	}
}

func bold(int, string) string { return "1" }

// stateColour is the colour of a cell under STATE or STATUS that is the word for a state: red for what failed, yellow for what
// waits for people, green for what is done.
func stateColour(head []string) func(column int, cell string) string {
	return func(column int, cell string) string {
		if head[column] != "STATE" && head[column] != "STATUS" {
			return ""
		}
		switch word, _, _ := strings.Cut(cell, " ("); word {
		case "failed", "error", "dead_lettered", "dead_letter", "permanently_failed", "regressed", "fail", "halted":
			return "31"
		case "pending", "new", "exhausted", "parked", "blocked_by_failures", "warn", "paused":
			return "33"
		case "succeeded", "published", "complete", "completed", "resolved", "manually_resolved", "automatically_resolved", "ok", "done":
			return "32"
		}
		return ""
	}
}
