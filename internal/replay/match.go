package replay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/postrider/postrider/internal/dlq"
)

// matchNames are what a condition may be about, beside header:NAME.
var matchNames = []string{"error", "class", "topic", "group", "key"}

// Match is a condition on a dead letter, for example error=*timeout* or header:tenant=acme.
type Match struct {
	text   string
	name   string // of matchNames, or header
	header string
	not    bool
	glob   *regexp.Regexp
}

// ParseMatch reads a condition: NAME=GLOB holds when the glob fits, NAME!=GLOB when it does not. The names are error
// (the code or the message must fit), class, topic (where the message came from), group (the consumer group that
// failed), key, and header:NAME (one header of that name on the letter must fit). A glob must fit the whole text: * is
// any characters, ? exactly one, a backslash makes either itself. A value that the letter does not have is the empty
// text; a header that it does not have fits nothing. Errors wrap ErrRequest.
func ParseMatch(s string) (Match, error) {
	fail := func(format string, args ...any) (Match, error) {
		return Match{}, fmt.Errorf("%w: the condition %q "+format, append([]any{ErrRequest, s}, args...)...)
	}
	name, pattern, found := strings.Cut(s, "=")
	if !found {
		return fail("has no =; write NAME=GLOB, such as error=*timeout*")
	}
	m := Match{text: s}
	name, m.not = strings.CutSuffix(name, "!")
	switch header, ofHeader := strings.CutPrefix(name, "header:"); {
	case ofHeader && header == "":
		return fail("names no header; write header:NAME=GLOB")
	case ofHeader:
		m.name, m.header = "header", header
	case slices.Contains(matchNames, name):
		m.name = name
	default:
		return fail("is about %q, which is not known; there are %s and header:NAME", name, strings.Join(matchNames, ", "))
	}
	var err error
	if m.glob, err = parseGlob(pattern); err != nil {
		return fail("is broken: %v", err)
	}
	return m, nil
}

// String returns the condition as it was given.
func (m Match) String() string { return m.text }

// fits reports whether the condition holds for a letter that was read from this record.
func (m Match) fits(r *dlq.Record, l *dlq.Letter) bool { return m.found(r, l) != m.not }

func (m Match) found(r *dlq.Record, l *dlq.Letter) bool {
	switch m.name {
	case "error":
		return m.glob.MatchString(l.ErrorCode) || m.glob.MatchString(l.ErrorMessage)
	case "class":
		return m.glob.MatchString(l.ErrorClass)
	case "topic":
		return m.glob.MatchString(l.OriginTopic)
	case "group":
		return m.glob.MatchString(l.ConsumerGroup)
	case "key":
		return m.glob.MatchString(string(l.Key))
	}
	for i := range r.Headers {
		if h := &r.Headers[i]; h.Name == m.header && m.glob.MatchString(string(h.Value)) {
			return true
		}
	}
	return false
}
