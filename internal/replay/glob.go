package replay

import (
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"
)

// parseGlob makes an expression of a glob: * stands for any characters, none included, ? for exactly one, a backslash takes
// the meaning from the character behind it, everything else is itself. The glob must fit the whole text. In the text a byte
// that is not UTF-8 counts as a character. path.Match would not do: there * stops at a slash.
func parseGlob(s string) (*regexp.Regexp, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("it is not UTF-8 text")
	}
	var b strings.Builder
	escaped := false
	for _, r := range s {
		switch {
		case escaped:
			b.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == '\\':
			escaped = true
		case r == '*':
			b.WriteString(".*")
		case r == '?':
			b.WriteByte('.')
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	if escaped {
		return nil, errors.New(`it ends in a backslash; write \\ for one`)
	}
	// A * at an end needs no expression. Without it a search for a part of a text is one for a fixed text, which is fast.
	expression, begins := strings.CutPrefix(b.String(), ".*")
	expression, ends := strings.CutSuffix(expression, ".*")
	if !begins {
		expression = `\A` + expression
	}
	if !ends {
		expression += `\z`
	}
	return regexp.Compile("(?s)" + expression)
}
