package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// thread makes the thread of what has an id.
type thread func(id uuid.UUID) dlq.Thread

func entryThread(id uuid.UUID) dlq.Thread { return dlq.Thread{Entry: id} }
func groupThread(id uuid.UUID) dlq.Thread { return dlq.Thread{Group: id} }

// listComments lists a thread, the oldest comment first.
func (s *Services) listComments(of thread) func(context.Context, *Request) (any, error) {
	return func(ctx context.Context, r *Request) (any, error) {
		id, err := r.id("id")
		if err != nil {
			return nil, err
		}
		size, err := s.size(r)
		if err != nil {
			return nil, err
		}
		after, err := r.place("after")
		if err != nil {
			return nil, err
		}
		if err := r.unread(); err != nil {
			return nil, err
		}
		found, err := s.Investigations.Comments(ctx, of(id), after, size+1)
		if err != nil {
			return nil, err
		}
		return api.NewCommentList(found, size), nil
	}
}

func (s *Services) addComment(of thread) func(context.Context, *Request) (any, error) {
	return func(ctx context.Context, r *Request) (any, error) {
		id, err := r.id("id")
		if err != nil {
			return nil, err
		}
		var b commentBody
		if err := r.body(&b); err != nil {
			return nil, err
		}
		c, err := s.Investigations.AddComment(ctx, dlq.NewComment{Thread: of(id), Text: b.Text, Actor: r.Actor.Name, ActorID: r.Actor.PersonID()})
		if err != nil {
			return nil, err
		}
		return Created{api.NewComment(c)}, nil
	}
}

// deleteComment takes away the text of a comment of the caller.
func (s *Services) deleteComment(of thread) func(context.Context, *Request) (any, error) {
	return func(ctx context.Context, r *Request) (any, error) {
		id, err := r.id("id")
		if err != nil {
			return nil, err
		}
		comment, err := r.row("comment")
		if err != nil {
			return nil, err
		}
		if err := r.unread(); err != nil {
			return nil, err
		}
		c, err := s.Investigations.DeleteComment(ctx, of(id), comment, r.Actor.Name, r.Actor.PersonID())
		if err != nil {
			return nil, err
		}
		return api.NewComment(c), nil
	}
}
