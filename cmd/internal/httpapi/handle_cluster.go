package httpapi

import (
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

const (
	// clusterAge is for how long one answer of the brokers is for every request.
	clusterAge = 5 * time.Second
	// sourcesAge is for how long one look at the sources does.
	sourcesAge = 5 * time.Second
	// reportAge is for how long one examination does.
	reportAge = 30 * time.Second
	// ReportLimit is how long an examination may take: checks of a server that does not answer wait for it.
	ReportLimit = time.Minute
)

func (s *Services) listTopics(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	if s.Cluster == nil {
		return nil, refuse(Unavailable, "this process does not ask the brokers for topics; ask postrider serve")
	}
	return s.topics.get(ctx, s.Cluster.Topics)
}

func (s *Services) listConsumers(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	if s.Cluster == nil {
		return nil, refuse(Unavailable, "this process does not ask the brokers for consumer groups; ask postrider serve")
	}
	return s.consumers.get(ctx, func(ctx context.Context) (api.ConsumerGroups, error) {
		used, err := s.topics.get(ctx, s.Cluster.Topics)
		if err != nil {
			return api.ConsumerGroups{}, err
		}
		return s.Cluster.Consumers(ctx, used)
	})
}

func (s *Services) examine(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	if s.Examine == nil {
		return nil, refuse(Unavailable, "this process does not examine what it depends on; ask postrider serve, or run postrider doctor")
	}
	return s.report.get(ctx, s.Examine)
}

func (s *Services) listSources(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	return s.lookAtSources(ctx)
}

func (s *Services) getSource(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	name, err := r.part("name")
	if err != nil {
		return nil, err
	}
	found, err := s.lookAtSources(ctx)
	if err != nil {
		return nil, err
	}
	for _, source := range found.Items {
		if source.Name == name {
			return source, nil
		}
	}
	return nil, refuse(NotFound, "no source is called %q; GET /v1/sources lists them", shown(name))
}

func (s *Services) lookAtSources(ctx context.Context) (api.Sources, error) {
	if s.Sources == nil {
		return api.Sources{}, refuse(Unavailable, "this process does not look at sources; ask postrider serve, or run postrider sources")
	}
	found, err := s.sources.get(ctx, s.Sources)
	if limit := dlq.SourcesOf(ctx); limit != nil { // what is shared is of all sources, and is not changed
		found.Items = slices.DeleteFunc(slices.Clone(found.Items), func(one api.Source) bool { return !slices.Contains(limit, one.Name) })
		for i := range found.Items {
			if reason := found.Items[i].Reason; reason != nil && (*reason == "copy" || *reason == "name") { // the error names another
				found.Items[i].Error = new("its database has, or copies, the outbox of another source; a person with all sources sees which")
			}
		}
	}
	return found, err
}
