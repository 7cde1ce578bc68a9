package cli

import "github.com/postrider/postrider/cmd/internal/api"

// given is api.OrNull, for the commands that do not use package api yet.
func given[T comparable](v T) *T { return api.OrNull(v) }
