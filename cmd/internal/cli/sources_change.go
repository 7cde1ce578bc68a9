package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/dlq"
)

func (c *commands) sourcesRejoin() *cobra.Command {
	var out output
	var at acting
	var sure confirmation
	var dry, identity bool
	var backlog string
	req := dlq.RejoinRequest{}
	cmd := &cobra.Command{
		Use:   "rejoin NAME",
		Short: "Lead a source back that is stopped: one of the databases was set back, moved, copied or forgotten",
		Long: `A source is stopped when its database was restored or failed over with a loss (rewound), when that of the desk was
(desk_rewound), when another database has its name (identity, copy), or when it was forgotten. Then nothing is sent for
it and nothing to it. This command says what the one database has and the other has not, asks, and leads it back:

- Of commands that the source answered and that are undone in it, redrives are forgotten, so that their investigations
  can be redriven again. What closes an event is sent again.
- Redrives that the source carried out and the desk does not know are noted at their investigations.
- The database that has the name now counts as the source. The old one must not come back.

Running it again finds nothing to do. See docs/restoring.md for the steps before it.

With --new-identity the database of NAME is a copy of another source, and becomes a source of its own. NAME is then a
name that no source had before. --backlog says what becomes of the copied events that have not gone: send sends them
from the copy, too, with the event ids that they have; leave counts them as the original's. This needs no
database.url, a login that owns the schema (--config FILE), and no relay that leads the copy.

Exit codes: 0 done, or nothing to do; 1 failed; 2 wrong command line or setting.`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if len(args) != 1 {
				return usagef("name one source; postrider sources lists them")
			}
			req.Source = args[0]
			if identity || backlog != "" {
				return c.newIdentity(cmd, &sure, req.Source, identity, backlog, dry)
			}
			cfg, err := c.load(nil)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				req.Actor = actor
				plan, err := app.RejoinSource(ctx, cfg, d, req, true)
				if err != nil {
					return noSource(err)
				}
				view := api.NewRejoin(plan)
				show := func() error {
					return out.print(c.stdout, view, func(w io.Writer) error { return rejoinText(w, view) })
				}
				if dry || plan.Nothing() {
					return show()
				}
				if !sure.yes {
					if err := rejoinText(cmd.ErrOrStderr(), view); err != nil {
						return err
					}
					if err := sure.ask(cmd, fmt.Sprintf("The source %s will be led back.", req.Source)); err != nil {
						return err
					}
				}
				if plan, err = app.RejoinSource(ctx, cfg, d, req, false); err != nil {
					return noSource(err)
				}
				view = api.NewRejoin(plan)
				return show()
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "change nothing: say what would be done")
	cmd.Flags().BoolVar(&req.WithoutLetters, "without-letters", false, "also where the desk lacks dead letters of what the source redrove: these may be sent twice")
	cmd.Flags().BoolVar(&identity, "new-identity", false, "make the database, a copy, a source of its own")
	cmd.Flags().StringVar(&backlog, "backlog", "", "with --new-identity: send or leave the events that the copy has and that have not gone")
	sure.bind(cmd)
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

// newIdentity makes a copy a source of its own.
func (c *commands) newIdentity(cmd *cobra.Command, sure *confirmation, source string, identity bool, backlog string, dry bool) error {
	switch {
	case !identity:
		return usagef("--backlog goes with --new-identity")
	case dry:
		return usagef("--dry-run does not go with --new-identity, which asks before it changes anything")
	case backlog != "send" && backlog != "leave":
		return usagef("--backlog is %q; say send, to send from the copy, too, what it has and what has not gone, or leave, to count that as the original's", shorten(backlog, 40))
	case !dlq.ValidSource(source) || source == dlq.MainSource:
		return usagef("%q is no name for a source; it must be %s, and not main", shorten(source, 60), dlq.WantSource)
	}
	cfg, err := c.load(nil)
	if err != nil {
		return err
	}
	what := "Its events that have not gone, its holds and its exceptions will count as the original's."
	if backlog == "send" {
		what = "Its events that have not gone will be sent from it, too."
	}
	if err := sure.ask(cmd, fmt.Sprintf("The database of %s, a copy, will be a source of its own. %s", source, what)); err != nil {
		return err
	}
	was, is, err := app.NewIdentity(cmd.Context(), cfg, source, backlog)
	if err != nil {
		return noSource(err)
	}
	_, err = fmt.Fprintf(c.stdout, "The copy of %s is the source %s now, the outbox %s.\n", was, source, is)
	return err
}

// noSource says what to do about errors about sources.
func noSource(err error) error {
	switch {
	case errors.Is(err, dlq.ErrNotFound):
		return fmt.Errorf("%w; postrider sources lists them", err)
	case strings.Contains(err.Error(), "42501"):
		return fmt.Errorf("%w; the login of the source that --config FILE gives must own its schema", err)
	}
	return err
}

// rejoinText says what leads a source back, or what did.
func rejoinText(w io.Writer, r api.Rejoin) error {
	if r.Reason == nil && !r.Copied {
		_, err := fmt.Fprintf(w, "The source %s is not stopped. There is nothing to do.\n", r.Source)
		return err
	}
	if r.Copied {
		fmt.Fprintf(w, "The database of %s is another one than the one that was named: it was moved, or it is a copy, which needs --new-identity.\n", r.Source)
	}
	if reason := value(r.Reason); reason != "" {
		fmt.Fprintf(w, "%s is stopped: %s.\n", r.Source, reason)
	}
	if len(r.Undone) > 0 {
		fmt.Fprintf(w, "\n%s that the source answered, and that it does not know any more:\n", plural.Of(len(r.Undone), "command", "commands"))
		rows := make([][]string, len(r.Undone))
		for i, u := range r.Undone {
			what := "is sent again"
			if u.Kind == dlq.CommandRedrive {
				what = "can be redriven again"
				if value(u.Outcome) == string(dlq.Delivered) {
					what = "its topic has it"
				}
			}
			rows[i] = []string{u.EntryID.String(), string(u.Kind), value(u.Answer), u.EventID.String(), u.Actor, what}
		}
		if err := wideGrid(w, []string{"INVESTIGATION", "COMMAND", "ANSWER", "EVENT", "ACTOR", ""}, rows); err != nil {
			return err
		}
	}
	if len(r.Acts) > 0 {
		fmt.Fprintf(w, "\n%s of the source that the desk does not know:\n", plural.Of(len(r.Acts), "act", "acts"))
		rows := make([][]string, len(r.Acts))
		for i, a := range r.Acts {
			what := ""
			if !a.HasLetter {
				what = "the desk has no letter of it"
			}
			rows[i] = []string{a.EventID.String(), a.Answer, moment(a.At), a.Actor, what}
		}
		if err := wideGrid(w, []string{"EVENT", "DONE", "AT", "ACTOR", ""}, rows); err != nil {
			return err
		}
	}
	if !r.Done {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s is led back: %d redrives undone, %d commands sent again, %d redrives noted. Running processes find that within half a minute.\n", r.Source, r.Forgotten, r.Again, r.Noted)
	return err
}

func (c *commands) sourcesForget() *cobra.Command {
	var out output
	var at acting
	var sure confirmation
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Say that a source is gone for good",
		Long: `Take the source out of the settings first. Then the commands that it has not answered are abandoned, and of its
redrives on their way it is unknown what became of them. Its investigations stay, and can be closed; closing asks it
nothing any more. Running it again finds what was left, and nothing else.

Its name is not used again for another database. If the source comes back after all, write it into the settings, and
run postrider sources rejoin NAME.

Exit codes: 0 done, 1 failed, 2 wrong command line or setting.`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if len(args) != 1 {
				return usagef("name one source; postrider sources lists them")
			}
			cfg, err := c.load(nil)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				if err := app.MayForget(ctx, cfg, d, args[0]); err != nil {
					return noSource(err)
				}
				if err := sure.ask(cmd, fmt.Sprintf("The desk will forget the source %s: the commands that it has not answered are abandoned, also if the source comes back.", args[0])); err != nil {
					return err
				}
				done, err := app.ForgetSource(ctx, cfg, d, args[0], actor)
				if err != nil {
					return noSource(err)
				}
				return out.print(c.stdout, api.NewForgottenSource(done), func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s is forgotten since %s: %s abandoned, of %s it is unknown what became of them. Its investigations stay.\n", done.Source, moment(done.Since),
						plural.Of(int(done.Commands), "command is", "commands are"), plural.Of(int(done.Redrives), "redrive", "redrives"))
					return err
				})
			})
		},
	}
	sure.bind(cmd)
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}
