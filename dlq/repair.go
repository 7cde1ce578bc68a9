package dlq

import (
	"fmt"
	"slices"

	"github.com/postrider/postrider/relay/outbox"
)

// Repair says what headers messages get of which some cannot be read; see Letter.InvalidHeaders. Others keep theirs.
type Repair struct {
	// Headers are added to those that can be read, in place of those of the same name.
	Headers []outbox.Header
	// None sends such messages without headers; then there are no Headers.
	None bool
}

// Apply returns the headers of a message of which these can be read. It has none of ours.
func (p Repair) Apply(readable []outbox.Header) []outbox.Header {
	out := []outbox.Header{}
	if p.None {
		return out
	}
	for _, h := range readable {
		given := slices.ContainsFunc(p.Headers, func(g outbox.Header) bool { return g.Name == h.Name })
		if !given && !outbox.Reserved(h.Name) {
			out = append(out, h)
		}
	}
	return append(out, p.Headers...)
}

// Check says what is wrong with it, in errors that wrap ErrRequest.
func (p Repair) Check() error {
	if p.None == (len(p.Headers) > 0) {
		return fmt.Errorf("%w: give headers for what has unreadable ones, or none", ErrRequest)
	}
	return checkHeaders(p.Headers)
}

// checkHeaders says which headers cannot be given to a message.
func checkHeaders(hs []outbox.Header) error {
	for _, h := range hs {
		if err := outbox.ValidHeaderName(h.Name); err != nil {
			return fmt.Errorf("%w: %w", ErrRequest, err)
		}
		if outbox.Reserved(h.Name) {
			return fmt.Errorf("%w: header %q belongs to postrider", ErrRequest, h.Name)
		}
	}
	return nil
}
