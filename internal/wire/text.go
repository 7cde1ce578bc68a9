package wire

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Strings of JSON are kept in UTF-8 with one addition: a half of a surrogate pair that stands alone has three bytes as other
// characters of its plane have. Java's strings can have them, and so can JSON by its escapes.

const upperHex = "0123456789ABCDEF"

// appendString appends a string as Jackson writes it into bytes: characters beyond the basic plane as two escapes.
func appendString(to []byte, s string) []byte {
	to = append(to, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, size := decode(s[i:])
			switch {
			case r > 0xffff:
				r -= 0x10000
				to = appendEscape(appendEscape(to, 0xd800+r>>10), 0xdc00+r&0x3ff)
			case surrogate(r):
				to = appendEscape(to, r)
			default:
				to = utf8.AppendRune(to, r)
			}
			i += size
			continue
		case c == '"' || c == '\\':
			to = append(to, '\\', c)
		case c >= ' ':
			begin := i
			for i++; i < len(s) && plain(s[i]); i++ {
			}
			to = append(to, s[begin:i]...)
			continue
		default:
			if short := strings.IndexByte("\b\t\n\f\r", c); short >= 0 {
				to = append(to, '\\', "btnfr"[short])
			} else {
				to = appendEscape(to, rune(c))
			}
		}
		i++
	}
	return append(to, '"')
}

// plain reports whether a character is written as it is.
func plain(c byte) bool { return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' }

func appendEscape(to []byte, r rune) []byte {
	return append(to, '\\', 'u', upperHex[r>>12&15], upperHex[r>>8&15], upperHex[r>>4&15], upperHex[r&15])
}

func surrogate(r rune) bool { return r >= 0xd800 && r <= 0xdfff }

// decode reads a character, which may be half of a surrogate pair.
func decode(s string) (r rune, size int) {
	if r, size = utf8.DecodeRuneInString(s); r == utf8.RuneError && size == 1 && len(s) >= 3 && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80 {
		return 0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
	}
	return r, size
}

// appendCharacter appends a character that may be half of a surrogate pair.
func appendCharacter(to []byte, r rune) []byte {
	if surrogate(r) {
		return append(to, 0xed, 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f))
	}
	return utf8.AppendRune(to, r)
}

// appendDouble appends a number as Java's Double.toString writes it since Java 19: the fewest digits that give the number
// again, two at least. Numbers that are none are strings, as Jackson has them.
func appendDouble(to []byte, f float64) []byte {
	switch size := math.Abs(f); {
	case math.IsInf(f, 0) || math.IsNaN(f):
		return append(to, map[string]string{"+Inf": `"Infinity"`, "-Inf": `"-Infinity"`, "NaN": `"NaN"`}[strconv.FormatFloat(f, 'f', -1, 64)]...)
	case size == 0 || size >= 1e-3 && size < 1e7:
		begin := len(to)
		if to = strconv.AppendFloat(to, f, 'f', -1, 64); !bytes.ContainsRune(to[begin:], '.') {
			to = append(to, ".0"...)
		}
		return to
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") { // of one digit: then Java takes the nearest number of two
		mantissa, exponent, _ = strings.Cut(strconv.FormatFloat(f, 'e', 1, 64), "e")
	}
	e, _ := strconv.Atoi(exponent)
	return strconv.AppendInt(append(append(to, mantissa...), 'E'), int64(e), 10)
}
