package httpapi

import (
	"context"
	"mime"
	"strings"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/task"
)

func (s *Services) listTemplates(ctx context.Context, r *Request) (any, error) {
	namespace, err := r.text("namespace")
	if err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	found, err := s.Tasks.Ledger().Templates(ctx, namespace)
	return api.All(api.TemplateOf, found), err
}

func (s *Services) getTemplate(ctx context.Context, r *Request) (any, error) {
	version, err := r.text("version")
	if err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	namespace, err := r.part("namespace")
	if err != nil {
		return nil, err
	}
	name, err := r.part("name")
	if err != nil {
		return nil, err
	}
	found, err := s.Tasks.Ledger().Template(ctx, namespace, name, version)
	return api.TemplateOf(found), err
}

// applyTemplate takes a template as YAML or JSON, as in a file.
func (s *Services) applyTemplate(ctx context.Context, r *Request) (any, error) {
	environment, err := r.text("environment")
	if err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && (media == "application/json" || media == "application/yaml" || media == "application/x-yaml" || media == "text/yaml"):
	case err == nil && (strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+yaml")):
	default:
		return nil, refuse(UnsupportedMedia, "the body's Content-Type is %q; it must be application/yaml or application/json", shown(r.Header.Get("Content-Type")))
	}
	t, err := task.Parse("body", r.Body)
	if err == nil && environment != "" {
		if _, known := t.Environments[environment]; !known {
			return nil, refuse(Validation, "the template has no environment %q", shown(environment))
		}
		t, err = t.In(environment)
	}
	if err != nil {
		return nil, err
	}
	done, err := s.Tasks.ApplyTemplates(ctx, r.Actor.Name, t)
	if err != nil {
		return nil, err
	}
	if done[0].Outcome == ledger.AppliedNew {
		return Created{done[0]}, nil
	}
	return done[0], nil
}
