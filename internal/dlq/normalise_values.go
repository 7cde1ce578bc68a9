package dlq

import (
	"slices"
	"strings"
)

// What is a value in an error message, and what is a code.

// isIdentity reports whether a run of letters and digits is made as identities are: eight or more hexadecimal digits, an
// address, sixteen or more letters and digits, or one that changes often between the two, or between large and small.
func isIdentity(run string) bool {
	if len(run) > 3 && run[0] == '0' && run[1]|0x20 == 'x' {
		return true
	}
	digits, hex, changes, pieces := 0, true, 0, 1
	if !hasDigit(run) {
		return false
	}
	for i := range len(run) {
		if digit(run[i]) {
			digits++
		}
		hex = hex && hexadecimal(run[i])
		if i > 0 && digit(run[i]) != digit(run[i-1]) {
			changes++
		}
		if i > 0 && kindOfCharacter(run[i]) != kindOfCharacter(run[i-1]) && !(kindOfCharacter(run[i-1]) == 'A' && kindOfCharacter(run[i]) == 'a') {
			pieces++ // a large letter before small ones begins a word of a name, which has more letters
		}
	}
	return digits < len(run) && (hex && len(run) >= 8 || len(run) >= 16 || len(run) >= 5 && changes >= 3 || len(run) >= 8 && 2*len(run) < 5*pieces)
}

func hasDigit(run string) bool {
	for i := range len(run) {
		if digit(run[i]) {
			return true
		}
	}
	return false
}

// kindOfCharacter is A for large letters, a for small ones, and 0 for digits.
func kindOfCharacter(c byte) byte {
	switch {
	case digit(c):
		return '0'
	case 'A' <= c && c <= 'Z':
		return 'A'
	}
	return 'a'
}

// isLoose reports whether a run behind an identity belongs to it: the end of the name of a pod has no vowels, and a nanoid
// has large letters anywhere.
func isLoose(run string) bool {
	if hasDigit(run) || len(run) <= 3 {
		return true
	}
	return len(run) == 5 && !strings.ContainsAny(run, "aeiouAEIOU") || strings.ToLower(run[1:]) != run[1:] && strings.ToUpper(run) != run
}

// isHash reports whether a run is the hash of an object: up to sixteen hexadecimal digits in small letters.
func isHash(run string) bool {
	for i := range len(run) {
		if !digit(run[i]) && (run[i] < 'a' || run[i] > 'f') {
			return false
		}
	}
	return len(run) <= 16
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

// valueWords stand before a value in parentheses.
var valueWords = strings.Fields("value key row input record constraint")

// isNumbered reports whether a word is a number with a prefix in large letters, as SKU-17 and SYS_C0017712 are, and no code.
func (n *normaliser) isNumbered(start, end int) bool {
	w := strings.TrimRight(n.text[start:end], ".:")
	if w == "" || w[0] < 'A' || w[0] > 'Z' || !strings.ContainsAny(w, "-_") {
		return false
	}
	parts := strings.FieldsFunc(w, func(r rune) bool { return r == '-' || r == '_' })
	if len(parts) < 2 || n.isCode(start+len(w)-len(parts[len(parts)-1]), start+len(w)) {
		return false
	}
	numbered := false
	for i, part := range parts {
		for j := range len(part) {
			if !digit(part[j]) && (part[j] < 'A' || part[j] > 'Z') {
				return false
			}
		}
		named := !hasDigit(part)
		if named && (numbered || len(part) > 8) || i == 0 && !named {
			return false
		}
		numbered = numbered || !named
	}
	return numbered
}

// isAddress reports whether the content of brackets is an address of IPv6.
func isAddress(content string) bool {
	return strings.Count(content, ":") > 1 && strings.Trim(content, "0123456789abcdefABCDEF:.") == ""
}

// isHostPort reports whether the content of parentheses is a host and its port.
func isHostPort(content string) bool {
	_, port, found := strings.Cut(content, ":")
	return found && port != "" && digitsEnd(port, 0) == len(port)
}

var calendar = strings.Fields("UTC GMT CET CEST EET EEST EST EDT CST CDT MST MDT PST PDT BST IST JST Mon Tue Wed Thu Fri Sat Sun Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")

// isCalendar reports whether a word is the name of a day or a month in a date.
func (n *normaliser) isCalendar(start, end int) bool {
	if end-start > 4 || n.text[start] < 'A' || n.text[start] > 'Z' || !slices.Contains(calendar, n.text[start:end]) {
		return false
	}
	rest := strings.TrimLeft(n.text[end:], " ,")
	return rest != "" && digit(rest[0]) || len(rest) >= 3 && slices.Contains(calendar, rest[:3]) ||
		start > 1 && n.text[start-1] == ' ' && digit(n.text[start-2])
}

func isEmail(w string) bool {
	if strings.IndexByte(w, '@') < 0 {
		return false
	}
	name, host, found := strings.Cut(strings.TrimRight(w, ".:"), "@")
	return found && name != "" && strings.Contains(strings.Trim(host, "."), ".")
}

// measured is the placeholder of a word that is a duration (1m30s) or a size (10MB); empty for another.
func measured(w string) string {
	w = strings.TrimRight(w, ".:")
	placeholder := ""
	for w != "" {
		i := digitsEnd(w, 0)
		if i > 0 && i+1 < len(w) && w[i] == '.' {
			i = digitsEnd(w, i+1)
		}
		unit := i
		for unit < len(w) && alphabetic(w[unit]) {
			unit++
		}
		switch w[i:unit] {
		case "ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "sec", "min":
			placeholder = "<duration>"
		case "B", "kB", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB":
			placeholder = "<size>"
		default:
			return ""
		}
		if i == 0 {
			return ""
		}
		w = w[unit:]
	}
	return placeholder
}

// behindID reports whether what begins at i is the value of an id: id: 17, orderId=17.
func (n *normaliser) behindID(i int) bool {
	j := i
	for j > 0 && n.text[j-1] == ' ' {
		j--
	}
	if j == 0 || n.text[j-1] != ':' && n.text[j-1] != '=' {
		return false
	}
	j--
	for j > 0 && (n.text[j-1] == ' ' || n.text[j-1] == '"') {
		j--
	}
	end := j
	for j > 0 && (alphanumeric(n.text[j-1]) || n.text[j-1] == '_') {
		j--
	}
	name := n.text[j:end]
	stem, cased := strings.CutSuffix(name, "Id")
	if !cased {
		stem, cased = strings.CutSuffix(name, "ID")
	}
	name = strings.ToLower(name)
	return cased && (stem == "" || 'a' <= stem[len(stem)-1] && stem[len(stem)-1] <= 'z') || name == "id" || name == "uuid" ||
		name == "guid" || strings.HasSuffix(name, "_id")
}

// wordsBefore returns the word before i, and the one before that, in small letters.
func (n *normaliser) wordsBefore(i int) (word, before string) {
	back := func() string {
		for i > 0 && strings.IndexByte(" =:([#\"'-", n.text[i-1]) >= 0 {
			i--
		}
		end := i
		for i > 0 && end-i < 32 && (alphanumeric(n.text[i-1]) || n.text[i-1] == '_' || n.text[i-1] == '/' || n.text[i-1] == '.' ||
			n.text[i-1] == '-') {
			i--
		}
		return strings.ToLower(n.text[i:end])
	}
	word = back()
	return word, back()
}

// statuses are what responses say beside their status.
var statuses = []string{"not found", "service unavailable", "bad gateway", "gateway time", "internal server error", "bad request",
	"unauthorized", "forbidden",
	"conflict", "too many requests", "unprocessable", "method not allowed", "request time", "gone", "precondition", "payload too large",
	"request entity too large", "content too large", "unsupported media", "not acceptable", "moved permanently", "not implemented", "client error", "server error",
	"locked", "payment required"}

// isCode reports whether the run from i to stop is a number that tells causes apart, and no value. It is told by the words
// around it.
func (n *normaliser) isCode(i, stop int) bool {
	run := n.text[i:stop]
	digits := digitsEnd(run, 0)
	if digits != len(run) {
		return hasDigit(run) && isSQLState(run) && n.isState(i, stop) || len(run) == 6 && run[0] == 'E' && digitsEnd(run, 1) == 6 // of MongoDB
	}
	if digits == 0 || digits > 5 || stop+1 < len(n.text) && n.text[stop] == '.' && digit(n.text[stop+1]) {
		return false
	}
	status := digits == 3 && '1' <= run[0] && run[0] <= '5'
	if status && isStatusText(n.text[stop:]) {
		return true
	}
	word, before := n.wordsBefore(i)
	switch word {
	case "http", "status", "statuscode", "status_code", "status-code", "httpstatus", "http_status", "sqlcode", "errno", "errorcode", "error_code", "errcode":
		return true
	case "code":
		return digits <= 3 && !strings.HasSuffix(n.text[:i], "' (code ") ||
			slices.Contains([]string{"error", "status", "exit", "response", "return", "result", "vendor", "sql", "reply"}, before)
	case "error", "err", "ora", "tns", "pls":
		return digits >= 3
	case "returned", "response", "responded", "received", "got", "answered", "with":
		return status && run[0] >= '4'
	case "":
		return status && run[0] >= '4' && strings.HasPrefix(n.text[stop:], ":") || n.isState(i, stop)
	}
	return strings.HasPrefix(word, "http/") || n.isState(i, stop)
}

// isStatusText reports whether a text behind a number says what a status says.
func isStatusText(text string) bool {
	text = strings.TrimLeft(text[:min(len(text), 40)], " :([-\"'")
	return slices.ContainsFunc(statuses, func(s string) bool { return len(text) >= len(s) && strings.EqualFold(text[:len(s)], s) })
}

// isState reports whether the run from i to stop is where an SQLSTATE stands: behind that word, at the beginning, or
// behind the number of MySQL's error.
func (n *normaliser) isState(i, stop int) bool {
	if !isSQLState(n.text[i:stop]) {
		return false
	}
	word, before := n.wordsBefore(i)
	switch {
	case word == "sqlstate" || word == "state" && before == "sql":
		return true
	case word == "":
		return stop < len(n.text) && (n.text[stop] == ':' || n.text[stop] == ']')
	}
	return before == "error" && digitsEnd(word, 0) == len(word)
}

// stateClasses are the first two characters of SQLSTATEs.
var stateClasses = strings.Fields("00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 20 21 22 23 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 40 42 44 53 54 55 57 58 72 F0 HV HY IM P0 S0 S1 XX")

func isSQLState(s string) bool {
	if len(s) != 5 || !slices.Contains(stateClasses, s[:2]) {
		return false
	}
	for i := range len(s) {
		if !digit(s[i]) && (s[i] < 'A' || s[i] > 'Z') {
			return false
		}
	}
	return true
}

// isErrorTuple reports whether the content of parentheses is a number and a text.
func isErrorTuple(content string) bool {
	end := digitsEnd(content, 0)
	return end >= 3 && end <= 5 && (strings.HasPrefix(content[end:], `, "`) || strings.HasPrefix(content[end:], `, '`))
}

// tellsCode reports whether the content of brackets names a code or a reason, which stay.
func tellsCode(content string) bool {
	content = strings.ToLower(content)
	return slices.ContainsFunc([]string{"sqlstate", "errno", "status", "code", "type=", "reason=", "error=", "message="},
		func(word string) bool { return strings.Contains(content, word) })
}

// gistKeys are the members of JSON that say what is wrong.
var gistKeys = strings.Fields("type code error status reason message exception title errorcode error_code")

// maxGist is how many members jsonGist takes.
const maxGist = 4

// jsonGist is a text for JSON, which may be cut: of its members the ones that say what is wrong, normalised. It is empty if
// there are none.
func jsonGist(text string) string {
	var told []string
	for i := 0; i < len(text) && len(told) < maxGist; i++ {
		if quote := text[i]; quote == '"' || quote == '\'' {
			content, length := quotedText(text[i:])
			i += length - 1
			rest, isKey := strings.CutPrefix(strings.TrimLeft(text[i+1:], " "), ":")
			if !isKey || !slices.Contains(gistKeys, strings.ToLower(content)) {
				continue
			}
			rest = strings.TrimLeft(rest, " ")
			said := ""
			if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
				said, length = quotedText(rest)
				i = len(text) - len(rest) + length - 1
			} else {
				said = rest[:tokenEnd(rest)]
			}
			if digitsEnd(said, 0) < len(said) || len(said) > 5 { // a code stays
				inner := normaliser{text: said}
				inner.run()
				said = inner.out.String()
			}
			if said = strings.TrimSpace(said); said != "" && said[0] != '{' && said[0] != '[' && !slices.Contains(told, said) {
				told = append(told, said)
			}
		}
	}
	if len(told) == 0 {
		return ""
	}
	return "{" + strings.Join(told, ", ") + "}"
}

// quotedText is the text in the quotes that another begins with, and how long it is with them. The end may be missing.
func quotedText(text string) (content string, length int) {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return text[1:i], i + 1
		}
	}
	return text[1:], len(text)
}
