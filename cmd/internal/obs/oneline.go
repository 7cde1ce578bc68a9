package obs

import (
	"slices"
	"strings"
)

// OneLine puts the lines of an error's text into one and leaves out a line that repeats another: the
// PostgreSQL client reports an address once for each way in which it tried it.
func OneLine(text string) string {
	if !strings.ContainsAny(text, "\n\r\t") {
		return text
	}
	var said []string
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.Join(strings.Fields(line), " ")
		if line != "" && !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	var b strings.Builder
	for i, line := range said {
		switch {
		case i == 0:
		case strings.HasSuffix(said[i-1], ":"):
			b.WriteString(" ")
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}
