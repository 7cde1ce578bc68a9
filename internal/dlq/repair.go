package dlq

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider/message"
)

// Repair gives headers to messages with headers that cannot be read (see Letter.InvalidHeaders) or have a name that no
// writer may send. Other messages keep theirs. A message with other such headers than the given ones is skipped.
type Repair struct {
	// Headers are added to the headers that can be read, and replace the ones of the same name.
	Headers []message.Header
	// AsText sends each header that cannot be read, and is not among Headers, as the text of its own value: 5 as "5", [1, 2] as
	// "[1, 2]".
	AsText bool
	// None sends these messages without headers; then there are no Headers, and nothing is sent as text.
	None bool
}

// Apply returns the headers that a message gets; readable are its headers that can be read. It has none of ours.
func (p Repair) Apply(readable []message.Header) []message.Header {
	out := []message.Header{}
	if p.None {
		return out
	}
	keep := func(h message.Header) {
		if !p.gives(h.Name) && !message.Reserved(h.Name) && message.ValidHeaderName(h.Name) == nil {
			out = append(out, h)
		}
	}
	for _, h := range readable {
		keep(h)
		if p.AsText && h.Name == message.HeaderInvalidHeaders {
			asText, _ := unreadableHeaders(h.Value)
			for _, own := range asText {
				if own.Value != nil {
					keep(own)
				}
			}
		}
	}
	return append(out, p.Headers...)
}

// gives reports whether a header is among Headers.
func (p Repair) gives(name string) bool {
	return slices.ContainsFunc(p.Headers, func(g message.Header) bool { return g.Name == name })
}

// Texts are the names of a message's headers that cannot be read and have a text of their own, which AsText sends. hs are the
// headers of its letter.
func (p Repair) Texts(hs []message.Header) []string {
	var names []string
	for _, h := range hs {
		if !p.AsText || h.Name != message.HeaderInvalidHeaders {
			continue
		}
		asText, _ := unreadableHeaders(h.Value)
		for _, own := range asText {
			if own.Value != nil && !message.Reserved(own.Name) {
				names = append(names, own.Name)
			}
		}
	}
	return names
}

// CheckTexts refuses Headers with the names of texts: two values would be asked for, and one would go unseen. texts are what
// Texts returns of all messages.
func (p Repair) CheckTexts(texts []string) error {
	var both []string
	for _, name := range texts {
		if p.gives(name) && !slices.Contains(both, name) {
			both = append(both, name)
		}
	}
	if len(both) == 0 {
		return nil
	}
	slices.Sort(both)
	quoted := make([]string, len(both))
	for i, name := range both {
		quoted[i] = strconv.Quote(name)
	}
	return fmt.Errorf("%w: a value is given for the header %s, and each header that cannot be read is to be sent as the text of its own value, too: leave one of the two out",
		ErrRequest, strings.Join(quoted, " and the header "))
}

// maxNames is how many names of headers Names returns at most.
const maxNames = 100

// Names are the first names of the headers that it changes, sorted: what it gives, and texts, which are what Texts returns of
// all messages.
func (p Repair) Names(texts []string) []string {
	names := slices.Clone(texts)
	for _, h := range p.Headers {
		names = append(names, h.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxNames)]
}

// Mends reports whether nothing of a message gets lost without being named: each of its headers that cannot be read, or that
// has a name which no writer may send, is given or sent as text, or all headers are to go. hs are the headers of its letter.
func (p Repair) Mends(hs []message.Header) bool {
	if p.None {
		return true
	}
	lost := func(h message.Header) bool {
		return (!p.AsText || h.Value == nil) && !message.Reserved(h.Name) && !p.gives(h.Name)
	}
	for _, h := range hs {
		switch {
		case h.Name == message.HeaderInvalidHeaders:
			if unread, all := unreadableHeaders(h.Value); !all || slices.ContainsFunc(unread, lost) {
				return false
			}
		case message.ValidHeaderName(h.Name) != nil: // no repair can name it
			return false
		}
	}
	return true
}

// unreadableHeaders returns the headers that cannot be read among headers as their event has them, in their order, each with
// the text of its value; nil where it has none, or several. all is false where some have no name, or where the text is cut or is none of headers: then there may
// be others.
func unreadableHeaders(raw []byte) (hs []message.Header, all bool) {
	pairs, are := headerPairs(raw)
	if !are {
		return nil, false
	}
	for _, one := range pairs {
		alone, _ := json.Marshal([][]json.RawMessage{one})
		if _, err := message.ReadableHeaders(alone); err == nil {
			continue
		}
		var name string
		if len(one) == 0 || json.Unmarshal(one[0], &name) != nil || message.ValidHeaderName(name) != nil {
			return nil, false
		}
		h := message.Header{Name: name}
		if len(one) == 2 {
			h.Value = jsonText(one[1])
		}
		hs = append(hs, h)
	}
	return hs, true
}

// jsonText is a text without its quotes, and any other value as JSON.
func jsonText(raw json.RawMessage) []byte {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return []byte(*text)
	}
	return raw
}

// headerPairs are names and values of headers in their order: from an array of pairs, or the members of an object. False
// for anything else.
func headerPairs(raw []byte) (pairs [][]json.RawMessage, are bool) {
	if json.Unmarshal(raw, &pairs) == nil {
		return pairs, true
	}
	if !json.Valid(raw) {
		return nil, false
	}
	object := json.NewDecoder(bytes.NewReader(raw))
	if begin, _ := object.Token(); begin != json.Delim('{') {
		return nil, false
	}
	pairs = nil
	for object.More() {
		name, _ := object.Token() // the whole is valid
		var value json.RawMessage
		_ = object.Decode(&value)
		quoted, _ := json.Marshal(name) // a text always can be
		pairs = append(pairs, []json.RawMessage{quoted, value})
	}
	return pairs, true
}

// Check reports why a repair is invalid, in errors that wrap ErrRequest.
func (p Repair) Check() error {
	switch {
	case p.None && (p.AsText || len(p.Headers) > 0):
		return fmt.Errorf("%w: headers are given or sent as the text of their own values, and all headers are to be left out: choose one of the two", ErrRequest)
	case !p.None && !p.AsText && len(p.Headers) == 0:
		return fmt.Errorf("%w: give headers for what has unreadable ones, or none", ErrRequest)
	}
	return checkHeaders(p.Headers)
}

// checkHeaders says which headers cannot be given to a message.
func checkHeaders(hs []message.Header) error {
	for _, h := range hs {
		if err := message.ValidHeaderName(h.Name); err != nil {
			return fmt.Errorf("%w: %w", ErrRequest, err)
		}
		if message.Reserved(h.Name) {
			return fmt.Errorf("%w: header %q belongs to postrider", ErrRequest, h.Name)
		}
	}
	return nil
}
