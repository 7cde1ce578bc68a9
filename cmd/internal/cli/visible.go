package cli

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// visible makes text safe for a terminal. A character that is not printable is shown as a Go escape: escape sequences,
// line ends, changes of the writing direction and broken UTF-8. Messages and payloads come from anybody; none of them may
// move the cursor or look like our own output.
func visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[0])|0x100, 16)[1:])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}

// visibleLines is visible for text whose line ends are meant.
func visibleLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = visible(strings.ReplaceAll(lines[i], "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// visibleJSON escapes what JSON lets through and a terminal may obey. The result is the same JSON: outside of strings the
// only character of this kind is the line end.
func visibleJSON(encoded string) string {
	var b strings.Builder
	for _, r := range encoded {
		switch {
		case r == '\n' || strconv.IsPrint(r) && r != utf8.RuneError:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			b.WriteString(jsonEscape(0xd800 + r>>10))
			b.WriteString(jsonEscape(0xdc00 + r&0x3ff))
		default:
			b.WriteString(jsonEscape(r))
		}
	}
	return b.String()
}

func jsonEscape(r rune) string { return `\u` + strconv.FormatInt(int64(r)|0x10000, 16)[1:] }
