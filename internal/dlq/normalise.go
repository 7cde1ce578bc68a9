package dlq

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxNormalised is how much of a normalised message counts for its group, in bytes: what comes after is detail.
	maxNormalised = 200
	// maxRead is how much of a message is read for it, in bytes.
	maxRead = 2 << 10
)

// Normalise replaces in an error message what varies from case to case, so that messages of one cause are the same. It is
// fast, because it is asked for each investigation: two passes, and no regular expressions.
//
// Values go: quoted texts, texts in parentheses that are values, numbers (10.0.0.1:9092 is one), identities, hashes of
// objects, times, durations, sizes, addresses of e-mail, and the query of a URL. Numbers and identities become #, because
// the id of one order may be 17 and that of another a uuid. Numbers that are codes stay, because they tell causes apart:
// the status of an HTTP response, an SQLSTATE, an errno. Of JSON the type, the code and the reason stay. Runs of spaces
// become one.
func Normalise(message string) string { return normalise(message, false) }

// normalise is Normalise. With names, quoted names stay: two messages that differ in these are told apart.
func normalise(message string, names bool) string {
	n := normaliser{text: singleSpaced(message), names: names}
	n.out.Grow(min(len(n.text), maxNormalised+64))
	n.run()
	return strings.TrimRight(cut(n.out.String(), maxNormalised), " ")
}

// singleSpaced is the beginning of a text with one space for each run of spaces and control characters.
func singleSpaced(text string) string {
	if isSingleSpaced(text) {
		return text
	}
	var b strings.Builder
	b.Grow(min(len(text), maxRead))
	space := true // leading spaces go
	for i := 0; i < len(text) && b.Len() < maxRead; i++ {
		if text[i] > ' ' {
			b.WriteByte(text[i])
		} else if !space {
			b.WriteByte(' ')
		}
		space = text[i] <= ' '
	}
	return strings.ToValidUTF8(strings.TrimRight(b.String(), " "), "")
}

// isSingleSpaced reports whether a text is short, and is so already.
func isSingleSpaced(text string) bool {
	if len(text) > maxRead || text == "" || text[0] == ' ' || text[len(text)-1] == ' ' {
		return false
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] == ' ' && text[i-1] == ' ' {
			return false
		}
	}
	return utf8.ValidString(text)
}

// normaliser is one text in work.
type normaliser struct {
	text  string
	names bool
	out   strings.Builder
}

func (n *normaliser) run() {
	for i := 0; i < len(n.text) && n.out.Len() < maxNormalised; {
		switch c := n.text[i]; {
		case c == '"' || c == '\'' || c == '`':
			i = n.quoted(i)
		case c == '(' || c == '[' || c == '{':
			i = n.bracketed(i)
		case c == '?' && n.queryAt(i+1):
			n.out.WriteString("?…")
			i += tokenEnd(n.text[i:])
		case inWord(c):
			end := i + 1
			for end < len(n.text) && (inWord(n.text[end]) || between(n.text, end)) {
				end++
			}
			i = n.word(i, end)
		default:
			n.out.WriteByte(c)
			i++
		}
	}
}

// write normalises a part of the text by itself.
func (n *normaliser) write(part string) {
	inner := normaliser{text: part, names: n.names}
	inner.run()
	n.out.WriteString(inner.out.String())
}

// queryAt reports whether a query of a URL begins at i.
func (n *normaliser) queryAt(i int) bool {
	name := i
	for i < len(n.text) && (inWord(n.text[i]) || n.text[i] == '%') {
		i++
	}
	return i > name && i < len(n.text) && n.text[i] == '='
}

// tokenEnd is where a value without spaces ends.
func tokenEnd(text string) int {
	if end := strings.IndexAny(text, " \"'`,;)]}>"); end >= 0 {
		return end
	}
	return len(text)
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func alphabetic(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80 }

func alphanumeric(c byte) bool { return digit(c) || alphabetic(c) }

func hexadecimal(c byte) bool { return digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func inWord(c byte) bool {
	return digit(c) || alphabetic(c) || c == '-' || c == '_' || c == '.' || c == ':' || c == '@'
}

// between reports whether the character at i is the apostrophe of "can't", and not a quote, or a plus in a word.
func between(text string, i int) bool {
	return (text[i] == '\'' || text[i] == '+') && i > 0 && alphanumeric(text[i-1]) && i+1 < len(text) && alphanumeric(text[i+1])
}

// word writes a word, which is a run of letters, digits and -_.:@, with what varies in it replaced. It returns where it
// has come to; a number and an identity may go on behind the word.
func (n *normaliser) word(start, end int) int {
	w := n.text[start:end]
	switch {
	case isDate(w), n.isCalendar(start, end):
		n.out.WriteString("<time>")
		return end
	case isEmail(w):
		n.out.WriteString("<email>")
		return end
	case n.isNumbered(start, end):
		n.out.WriteByte('#')
		return start + len(strings.TrimRight(w, ".:"))
	}
	identified := false
	i := start
	for i < end {
		c := n.text[i]
		if !alphanumeric(c) {
			sign := c == '-' && i == start && i+1 < end && digit(n.text[i+1])
			if !sign || n.isCode(i+1, digitsEnd(n.text, i+1)) {
				n.out.WriteByte(c)
			}
			i++
			continue
		}
		stop := i + 1
		for stop < end && alphanumeric(n.text[stop]) {
			stop++
		}
		run := n.text[i:stop]
		switch {
		case n.behindID(i):
			n.number()
			return i + max(tokenEnd(n.text[i:]), 1)
		case i+36 <= end && isUUID(n.text[i:i+36]) && (i+36 == end || !alphanumeric(n.text[i+36])):
			n.number()
			i += 36
		case i > start && n.text[i-1] == '@' && isHash(run): // of an object, or an offset
			n.number()
			i = stop
		case n.isCode(i, stop):
			n.out.WriteString(run)
			i = stop
		case digit(c) && measured(n.text[i:end]) != "":
			n.out.WriteString(measured(n.text[i:end]))
			i += len(strings.TrimRight(n.text[i:end], ".:"))
		case isIdentity(run), identified && isLoose(run):
			n.number()
			identified, i = true, stop
		default:
			i = n.numbers(i, stop)
		}
	}
	return i
}

// number writes #. A number behind a number in one word is a part of it: an identity may have several.
func (n *normaliser) number() {
	if out := n.out.String(); len(out) > 1 && out[len(out)-2] == '#' && strings.IndexByte("-_.:", out[len(out)-1]) >= 0 {
		n.out.Reset()
		n.out.WriteString(out[:len(out)-2])
	}
	n.out.WriteByte('#')
}

// numbers writes the run from i to stop with each number as #, and returns where it has come to: a number goes on over a
// dot or colon when a digit follows, over a comma when three do, and over an exponent.
func (n *normaliser) numbers(i, stop int) int {
	for i < stop {
		if !digit(n.text[i]) {
			n.out.WriteByte(n.text[i])
			i++
			continue
		}
		n.number()
		for i < len(n.text) {
			next := digitsEnd(n.text, i)
			switch rest := n.text[next:]; {
			case len(rest) > 1 && (rest[0] == '.' || rest[0] == ':') && digit(rest[1]):
				i = next + 1
				continue
			case len(rest) > 3 && rest[0] == ',' && digitsEnd(rest, 1) == 4:
				i = next + 1
				continue
			case len(rest) > 1 && rest[0]|0x20 == 'e' && exponent(rest) > 0:
				next += exponent(rest)
			}
			i = next
			break
		}
	}
	return i
}

// exponent is the length of the exponent that a text begins with; 0 if it begins with none.
func exponent(text string) int {
	first := 1
	if text[1] == '+' || text[1] == '-' {
		first = 2
	}
	end := digitsEnd(text, first)
	if end == first || end < len(text) && alphanumeric(text[end]) {
		return 0
	}
	return end
}

// digitsEnd is where the digits from i on end.
func digitsEnd(text string, i int) int {
	for i < len(text) && digit(text[i]) {
		i++
	}
	return i
}

// quoted writes a placeholder for the quoted text at i, and returns where it ends. A quote that nothing closes stands
// for itself. Names of program code stay: they are no values.
func (n *normaliser) quoted(i int) int {
	quote, rest := n.text[i], n.text[i+1:]
	if isBody(rest) {
		end := strings.LastIndexByte(rest, quote)
		if end < 0 {
			end = len(rest)
		}
		n.out.WriteByte(quote)
		n.out.WriteString(cmp.Or(jsonGist(rest[:end]), "…"))
		n.out.WriteByte(quote)
		return min(i+end+2, len(n.text))
	}
	end := 0
	for end < len(rest) && (rest[end] != quote || between(rest, end)) {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		n.out.WriteByte(quote)
		return i + 1
	}
	n.out.WriteByte(quote)
	if content := rest[:end]; n.isName(i, end, content) {
		n.write(content)
	} else {
		n.out.WriteString("…")
	}
	n.out.WriteByte(quote)
	return i + end + 2
}

// isBody reports whether a quoted text is the body of a response: JSON or HTML.
func isBody(text string) bool {
	for _, begin := range []string{"{", `["`, "[{", "<!", "<?", "<html", "<HTML"} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}

// isName reports whether what is quoted at i, and is as long as end says, is a name that stays.
func (n *normaliser) isName(i, end int, content string) bool {
	if content == "" || strings.ContainsAny(content, " =@\\/") {
		return false
	}
	word, before := n.wordsBefore(i)
	switch {
	case n.names, n.text[i] == '`':
		return true
	case word == "invoke" || word == "because" || word == "attribute" || word == "reading": // of Java, Python and Node
		return true
	case word == "header": // another header is another fault, and another repair
		return true
	case word == "field":
		return before == "read" || before == "assign"
	case word == "of":
		return before == "value" && strings.HasSuffix(content, ")")
	}
	return strings.HasPrefix(n.text[i+end+2:], " object has no attribute")
}

// bracketed writes what is in brackets at i, or a placeholder for it, and returns where it has come to.
func (n *normaliser) bracketed(i int) int {
	open := n.text[i]
	if rest, isSource := strings.CutPrefix(n.text[i:], "[Source:"); isSource { // of Jackson, with a piece of the payload
		n.out.WriteString("[Source]")
		_, behind, _ := strings.Cut(rest, ", column: ")
		_, behind, _ = strings.Cut(behind, "]")
		return len(n.text) - len(behind)
	}
	end := closing(n.text, i)
	if open == '{' {
		if end < 0 {
			end = len(n.text) - 1
		}
		if part := n.text[i : end+1]; strings.ContainsAny(part, `:="`) {
			n.out.WriteString(cmp.Or(jsonGist(part), "{…}"))
			return end + 1
		}
	}
	if end < 0 || open == '{' {
		n.out.WriteByte(open)
		return i + 1
	}
	content, placeholder := n.text[i+1:end], string(open)+"…"+n.text[end:end+1]
	word, _ := n.wordsBefore(i)
	alone := !strings.Contains(content, " ")
	switch {
	case isAddress(content): // of IPv6
		n.number()
		end++
		if end < len(n.text) && n.text[end] == ':' {
			end++
		}
		return digitsEnd(n.text, end)
	case strings.HasPrefix(n.text[end+1:], "=("): // the columns of PostgreSQL's Key (email)=(ada)
		n.out.WriteByte(open)
		n.write(content)
		n.out.WriteByte(n.text[end])
		return end + 1
	case i > 0 && n.text[i-1] == '=', word == "contains" || word == "values" || word == "parameters",
		alone && open == '(' && n.spaceBefore(i) && (slices.Contains(valueWords, word) || isHostPort(content)),
		strings.HasSuffix(n.text[:i], "]: "), strings.HasSuffix(n.text[:i], "value is "): // what Feign quotes of a response; SQL Server
		n.out.WriteString(placeholder)
		return end + 1
	case i == 0 && open == '(' && isErrorTuple(content): // of Python's drivers: (1062, "Duplicate entry")
		comma := strings.IndexByte(content, ',')
		n.out.WriteString("(" + content[:comma+1] + " ")
		n.write(content[comma+3 : len(content)-1])
		n.out.WriteByte(')')
		return end + 1
	case strings.ContainsAny(content, "=,;") && !strings.Contains(content, ": ") && !tellsCode(content):
		n.out.WriteString(placeholder)
		return end + 1
	}
	n.out.WriteByte(open)
	return i + 1
}

func (n *normaliser) spaceBefore(i int) bool { return i == 0 || n.text[i-1] == ' ' }

// closing is where the bracket at i is closed, -1 if it is not.
func closing(text string, i int) int {
	open, shut := text[i], byte(')')
	if open != '(' {
		shut = open + 2 // as ] and } are in ASCII
	}
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
