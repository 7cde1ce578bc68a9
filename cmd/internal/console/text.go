package console

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text from outside may be hostile: payloads, keys, headers, errors, names of topics. The templates escape what HTML
// gives a meaning. harmless escapes what changes how the rest of a page is read, in the whole page at once, so that no
// field can be forgotten. clip bounds a field.

// harmless writes bytes that are not UTF-8, control characters and marks of direction as escapes, such as \xFF and \u202E.
func harmless(page []byte) []byte {
	if !needsCare(page) {
		return page
	}
	var out bytes.Buffer
	out.Grow(len(page) + len(page)/8)
	for len(page) > 0 {
		r, size := utf8.DecodeRune(page)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02X`, page[0])
		case misleads(r):
			if r > 0xffff {
				fmt.Fprintf(&out, `\U%08X`, r)
			} else {
				fmt.Fprintf(&out, `\u%04X`, r)
			}
		default:
			out.Write(page[:size])
		}
		page = page[size:]
	}
	return out.Bytes()
}

// needsCare reports whether a page has anything but plain text.
func needsCare(page []byte) bool {
	for i := 0; i < len(page); {
		if b := page[i]; b < utf8.RuneSelf {
			if misleads(rune(b)) {
				return true
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(page[i:])
		if r == utf8.RuneError && size == 1 || misleads(r) {
			return true
		}
		i += size
	}
	return false
}

// misleads reports whether a character cannot be seen and changes what can: control characters but for the line and the
// tab, marks of direction, characters without width, and what separates lines for some readers only.
func misleads(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ' || r >= 0x7f && r < 0xa0:
		return true
	case r < 0xad:
		return false
	}
	return r == 0xad || r == 0x61c || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060 && r <= 0x206f ||
		r == 0xfeff || r >= 0xfff9 && r <= 0xfffb || r >= 0xe0000 && r <= 0xe0fff || unicode.Is(unicode.Co, r)
}

// clip is the text cut to so many bytes, at a whole character, with a mark where something was cut.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && cut > most-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// oneLine is the text on one line, clipped.
func oneLine(text string, most int) string {
	return strings.Join(strings.Fields(clip(text, most)), " ")
}

// sentence begins with a capital, and ends in a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	text = string(unicode.ToUpper(r)) + text[size:]
	if last, _ := utf8.DecodeLastRuneInString(text); strings.ContainsRune(".!?…", last) {
		return text
	}
	return text + "."
}
