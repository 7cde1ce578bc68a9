package httpapi

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
)

// reaches say for routes which sources a caller needs, by the first part of their path. What is not here is of the whole
// installation.
var reaches = map[string]Reach{
	"dlq": PerSource, "groups": PerSource, "operations": PerSource, "commands": PerSource, "sources": PerSource, "audit": PerSource, "me": PerSource,
	"status": OwnDatabase, "series": OwnDatabase, "outbox": OwnDatabase, "holds": OwnDatabase,
	"tasks": OwnDatabase, "archive": OwnDatabase, "detector": OwnDatabase, "templates": OwnDatabase,
}

// things are what {id} names behind the first part of a path.
var things = map[string]dlq.Thing{"dlq": dlq.AnEntry, "groups": dlq.AGroup, "operations": dlq.AnOperation}

// reach sets Reach and Of of a route.
func (r *Route) reach() {
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	if r.Reach = reaches[first]; strings.HasPrefix(rest, "{id}") {
		r.Of = things[first]
	}
	switch r.Method + " " + r.Path {
	case "GET /dlq/{id}": // takes the id of a task, too
		r.Of = ""
	case "POST /sources/{name}/rejoin", "POST /sources/{name}/forget": // about settings and brokers that all sources share
		r.Reach = WholeInstallation
	}
}

// RefuseSources returns the refusal of what needs a reach; nil if these sources suffice. who is the name of the key or the person.
func (r Reach) RefuseSources(sources access.Sources, who string) error {
	switch {
	case r == WholeInstallation && !sources.All():
		return refuse(Forbidden, "this is about the whole installation and needs all sources; %q has the sources: %s", who, sources)
	case r == OwnDatabase && !sources.Has(dlq.MainSource):
		return refuse(Forbidden, "this is in the desk's own database and needs the source %s; %q has the sources: %s", dlq.MainSource, who, sources)
	}
	return nil
}

// seen refuses the id of a route's path if the caller does not see what it names.
func (s *Services) seen(of dlq.Thing, handle func(context.Context, *Request) (any, error)) func(context.Context, *Request) (any, error) {
	return func(ctx context.Context, r *Request) (any, error) {
		if dlq.SourcesOf(ctx) == nil {
			return handle(ctx, r)
		}
		id, err := r.id("id")
		if err != nil {
			return nil, err
		}
		if err := dlq.CheckSeen(ctx, s.Investigations, of, id); err != nil {
			return nil, err
		}
		return handle(ctx, r)
	}
}

// entryIDs reads 1 to limit ids of investigations that the caller sees. One that is given twice counts once.
func (s *Services) entryIDs(ctx context.Context, texts []string, limit int) ([]uuid.UUID, error) {
	ids, err := distinctIDs(texts, limit)
	if err != nil {
		return nil, err
	}
	return ids, dlq.CheckSeen(ctx, s.Investigations, dlq.AnEntry, ids...)
}

// mayTarget refuses the name of a topic as the target of what a person with some sources alone sends again: the desk's own outbox may
// write to topics of all sources.
func mayTarget(r *Request, target string) error {
	if target == "" || target == dlq.TargetGroup || target == dlq.TargetOrigin || r.Actor.Sources.Has(dlq.MainSource) {
		return nil
	}
	return refuse(Forbidden, "sending to a topic by its name needs the source %s; %q has the sources: %s. Leave the target out, or give %s or %s",
		dlq.MainSource, r.Actor.Name, r.Actor.Sources, dlq.TargetOrigin, dlq.TargetGroup)
}
