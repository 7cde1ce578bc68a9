package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
)

// rejoinLimit bounds what leads a source back.
const rejoinLimit = time.Minute

// RejoinSource leads a source of the settings back, in the name of req.Actor; req.Desk is found out. With dry it says what
// would be done. A source that the settings do not name is an error that wraps dlq.ErrNotFound.
func RejoinSource(ctx context.Context, c config.Config, desk *Services, req dlq.RejoinRequest, dry bool) (found dlq.Rejoin, err error) {
	ctx, cancel := context.WithTimeout(ctx, rejoinLimit)
	defer cancel()
	pool, err := openSource(ctx, c, req.Source)
	if err != nil {
		return found, err
	}
	defer pool.Close()
	if err := desk.pool.QueryRow(ctx, "select source_uuid::text from postrider.outbox_source").Scan(&req.Desk); err != nil {
		return found, fmt.Errorf("read the identity of the desk: %w", err)
	}
	var name string
	if err := pool.QueryRow(ctx, "select coalesce(name, '') from postrider.outbox_source").Scan(&name); err != nil {
		return found, fmt.Errorf("source %s: %w", req.Source, err)
	}
	if name != "" && name != req.Source {
		return found, fmt.Errorf("%w: its database is the source %s and not %s. If it is a copy that is to be a source of its own, run `postrider sources rejoin %s --new-identity`", dlq.ErrSource, name, req.Source, req.Source)
	}
	if dry {
		return desk.Redriver.PlanRejoin(ctx, req, pool)
	}
	return desk.Redriver.Rejoin(ctx, req, pool)
}

// openSource connects to a source of the settings.
func openSource(ctx context.Context, c config.Config, name string) (*pgxpool.Pool, error) {
	i := slices.IndexFunc(c.Sources, func(s config.Source) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: the settings name no source %q", dlq.ErrNotFound, name)
	}
	pool, err := OpenPool(ctx, c.Sources[i].Database, 2)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", name, err)
	}
	return pool, nil
}

// NewIdentity makes the copy of a database an outbox of its own, which has the name that the settings give it. backlog is send
// or leave: see the function outbox_new_identity.
func NewIdentity(ctx context.Context, c config.Config, source, backlog string) (was, is string, err error) {
	ctx, cancel := context.WithTimeout(ctx, rejoinLimit)
	defer cancel()
	pool, err := openSource(ctx, c, source)
	if err != nil {
		return "", "", err
	}
	defer pool.Close()
	if err := pool.QueryRow(ctx, "select coalesce(s.name, 'main') from postrider.outbox_source s").Scan(&was); err != nil {
		return "", "", fmt.Errorf("source %s: %w", source, err)
	}
	if was == source {
		return was, "", fmt.Errorf("%w: this database is the source %s already; a copy needs a name in the settings that no source had before", dlq.ErrSource, source)
	}
	err = pool.QueryRow(ctx, "select i.source_uuid::text from postrider.outbox_new_identity($1, null, $2) i", source, backlog).Scan(&is)
	if err != nil {
		err = fmt.Errorf("source %s: %w", source, err)
	}
	return was, is, err
}

// CheckSources returns an error that wraps dlq.ErrNotFound and names the first source that neither the settings nor the desk know.
func CheckSources(ctx context.Context, c config.Config, desk *Services, sources access.Sources) error {
	for _, source := range sources {
		if source == dlq.AllSources || source == dlq.MainSource || c.NamesSource(source) {
			continue
		}
		known, err := desk.Redriver.KnowsSource(ctx, source)
		if err == nil && !known {
			err = fmt.Errorf("%w: neither the settings nor the desk know a source %q", dlq.ErrNotFound, source)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MayForget reports why a source cannot be forgotten. One that the settings name is an error that wraps dlq.ErrSource.
func MayForget(ctx context.Context, c config.Config, desk *Services, source string) error {
	if i := slices.IndexFunc(c.Sources, func(s config.Source) bool { return s.Name == source }); i >= 0 {
		return fmt.Errorf("%w: the settings name the source %s at %s; take it out there first, and wait until the running processes have read that", dlq.ErrSource, source, c.Sources[i].Origin())
	}
	known, err := desk.Redriver.KnowsSource(ctx, source)
	if err == nil && !known {
		err = fmt.Errorf("%w: the desk knows no source %q", dlq.ErrNotFound, source)
	}
	return err
}

// ForgetSource says that a source is gone for good, if it MayForget.
func ForgetSource(ctx context.Context, c config.Config, desk *Services, source, actor string) (dlq.ForgottenSource, error) {
	if err := MayForget(ctx, c, desk, source); err != nil {
		return dlq.ForgottenSource{}, err
	}
	return desk.Redriver.ForgetSource(ctx, source, actor)
}

// sourceAdmin is what the API does with sources.
type sourceAdmin struct{ app *App }

// Rejoin implements httpapi.SourceAdmin.
func (s sourceAdmin) Rejoin(ctx context.Context, req dlq.RejoinRequest, dry bool) (dlq.Rejoin, error) {
	return RejoinSource(ctx, s.app.settingsNow(), s.app.services, req, dry)
}

// Forget implements httpapi.SourceAdmin.
func (s sourceAdmin) Forget(ctx context.Context, source, actor string) (dlq.ForgottenSource, error) {
	return ForgetSource(ctx, s.app.settingsNow(), s.app.services, source, actor)
}
