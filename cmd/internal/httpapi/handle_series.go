package httpapi

import (
	"context"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/series"
)

func (s *Services) getSeries(ctx context.Context, r *Request) (any, error) {
	span, err := oneOf(r, "span", series.Short, series.Short, series.Long)
	if err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	found, err := s.Series.Series(ctx, span)
	return api.NewSeries(span, found), err
}
