package console

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider/cmd/internal/access"
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
		case access.Misleading(r):
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

// careful are the bytes that needsCare looks at closely: all but plain ASCII. Nearly all of a page is that.
var careful = func() (of [256]bool) {
	for b := range of {
		of[b] = b >= utf8.RuneSelf || access.Misleading(rune(b))
	}
	return of
}()

// needsCare reports whether a page has anything but plain text.
func needsCare(page []byte) bool {
	for i := 0; i < len(page); {
		if !careful[page[i]] {
			i++
			continue
		}
		r, size := utf8.DecodeRune(page[i:])
		if r == utf8.RuneError && size == 1 || access.Misleading(r) {
			return true
		}
		i += size
	}
	return false
}

// shownNUL is a NUL character as an escape. Templates would put a replacement character in its place, before harmless
// sees it.
func shownNUL(text string) string { return strings.ReplaceAll(text, "\x00", `\u0000`) }

// clip is the text cut to so many bytes, at a whole character, with a mark where something was cut.
func clip(text string, most int) string {
	return shownNUL(cut(text, most))
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// oneLine is the text on one line, clipped.
func oneLine(text string, most int) string {
	return strings.Join(strings.Fields(clip(text, most)), " ")
}

const (
	// maxWhole is how long a text may be that a page shows cut, and has whole under the pointer, in bytes.
	maxWhole = 4 << 10
	// maxNarrow is how long a text may be that is shown whole in the narrowest column.
	maxNarrow = 40
)

// short is the text clipped, with the whole under the pointer where it may be cut: here, or by a column that is too narrow.
func short(text string, most int) template.HTML { return withWhole(clip(text, most), text) }

// shortLine is short on one line.
func shortLine(text string, most int) template.HTML { return withWhole(oneLine(text, most), text) }

func withWhole(shown, whole string) template.HTML {
	title := ""
	if len(whole) > maxNarrow || shown != whole {
		title = ` title="` + template.HTMLEscapeString(clip(whole, maxWhole)) + `"`
	}
	return template.HTML("<bdi" + title + ">" + template.HTMLEscapeString(shown) + "</bdi>")
}

// operationID is an operation that a sentence of ours names.
var operationID = regexp.MustCompile(`\b[Oo]peration ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b`)

// withOperation is a text in which the operation that it names leads to its page.
func withOperation(text string) template.HTML {
	found := operationID.FindStringSubmatchIndex(text)
	if found == nil {
		return template.HTML(template.HTMLEscapeString(text))
	}
	id := text[found[2]:found[3]]
	return template.HTML(template.HTMLEscapeString(text[:found[2]]) + `<a href="/operations/` + id + `">` + id + `</a>` + template.HTMLEscapeString(text[found[3]:]))
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

// nameList is a list of names, each quoted, on one line and clipped; names behind the first most are counted.
func nameList(names []string, most int) string {
	if len(names) == 0 {
		return "none"
	}
	var shown []string
	for _, n := range names[:min(len(names), most)] {
		shown = append(shown, fmt.Sprintf("%q", oneLine(n, 100)))
	}
	list := strings.Join(shown, ", ")
	if more := len(names) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}
