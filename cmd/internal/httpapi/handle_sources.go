package httpapi

import (
	"context"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// rejoinSource leads a source back that is stopped.
func (s *Services) rejoinSource(ctx context.Context, r *Request) (any, error) {
	var b rejoinBody
	if err := r.optional(&b); err != nil {
		return nil, err
	}
	name, err := s.sourceAdmin(r)
	if err != nil {
		return nil, err
	}
	done, err := s.SourceAdmin.Rejoin(ctx, dlq.RejoinRequest{Source: name, WithoutLetters: b.WithoutLetters, Actor: r.Actor.Name}, b.DryRun)
	if err != nil {
		return nil, err
	}
	return api.NewRejoin(done), nil
}

// forgetSource says that a source is gone for good.
func (s *Services) forgetSource(ctx context.Context, r *Request) (any, error) {
	if err := r.optional(&nothing{}); err != nil {
		return nil, err
	}
	name, err := s.sourceAdmin(r)
	if err != nil {
		return nil, err
	}
	done, err := s.SourceAdmin.Forget(ctx, name, r.Actor.Name)
	if err != nil {
		return nil, err
	}
	return api.NewForgottenSource(done), nil
}

// sourceAdmin returns the name in the path of a change of a source, where this process can make one.
func (s *Services) sourceAdmin(r *Request) (string, error) {
	if err := r.unread(); err != nil {
		return "", err
	}
	name, err := r.part("name")
	if err == nil && s.SourceAdmin == nil {
		err = refuse(Unavailable, "this process changes no sources; ask postrider serve, or run postrider sources")
	}
	return name, err
}
