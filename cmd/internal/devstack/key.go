package devstack

import (
	"context"
	"fmt"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/app"
)

// maker is who the key of a run was made by.
const maker = "postrider dev"

// makeKey makes the API key of this run, with all scopes. The keys of earlier runs, which cannot be shown again,
// are revoked. It is empty where the API is not served.
func makeKey(ctx context.Context, a *app.App) (string, error) {
	if a.Services() == nil {
		return "", nil
	}
	ctx = access.WithActor(ctx, access.Actor{Name: maker})
	store := a.Services().Access
	keys, err := store.List(ctx)
	if err != nil {
		return "", fmt.Errorf("list API keys: %w", err)
	}
	for _, k := range keys {
		if k.CreatedBy == maker && k.RevokedAt == nil {
			if _, err := store.Revoke(ctx, k.ID); err != nil {
				return "", fmt.Errorf("revoke the API key of an earlier run: %w", err)
			}
		}
	}
	_, token, err := store.Create(ctx, access.NewKey{Name: "dev", Scopes: []access.Scope{access.Admin}})
	if err != nil {
		return "", fmt.Errorf("make an API key: %w", err)
	}
	return token, nil
}

// prefixed is nothing for nothing.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
