package task

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// escapes are the letters and digits that mean the same to Go and to PostgreSQL behind a backslash. \b, for one,
// is the edge of a word to Go and a backspace to PostgreSQL; \p and \z only Go knows.
const escapes = "dDsSwWafnrtv"

// mostRepeats is the largest count of a repetition that PostgreSQL takes; Go takes 1000.
const mostRepeats = 255

var (
	repetition = regexp.MustCompile(`^\{([0-9]+)(,([0-9]*))?\}`)
	class      = regexp.MustCompile(`^\[:[a-z]+:\]`)
)

// foreign returns the part of a pattern that Go takes and PostgreSQL refuses, or reads in another way; empty if there
// is none.
func foreign(pattern string) string {
	if tree, err := syntax.Parse(pattern, syntax.Perl); err == nil && repeatsNothing(tree) {
		return "a repetition of the beginning or the end"
	}
	inside := false // a bracket expression
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch c := pattern[i]; {
		case c == '\\':
			i++ // Go refuses a backslash at the end
			if next := pattern[i]; alphanumeric(next) && !strings.ContainsRune(escapes, rune(next)) {
				return `\` + string(next)
			}
		case inside:
			switch {
			case class.MatchString(rest):
				i += strings.Index(rest, ":]") + 1
			case strings.HasPrefix(rest, "[:") || strings.HasPrefix(rest, "[.") || strings.HasPrefix(rest, "[="):
				return rest[:2] + " inside brackets"
			case c == ']':
				inside = false
			}
		case c == '[':
			inside = true
			// A closing bracket is an ordinary character at the beginning of a bracket expression.
			if after := strings.TrimPrefix(rest[1:], "^"); strings.HasPrefix(after, "]") {
				i = len(pattern) - len(after)
			}
		case strings.HasPrefix(rest, "(?") && !strings.HasPrefix(rest, "(?:"):
			return "a group that begins with (? and not with (?:"
		case c == '{':
			m := repetition.FindStringSubmatch(rest)
			switch {
			case m != nil && (tooOften(m[1]) || tooOften(m[3])):
				return fmt.Sprintf("a repetition of more than %d", mostRepeats)
			case m != nil:
				i += len(m[0]) - 1
			case len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
				return "{ without its }"
			}
		}
	}
	return ""
}

// repeatsNothing is whether something is repeated that takes no character.
func repeatsNothing(r *syntax.Regexp) bool {
	switch r.Op {
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		switch r.Sub[0].Op {
		case syntax.OpBeginText, syntax.OpEndText, syntax.OpEmptyMatch:
			return true
		}
	}
	return slices.ContainsFunc(r.Sub, repeatsNothing)
}

func tooOften(count string) bool {
	n, err := strconv.Atoi(count)
	return count != "" && (err != nil || n > mostRepeats)
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
