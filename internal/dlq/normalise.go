package dlq

import "strings"

// maxNormalised is how much of a message counts for its group, in bytes: what comes after is detail.
const maxNormalised = 200

// Normalise replaces in an error message what varies from case to case: quoted texts, numbers, and words that are
// made of both letters and digits as identities are. Runs of spaces become one. Messages of one cause then are the
// same. It is fast, because it is asked for each investigation: one pass, no patterns.
//
// In a word, which is a run of letters, digits and -_.:@, a uuid becomes <uuid>, eight or more hexadecimal digits
// <hex>, sixteen or more letters and digits <id>, a word that begins with a date <time>, and any other number #, with
// what stands between its digits: 10.0.0.1:9092 is #.
func Normalise(message string) string {
	var b strings.Builder
	b.Grow(min(len(message), maxNormalised+64))
	space := true // leading spaces go
	for i := 0; i < len(message) && b.Len() < maxNormalised; {
		switch c := message[i]; {
		case c <= ' ':
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
			for end < len(message) && (inWord(message[end]) || apostrophe(message, end)) {
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
	return strings.TrimRight(cut(b.String(), maxNormalised), " ")
}

// quoted writes a placeholder for the quoted text at i, and returns where it ends. A quote that nothing closes stands
// for itself.
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

func alphabetic(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80 }

func hexadecimal(c byte) bool { return digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func inWord(c byte) bool {
	return digit(c) || alphabetic(c) || c == '-' || c == '_' || c == '.' || c == ':' || c == '@'
}

// apostrophe reports whether the character behind a word is the one of "can't", and not a quote.
func apostrophe(message string, i int) bool {
	return message[i] == '\'' && alphabetic(message[i-1]) && i+1 < len(message) && alphabetic(message[i+1])
}

// word writes a word with what varies in it replaced.
func word(b *strings.Builder, w string) {
	if isDate(w) {
		b.WriteString("<time>")
		return
	}
	for i := 0; i < len(w); {
		c := w[i]
		if !digit(c) && !alphabetic(c) {
			b.WriteByte(c)
			i++
			continue
		}
		end := i + 1
		for end < len(w) && (digit(w[end]) || alphabetic(w[end])) {
			end++
		}
		switch run := w[i:end]; {
		case i+36 <= len(w) && isUUID(w[i:i+36]) && (i+36 == len(w) || !digit(w[i+36]) && !alphabetic(w[i+36])):
			b.WriteString("<uuid>")
			end = i + 36
		default:
			if id := identity(run); id != "" {
				b.WriteString(id)
				break
			}
			end = i + numbers(b, w[i:], end-i)
		}
		i = end
	}
}

// identity is the placeholder of a run of letters and digits that looks like one, otherwise "".
func identity(run string) string {
	digits, hex := 0, true
	if len(run) > 3 && run[0] == '0' && run[1]|0x20 == 'x' {
		run = run[2:] + "00000000" // an address, however short
	}
	for i := range len(run) {
		if digit(run[i]) {
			digits++
		}
		hex = hex && hexadecimal(run[i])
	}
	switch {
	case digits == 0 || digits == len(run):
		return ""
	case hex && len(run) >= 8:
		return "<hex>"
	case len(run) >= 16:
		return "<id>"
	}
	return ""
}

// numbers writes the first n bytes of w with each number as #, and returns how much of w it used: a number goes on
// over a dot or colon when a digit follows.
func numbers(b *strings.Builder, w string, n int) int {
	i := 0
	for i < n {
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
	return i
}

func isUUID(w string) bool {
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
