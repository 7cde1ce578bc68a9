package dlq

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// MaxComment is how long a comment may be, in bytes.
const MaxComment = 16 << 10

// ErrNotAuthor is wrapped by errors about deleting a comment that another person wrote.
var ErrNotAuthor = errors.New("only its author can delete a comment")

// Thread names the comments of an investigation or of a group: one of the fields is set.
type Thread struct {
	// Entry is the investigation, or uuid.Nil.
	Entry uuid.UUID
	// Group is the group, or uuid.Nil.
	Group uuid.UUID
}

// Subject says what the comments are about, in the words of the audit log: entry or group, and its id.
func (t Thread) Subject() (kind string, id uuid.UUID) {
	if t.Group != uuid.Nil {
		return "group", t.Group
	}
	return "entry", t.Entry
}

// String names the subject for errors.
func (t Thread) String() string {
	if t.Group != uuid.Nil {
		return "group " + t.Group.String()
	}
	return "investigation " + t.Entry.String()
}

// Comment is what a person wrote about an investigation or a group.
type Comment struct {
	// ID is higher for a later comment, from 1.
	ID int64
	// Author is who wrote it, by the name that the audit log has.
	Author string
	// AuthorID is which person of that name: that person alone can delete it.
	AuthorID string
	// Text is what was written; empty once it is deleted.
	Text string
	// CreatedAt is when it was written.
	CreatedAt time.Time
	// DeletedAt is when its author deleted it; zero while it is there.
	DeletedAt time.Time
}

// NewComment is a comment to write.
type NewComment struct {
	// Thread is what it is about. Required.
	Thread Thread
	// Text is UTF-8 text of at most MaxComment bytes, not only spaces. Required.
	Text string
	// Actor is who writes it. Required.
	Actor string
	// ActorID is which person of that name. Defaults to Actor.
	ActorID string
}

// Check reports why a comment is invalid.
func (c NewComment) Check() error {
	switch {
	case c.Actor == "":
		return fmt.Errorf("%w: the actor is missing", ErrRequest)
	case (c.Thread.Entry == uuid.Nil) == (c.Thread.Group == uuid.Nil):
		return fmt.Errorf("%w: a comment is about an investigation or about a group", ErrRequest)
	case strings.TrimSpace(c.Text) == "":
		return fmt.Errorf("%w: text is empty; it must say something", ErrRequest)
	}
	return plain("text", c.Text, MaxComment)
}
