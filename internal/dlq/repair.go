package dlq

import (
	"fmt"
	"slices"

	"github.com/postrider/postrider/message"
)

// Repair gives headers to messages with headers that cannot be read (see Letter.InvalidHeaders) or have a name that no
// writer may send. Other messages keep theirs.
type Repair struct {
	// Headers are added to the headers that can be read, and replace the ones of the same name.
	Headers []message.Header
	// None sends these messages without headers; then there are no Headers.
	None bool
}

// Apply returns the headers that a message gets; readable are its headers that can be read. It has none of ours.
func (p Repair) Apply(readable []message.Header) []message.Header {
	out := []message.Header{}
	if p.None {
		return out
	}
	for _, h := range readable {
		given := slices.ContainsFunc(p.Headers, func(g message.Header) bool { return g.Name == h.Name })
		if !given && !message.Reserved(h.Name) && message.ValidHeaderName(h.Name) == nil {
			out = append(out, h)
		}
	}
	return append(out, p.Headers...)
}

// Check reports why a repair is invalid, in errors that wrap ErrRequest.
func (p Repair) Check() error {
	if p.None == (len(p.Headers) > 0) {
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
