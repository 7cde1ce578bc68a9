package api

import (
	"strconv"
	"time"

	"github.com/postrider/postrider/internal/dlq"
)

// Comment is what a person wrote about an investigation or a group.
type Comment struct {
	// ID is its number; a later comment has a higher one.
	ID int64 `json:"comment_id"`
	// Author is who wrote it, by the name that the audit log has. The author alone can delete it.
	Author string `json:"author"`
	// AuthorID is which person of that name it is, for the console.
	AuthorID string `json:"-"`
	// Text is what was written; null once it is deleted.
	Text *string `json:"text"`
	// CreatedAt is when it was written.
	CreatedAt time.Time `json:"created_at"`
	// DeletedAt is when its author deleted it; null while it is there.
	DeletedAt *time.Time `json:"deleted_at"`
}

// NewComment is a comment as it is shown.
func NewComment(c dlq.Comment) Comment {
	return Comment{ID: c.ID, Author: c.Author, AuthorID: c.AuthorID, Text: OrNull(c.Text), CreatedAt: Time(c.CreatedAt), DeletedAt: TimeOrNull(c.DeletedAt)}
}

// NewCommentList is a page of at most size comments; found has one more where the thread goes on.
func NewCommentList(found []dlq.Comment, size int) List[Comment] {
	return PageOf(NewComment, found, size, func(c dlq.Comment) string { return strconv.FormatInt(c.ID, 10) })
}
