package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/dlq"
)

// acting is shared by commands that change something: it says who does it.
type acting struct{ person string }

// actor binds the flag --actor.
func (c *commands) actor(cmd *cobra.Command, at *acting) {
	cmd.Flags().StringVar(&at.person, "actor", c.user(), "`who` does it, for the audit log, beside the user of the database")
}

// user is who the environment says is at the keyboard.
func (c *commands) user() string {
	for _, name := range []string{"USER", "LOGNAME", "USERNAME"} {
		for _, entry := range c.environ {
			if user, found := strings.CutPrefix(entry, name+"="); found && user != "" {
				return user
			}
		}
	}
	return ""
}

// withServices runs do with the services of the desk, in the name of the database's user. rights says how to get the
// rights that are missing.
func (c *commands) withServices(ctx context.Context, at acting, rights string, do func(ctx context.Context, d *app.Services, actor string) error) error {
	return c.withServicesOf(ctx, at, rights, false, do)
}

// withTracedServices is withServices for what makes spans.
func (c *commands) withTracedServices(ctx context.Context, at acting, rights string, do func(ctx context.Context, d *app.Services, actor string) error) error {
	return c.withServicesOf(ctx, at, rights, true, do)
}

func (c *commands) withServicesOf(ctx context.Context, at acting, rights string, traced bool, do func(ctx context.Context, d *app.Services, actor string) error) error {
	if strings.ContainsFunc(at.person, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(at.person) > 100 || !isText(at.person) {
		return usagef("the name of who does it (--actor) must be at most 100 bytes of UTF-8 text on one line")
	}
	cfg, err := c.load(inWords, "database.url")
	if err != nil {
		return err
	}
	pool, err := app.OpenPool(ctx, cfg.Database, 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	var spans trace.TracerProvider
	if traced {
		log, err := obs.NewLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
		if err != nil {
			return err
		}
		provider, stop, err := app.Trace(ctx, cfg.Tracing, log)
		if err != nil {
			return err
		}
		defer stop()
		spans = provider
	}
	return explain(inNameOf(ctx, pool, cfg, spans, at, do), rights)
}

func inNameOf(ctx context.Context, pool *pgxpool.Pool, cfg config.Config, spans trace.TracerProvider, at acting, do func(ctx context.Context, d *app.Services, actor string) error) error {
	d, err := app.NewTracedServices(pool, cfg, spans)
	if err != nil {
		return err
	}
	user, err := d.Access.SessionUser(ctx)
	if err != nil {
		return err
	}
	actor := "cli:" + user
	if at.person != "" {
		actor += " (" + at.person + ")"
	}
	return asked(do(access.WithActor(ctx, access.Actor{Name: actor}), d, actor))
}

// asked turns errors about a request into mistakes of the caller.
func asked(err error) error {
	switch {
	case errors.Is(err, dlq.ErrRequest), errors.Is(err, access.ErrInvalid), errors.Is(err, actions.ErrRequest):
		return &usageError{err}
	}
	return err
}

// unknownActor stands for the actor while a request is checked: the database has the name, and is not asked yet.
const unknownActor = "not known yet"

// toldLimit is how long the row behind it may take.
const toldLimit = 10 * time.Second

// told does work that is not one transaction. It writes a row of the audit log before the work and one with the result
// after it. If the first row cannot be written, nothing is done.
func told[T any](ctx context.Context, d *app.Services, action, kind string, do func() (T, error)) (done T, err error) {
	if err := d.Access.Look(ctx, action, kind, "", access.Sources{dlq.MainSource}, map[string]any{"stage": "begun"}); err != nil {
		return done, err
	}
	done, err = do()
	details := map[string]any{"stage": "ended", "result": done}
	if err != nil {
		details["failed"] = true
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), toldLimit)
	defer cancel()
	return done, errors.Join(err, d.Access.Look(ending, action, kind, "", access.Sources{dlq.MainSource}, details))
}

// identities reads the ids of arguments, each once.
func identities(what, list string, args []string) ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, 0, len(args))
	seen := map[uuid.UUID]bool{}
	for _, arg := range args {
		id, err := parseID(arg, what, list)
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			ids, seen[id] = append(ids, id), true
		}
	}
	return ids, nil
}

// entries reads the ids of investigations from arguments, each once, after the flags of the output were checked.
func (o *output) entries(args []string) ([]uuid.UUID, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return identities("an investigation", listsEntries, args)
}

// parseAge reads how long ago something is: 30d, or a duration as Go writes it, for example 36h.
func parseAge(flag, s string) (time.Duration, error) {
	if days, found := strings.CutSuffix(s, "d"); found {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, usagef("--%s is %q; it must be a time such as 36h or 30d", flag, shorten(s, 60))
	}
	return d, nil
}

// parsePastTime reads a time, or how long ago it was; empty is none.
func parsePastTime(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	d, err := parseAge(flag, s)
	if err != nil {
		return time.Time{}, usagef("--%s is %q; it must be a time such as 2026-01-31T12:00:00Z, or how long ago, such as 36h or 30d", flag, shorten(s, 60))
	}
	return time.Now().Add(-d), nil
}
