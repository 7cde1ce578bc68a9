package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
)

// fetchOriginal asks for the record that the newest letter of an investigation points to.
func (s *Services) fetchOriginal(ctx context.Context, r *Request) (any, error) {
	began := time.Now()
	id, err := r.bare("id")
	if err != nil {
		return nil, err
	}
	if s.Fetcher == nil {
		return nil, refuse(Unavailable, "this server has no brokers to ask; use postrider dlq fetch, or a server with kafka.brokers")
	}
	done, err := s.Fetcher.Fetch(ctx, []uuid.UUID{id}, r.Actor.Name)
	if err != nil {
		return nil, err
	}
	f := done[0]
	s.say("dlq.fetch", began, "state", string(f.State), "actor", r.Actor.Name, "request_id", r.Actor.RequestID)
	return api.NewFetched(f), nil
}
