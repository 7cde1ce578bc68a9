package dlq

import (
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of the JSON that is shown as JSON. jsonb refuses JSON that is nested deeper than its parser's stack allows, and
// writes a number like 1e100000 out digit by digit.
const (
	maxJSONDepth    = 100
	maxNumberBytes  = 400
	maxNumberPowers = 400
)

// storableJSON reports whether b is JSON that jsonb accepts and gives back at about its own size. jsonb
// is stricter than JSON: no \u0000, no half of a surrogate pair, no number out of numeric's range, and
// bounded nesting. What fails is still shown, as text.
func storableJSON(b []byte) bool {
	if !utf8.Valid(b) || !json.Valid(b) {
		return false
	}
	depth := 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '[' || c == '{':
			if depth++; depth > maxJSONDepth {
				return false
			}
		case c == ']' || c == '}':
			depth--
		case c == '"':
			end, ok := storableString(b, i+1)
			if !ok {
				return false
			}
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end := numberEnd(b, i)
			if !storableNumber(b[i:end]) {
				return false
			}
			i = end - 1
		}
	}
	return true
}

// storableString checks the escapes of a string of valid JSON from behind its opening quote, and returns
// the place of the closing one.
func storableString(b []byte, i int) (end int, ok bool) {
	for ; b[i] != '"'; i++ {
		if b[i] != '\\' {
			continue
		}
		i++
		if b[i] != 'u' {
			continue
		}
		r := escaped(b, i+1)
		i += 4
		switch {
		case r == 0:
			return 0, false
		case !utf16.IsSurrogate(r):
			continue
		case b[i+1] != '\\' || b[i+2] != 'u':
			return 0, false
		}
		if utf16.DecodeRune(r, escaped(b, i+3)) == utf8.RuneError {
			return 0, false
		}
		i += 6
	}
	return i, true
}

// escaped reads the four hex digits of a \u escape; valid JSON has them.
func escaped(b []byte, i int) rune {
	n, _ := strconv.ParseUint(string(b[i:i+4]), 16, 32)
	return rune(n)
}

func numberEnd(b []byte, i int) int {
	for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == '-' || b[i] == '+' || b[i] == '.' || b[i] == 'e' || b[i] == 'E') {
		i++
	}
	return i
}

func storableNumber(n []byte) bool {
	if len(n) > maxNumberBytes {
		return false
	}
	for i, c := range n {
		if c == 'e' || c == 'E' {
			power, err := strconv.Atoi(string(n[i+1:])) // err: longer than an int
			return err == nil && power >= -maxNumberPowers && power <= maxNumberPowers
		}
	}
	return true
}
