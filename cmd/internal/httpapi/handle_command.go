package httpapi

import (
	"context"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// listCommands lists what other sources were asked to do, and what came of it.
func (s *Services) listCommands(ctx context.Context, r *Request) (any, error) {
	size, err := s.size(r)
	if err != nil {
		return nil, err
	}
	f := dlq.CommandFilter{Limit: size + 1}
	if f.Source, err = r.text("source"); err != nil {
		return nil, err
	}
	if f.Source != "" && !dlq.ValidSource(f.Source) {
		return nil, refuse(Validation, "parameter source is %q; it must be %s", shown(f.Source), dlq.WantSource)
	}
	if f.State, err = oneOf(r, "state", "", dlq.CommandStates()...); err != nil {
		return nil, err
	}
	if f.Before, err = r.place("after"); err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	found, err := s.Redriver.Commands(ctx, f)
	if err != nil {
		return nil, err
	}
	return api.PageOf(api.NewCommand, found, size, api.CommandPlace), nil
}
