package debezium

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AnyText is what a dot of Java is in PostgreSQL.
const AnyText = `[^\n\r]`

// PostgresRoute returns route.topic.regex and route.topic.replacement as PostgreSQL's regexp_replace reads them; the pattern is for
// the whole of a value. Expressions that PostgreSQL would read otherwise, or not at all, are refused.
func PostgresRoute(regex, replacement string) (pattern, replaced string, err error) {
	pattern, groups, err := postgresPattern(regex)
	if err != nil {
		return "", "", fmt.Errorf("the regular expression %q cannot be moved into PostgreSQL: %w", regex, err)
	}
	if replaced, err = postgresReplacement(replacement, groups); err != nil {
		return "", "", fmt.Errorf("the replacement %q cannot be moved into PostgreSQL: %w", replacement, err)
	}
	return pattern, replaced, nil
}

// postgresPattern returns the expression as PostgreSQL reads it, and the names of its groups; a group without one has "".
func postgresPattern(java string) (pattern string, groups []string, err error) {
	var out strings.Builder
	open := 0
	rest := strings.TrimSuffix(strings.TrimPrefix(java, "^"), "$")
	if strings.HasSuffix(java, `\$`) {
		rest += "$"
	}
	for rest != "" {
		c, size := utf8.DecodeRuneInString(rest)
		at := rest
		rest = rest[size:]
		switch c {
		case '\\':
			text, left, err := escape(rest, false)
			if err != nil {
				return "", nil, err
			}
			out.WriteString(text)
			rest = left
		case '[':
			text, left, err := bracket(rest)
			if err != nil {
				return "", nil, err
			}
			out.WriteString(text)
			rest = left
		case ')':
			if open--; open < 0 {
				return "", nil, fmt.Errorf("a ) ends nothing")
			}
			out.WriteByte(')')
		case '(':
			open++
			name := ""
			switch {
			case strings.HasPrefix(rest, "?:"):
				out.WriteString("(?:")
				rest = rest[2:]
				continue
			case strings.HasPrefix(rest, "?<") && !strings.HasPrefix(rest, "?<=") && !strings.HasPrefix(rest, "?<!"):
				var found bool
				if name, rest, found = strings.Cut(rest[2:], ">"); !found {
					return "", nil, fmt.Errorf("a group's name does not end")
				}
			case strings.HasPrefix(rest, "?"):
				return "", nil, fmt.Errorf("it has the group %.6q", at)
			}
			groups = append(groups, name)
			out.WriteByte('(')
		case '*', '+', '?', '{', '}':
			if c == '{' {
				inside, left, found := strings.Cut(rest, "}")
				if !found {
					return "", nil, fmt.Errorf("a { does not end")
				}
				for count := range strings.SplitSeq(inside, ",") {
					if n, err := strconv.Atoi(count); count != "" && (err != nil || n > 255) {
						return "", nil, fmt.Errorf("it has the quantifier {%s}, and PostgreSQL counts to 255", inside)
					}
				}
				out.WriteString("{" + inside + "}")
				rest = left
			} else {
				out.WriteRune(c)
			}
			if strings.HasPrefix(rest, "?") || strings.HasPrefix(rest, "+") {
				return "", nil, fmt.Errorf("it has the quantifier %.3q, which PostgreSQL does not have or counts otherwise", at)
			}
		case '|':
			return "", nil, fmt.Errorf("it has alternatives (|): Java takes the first that fits, PostgreSQL the longest")
		case '^', '$':
			return "", nil, fmt.Errorf("it has %q in its middle", c)
		case '.':
			out.WriteString(AnyText)
		default:
			out.WriteRune(c)
		}
	}
	if open > 0 {
		return "", nil, fmt.Errorf("a ( does not end")
	}
	return out.String(), groups, nil
}

// escape reads what follows a backslash.
func escape(rest string, inBracket bool) (text, left string, err error) {
	c, size := utf8.DecodeRuneInString(rest)
	switch {
	case rest == "":
		return "", "", fmt.Errorf("it ends with a backslash")
	case c == 'd' || c == 'w' || c == 's':
		// Only ASCII, as in Java.
		class := map[rune]string{'d': "0-9", 'w': "a-zA-Z0-9_", 's': ` \t\n\v\f\r`}[c]
		if !inBracket {
			class = "[" + class + "]"
		}
		return class, rest[size:], nil
	case c == 't' || c == 'n' || c == 'r' || c == 'f':
		return `\` + string(c), rest[size:], nil
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
		return "", "", fmt.Errorf(`it has the escape \%c`, c)
	}
	return `\` + string(c), rest[size:], nil
}

// bracket reads a class of characters behind its [.
func bracket(rest string) (text, left string, err error) {
	var out strings.Builder
	out.WriteByte('[')
	if strings.HasPrefix(rest, "^") {
		out.WriteByte('^')
		rest = rest[1:]
	}
	for first := true; ; first = false {
		c, size := utf8.DecodeRuneInString(rest)
		switch {
		case rest == "":
			return "", "", fmt.Errorf("a [ does not end")
		case c == ']' && !first:
			return out.String() + "]", rest[1:], nil
		case c == '[' || c == ']' || strings.HasPrefix(rest, "&&"):
			return "", "", fmt.Errorf("it has %.3q in a class of characters", rest)
		case c == '\\':
			text, after, err := escape(rest[1:], true)
			if err != nil {
				return "", "", err
			}
			out.WriteString(text)
			rest = after
		default:
			out.WriteRune(c)
			rest = rest[size:]
		}
	}
}

// postgresReplacement returns the replacement as regexp_replace reads it.
func postgresReplacement(java string, groups []string) (string, error) {
	var out strings.Builder
	refer := func(n int) error {
		switch {
		case n > len(groups):
			return fmt.Errorf("it names the group %d of %d", n, len(groups))
		case n > 9:
			return fmt.Errorf("it names the group %d, PostgreSQL has nine", n)
		case n == 0:
			out.WriteString(`\&`)
		default:
			out.WriteString(`\` + strconv.Itoa(n))
		}
		return nil
	}
	for rest := java; rest != ""; {
		switch {
		case rest[0] == '\\':
			if rest = rest[1:]; rest == "" {
				return "", fmt.Errorf("it ends with a backslash")
			}
			_, size := utf8.DecodeRuneInString(rest)
			out.WriteString(strings.ReplaceAll(rest[:size], `\`, `\\`))
			rest = rest[size:]
		case strings.HasPrefix(rest, "${"):
			name, left, found := strings.Cut(rest[2:], "}")
			if !found {
				return "", fmt.Errorf("a ${ does not end")
			}
			n := 0
			for i, g := range groups {
				if g == name && name != "" {
					n = i + 1
				}
			}
			if n == 0 {
				return "", fmt.Errorf("there is no group %q", name)
			}
			if err := refer(n); err != nil {
				return "", err
			}
			rest = left
		case rest[0] == '$':
			// As Java does: further digits belong to the number while there is a group of that number.
			if len(rest) < 2 || rest[1] < '0' || rest[1] > '9' {
				return "", fmt.Errorf("a $ names no group")
			}
			n, i := int(rest[1]-'0'), 2
			for i < len(rest) && rest[i] >= '0' && rest[i] <= '9' && n*10+int(rest[i]-'0') <= len(groups) {
				n, i = n*10+int(rest[i]-'0'), i+1
			}
			if err := refer(n); err != nil {
				return "", err
			}
			rest = rest[i:]
		default:
			_, size := utf8.DecodeRuneInString(rest)
			out.WriteString(rest[:size])
			rest = rest[size:]
		}
	}
	return out.String(), nil
}
