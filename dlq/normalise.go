package dlq

import "strings"

// maxNormalised is how much of a message counts for its group, in bytes: what comes after is detail.
const maxNormalised = 200

// Normalise replaces in an error message what varies from case to case: quoted texts, and words with digits in
// them, by placeholders; runs of spaces become one. Messages of one cause then are the same.
//
// A word is a run of letters, digits and -_.:@. It becomes <uuid>, <hex> (eight or more hexadecimal digits),
// <time> (it begins with a date), or keeps its letters and has each number in it replaced by #.
func Normalise(message string) string {
	var b strings.Builder
	b.Grow(min(len(message), 2*maxNormalised))
	space := true // leading spaces go
	for i := 0; i < len(message) && b.Len() < maxNormalised; {
		switch c := message[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if !space {
				b.WriteByte(' ')
				space = true
			}
			i++
			continue
		case c == '"' || c == '\'' || c == '`':
			i = quoted(&b, message, i)
		case inWord(c):
			end := i + 1
			for end < len(message) && inWord(message[end]) {
				end++
			}
			word(&b, message[i:end])
			i = end
		default:
			b.WriteByte(c)
			i++
		}
		space = false
	}
	out := b.String()
	if len(out) > maxNormalised {
		out = strings.ToValidUTF8(out[:maxNormalised], "")
	}
	return strings.TrimRight(out, " ")
}

// quoted writes a placeholder for the quoted text at i, and returns where it ends. An apostrophe inside a word
// was taken by the word; a quote that nothing closes stands for itself.
func quoted(b *strings.Builder, message string, i int) int {
	end := strings.IndexByte(message[i+1:], message[i])
	if end < 0 {
		b.WriteByte(message[i])
		return i + 1
	}
	b.WriteByte(message[i])
	b.WriteString("…")
	b.WriteByte(message[i])
	return i + end + 2
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80 }

func hexadecimal(c byte) bool { return digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func inWord(c byte) bool {
	return digit(c) || letter(c) || c == '-' || c == '_' || c == '.' || c == ':' || c == '@'
}

func word(b *strings.Builder, w string) {
	trimmed := strings.TrimRight(w, ".:-")
	tail := w[len(trimmed):]
	digits, hex := 0, len(trimmed) >= 8
	for i := range len(trimmed) {
		if digit(trimmed[i]) {
			digits++
		}
		hex = hex && hexadecimal(trimmed[i])
	}
	switch {
	case digits == 0:
		b.WriteString(trimmed)
	case isUUID(trimmed):
		b.WriteString("<uuid>")
	case hex && digits < len(trimmed):
		b.WriteString("<hex>")
	case isDate(trimmed):
		b.WriteString("<time>")
	default:
		numbers(b, trimmed)
	}
	b.WriteString(tail)
}

// numbers writes a word with each number in it as #: digits, and what stands between digits.
func numbers(b *strings.Builder, w string) {
	for i := 0; i < len(w); {
		if !digit(w[i]) {
			b.WriteByte(w[i])
			i++
			continue
		}
		b.WriteByte('#')
		for i < len(w) && (digit(w[i]) || i+1 < len(w) && (w[i] == '.' || w[i] == ':') && digit(w[i+1])) {
			i++
		}
	}
}

func isUUID(w string) bool {
	if len(w) != 36 {
		return false
	}
	for i := range len(w) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (w[i] == '-') || !dash && !hexadecimal(w[i]) {
			return false
		}
	}
	return true
}

// isDate reports whether a word begins as 2006-01-02 does.
func isDate(w string) bool {
	if len(w) < 10 {
		return false
	}
	for i := range 10 {
		dash := i == 4 || i == 7
		if dash != (w[i] == '-') || !dash && !digit(w[i]) {
			return false
		}
	}
	return true
}
