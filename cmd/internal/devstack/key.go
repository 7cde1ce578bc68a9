package devstack

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/app"
)

// maker is who the key of a run was made by.
const maker = "postrider dev"

// makeKey makes the API key of this run, with all scopes, and a one-time link to the web console for it. The keys
// of earlier runs, which cannot be shown again, are revoked, and their sessions end. The key is empty where the API is not
// served, and the link where the console is not.
func makeKey(ctx context.Context, a *app.App, console bool) (token, link string, err error) {
	if a.Services() == nil {
		return "", "", nil
	}
	ctx = access.WithActor(ctx, access.Actor{Name: maker})
	store := a.Services().Access
	keys, err := store.List(ctx)
	if err != nil {
		return "", "", fmt.Errorf("list API keys: %w", err)
	}
	for _, k := range keys {
		if k.CreatedBy == maker && k.RevokedAt == nil {
			if _, err := store.Revoke(ctx, k.ID); err != nil {
				return "", "", fmt.Errorf("revoke the API key of an earlier run: %w", err)
			}
		}
	}
	key, token, err := store.Create(ctx, access.NewKey{Name: "dev", Scopes: []access.Scope{access.Admin}})
	if err != nil {
		return "", "", fmt.Errorf("make an API key: %w", err)
	}
	if console {
		if link, _, err = store.Link(ctx, access.NewLink{KeyID: key.ID, ExpiresIn: linkAge}); err != nil {
			return "", "", fmt.Errorf("make a link to the web console: %w", err)
		}
	}
	return token, link, nil
}

// linkAge is for how long the link of a run works: the terminal may be looked at again after a coffee.
const linkAge = time.Hour

// prefixed is nothing for nothing.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
