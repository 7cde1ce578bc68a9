package task

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a template.
type Problem struct {
	// Line is where it is, from 1.
	Line int `json:"line"`
	// Path is what it is about, for example steps[1].dependencies[0]; empty for the whole.
	Path string `json:"path"`
	// Text says what the mistake is and what to do.
	Text string `json:"message"`
}

// InvalidError is everything that is wrong with a template.
type InvalidError struct {
	// Source names the file, or where else it came from.
	Source string
	// Problems are in the order of their lines.
	Problems []Problem
}

// Error lists the problems, a line each: the source and the line, the path, what to do.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		path := p.Path
		if path != "" {
			path += ": "
		}
		lines[i] = fmt.Sprintf("%s:%d: %s%s", e.Source, p.Line, path, p.Text)
	}
	return strings.Join(lines, "\n")
}

// maxProblems bounds how many are told at once.
const maxProblems = 200

// problems collects the mistakes in a template.
type problems []Problem

func (ps *problems) add(at *node, path, format string, args ...any) {
	*ps = append(*ps, Problem{Line: at.line, Path: shown(path), Text: fmt.Sprintf(format, args...)})
}

// err returns the problems in the order of their lines, nil if there are none.
func (ps problems) err(source string) error {
	if len(ps) == 0 {
		return nil
	}
	sorted := slices.Clone(ps)
	slices.SortStableFunc(sorted, func(a, b Problem) int { return a.Line - b.Line })
	sorted = slices.Compact(sorted)
	if more := len(sorted) - maxProblems; more > 0 {
		sorted = append(sorted[:maxProblems], Problem{Line: sorted[maxProblems].Line, Text: fmt.Sprintf("and %d more from here on", more)})
	}
	return &InvalidError{Source: source, Problems: sorted}
}

// lineEnds are shown, so that nothing in a template looks like a line of ours.
var lineEnds = strings.NewReplacer("\n", `\n`, "\r", `\r`)

// shown bounds a text of a template for a message.
func shown(s string) string {
	s = lineEnds.Replace(s)
	if r := []rune(s); len(r) > 160 {
		return string(r[:159]) + "…"
	}
	return s
}

// join lists words for a message.
func join[T ~string](words []T) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return strings.Join(all, ", ")
}
