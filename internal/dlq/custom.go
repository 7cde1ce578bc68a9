package dlq

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/message"
)

// CustomHeaders are the names of the headers in which a program of the user's own writes what its dead letters say. Each
// field lists names; the first header that is there counts. Numbers are decimal text. The zero value names none.
type CustomHeaders struct {
	// Topic, Partition and Offset are where the message came from.
	Topic, Partition, Offset []string
	// Timestamp is the time of that record, in Unix milliseconds or as in RFC 3339.
	Timestamp []string
	// Group is the consumer group that failed.
	Group []string
	// Attempts is how often it was tried.
	Attempts []string
	// Code is what kind of error it was, Error its message, Stack its stack trace.
	Code, Error, Stack []string
}

// maxCustomName is how long the name of a header may be, in bytes.
const maxCustomName = 255

// customFields are the names of the fields, in order.
var customFields = []string{"topic", "partition", "offset", "timestamp", "group", "attempts", "code", "error", "stack"}

func (c *CustomHeaders) fields() map[string][]string {
	return map[string][]string{"topic": c.Topic, "partition": c.Partition, "offset": c.Offset, "timestamp": c.Timestamp,
		"group": c.Group, "attempts": c.Attempts, "code": c.Code, "error": c.Error, "stack": c.Stack}
}

// names are all names.
func (c *CustomHeaders) names() (all []string) {
	for _, names := range c.fields() {
		all = append(all, names...)
	}
	return all
}

// String is the same for the same names; empty without any.
func (c *CustomHeaders) String() string {
	var text strings.Builder
	fields := c.fields()
	for _, field := range customFields {
		if names := fields[field]; len(names) > 0 {
			fmt.Fprintf(&text, "%s=%q ", field, names)
		}
	}
	return strings.TrimSpace(text.String())
}

// Check reports why they cannot be read.
func (c *CustomHeaders) Check() error {
	used, fields := map[string]string{}, c.fields()
	for _, field := range customFields {
		for _, name := range fields[field] {
			switch {
			case name == "" || len(name) > maxCustomName:
				return fmt.Errorf("a header of %s has a name of %d bytes; it must have 1 to %d", field, len(name), maxCustomName)
			case message.Reserved(name):
				return fmt.Errorf("the header %s of %s is Postrider's own, and is read without being named", name, field)
			case used[name] != "":
				return fmt.Errorf("the header %s is named for %s and for %s; name it once", name, used[name], field)
			}
			used[name] = field
		}
	}
	if len(used) > 0 && len(c.Topic) == 0 && len(c.Error) == 0 {
		return errors.New("dead letters are known by their header of topic or of error: name one of them")
	}
	return nil
}

// Decoder returns the function that reads dead letters of these names and of all that Decode knows, and tells whose they are. They
// are of DialectCustom. Headers that were named win over the dialects that are known anyway. What the names say is worked out
// here, once, and not for each record.
func (c CustomHeaders) Decoder(whose Whose) func(Record) Letter {
	names := c.names()
	if len(names) == 0 {
		return func(r Record) Letter { return whose.letter(r, decode(r)) }
	}
	d := foreignDialect{DialectCustom, slices.Concat(c.Topic, c.Error), named(names...), c.read}
	return func(r Record) Letter {
		if !ours(r.Headers) && !aboutTask(r.Headers) {
			if l, ok := decodeForeignAs(r, d); ok {
				return whose.letter(r, l)
			}
		}
		return whose.letter(r, decode(r))
	}
}

// read takes out of the headers what they say.
func (c *CustomHeaders) read(f *foreign, l *Letter) {
	name := func(names []string) string {
		for _, n := range names {
			if _, there := f.values[n]; there {
				return n
			}
		}
		return ""
	}
	f.origin(l, decimal, name(c.Topic), name(c.Partition), name(c.Offset))
	at := name(c.Timestamp)
	if l.CreatedAt = f.millis(decimal, at); l.CreatedAt.IsZero() {
		if t, err := time.Parse(time.RFC3339, string(f.first(at))); err == nil {
			l.CreatedAt = storableTime(t)
		}
	}
	l.ConsumerGroup = f.text(name(c.Group), maxNameBytes)
	f.attempts(l, decimal, name(c.Attempts))
	f.failure(l, name(c.Error), name(c.Stack), name(c.Code))
}
