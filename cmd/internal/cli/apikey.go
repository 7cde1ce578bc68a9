package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
)

func (c *commands) apikey() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apikey",
		Short: "Make, list and revoke the keys of the HTTP API",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.apikeyCreate(), c.apikeyList(), c.apikeyRevoke())
	return cmd
}

func (c *commands) apikeyCreate() *cobra.Command {
	var out output
	var at acting
	var n access.NewKey
	var scopes, expires string
	var sources []string
	cmd := &cobra.Command{
		Use:   "create --name NAME --scopes SCOPE,...",
		Short: "Make a key, and show it once",
		Long: `Make a key of the HTTP API and show it; it is kept nowhere and cannot be shown again. A source that neither the
settings (--config FILE) nor the desk know is refused. It needs the rights of postrider_relay or of the schema's owner,
because a login that makes keys decides who may do what.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := out.check()
			if err != nil {
				return err
			}
			if n.Scopes, err = access.ParseScopes(scopes); err != nil {
				return usagef("--scopes: %w", err)
			}
			if n.Sources, err = sourcesOf(sources); err != nil {
				return err
			}
			if expires != "" {
				if n.ExpiresIn, err = parseAge("expires-in", expires); err != nil {
					return err
				}
				if n.ExpiresIn < time.Second { // zero would be for good
					return usagef("--expires-in is %s: the key would have expired already; leave the flag out for a key that works for good", expires)
				}
			}
			cfg, err := c.load(inWords, "database.url")
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_relay"), func(ctx context.Context, d *app.Services, _ string) error {
				if err := app.CheckSources(ctx, cfg, d, n.Sources); err != nil {
					return fmt.Errorf("--source: %w", noSource(err))
				}
				key, token, err := d.Access.Create(ctx, n)
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.CreatedKey{Key: api.KeyOf(key), Token: token}, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, token)
					return err
				})
			})
		},
	}
	cmd.Flags().StringVar(&n.Name, "name", "", "whose it is, or what for")
	cmd.Flags().StringVar(&scopes, "scopes", "", "what it may do, separated by commas: "+join(access.Scopes()))
	cmd.Flags().StringArrayVar(&sources, "source", nil, "a `source` whose things it sees and acts on, once for each; all by default")
	cmd.Flags().StringVar(&expires, "expires-in", "", "how long it works, such as 36h or 90d; for good by default")
	_ = cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(texts(access.Scopes()), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

// sourcesOf reads the flags --source; none is all sources.
func sourcesOf(names []string) (access.Sources, error) {
	if len(names) == 0 {
		return access.AllSources(), nil
	}
	sources, err := access.ParseSources(names)
	if err != nil {
		return nil, usagef("--source: %w", err)
	}
	return sources, nil
}

func (c *commands) apikeyList() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List keys, without their secrets, the newest first",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), acting{}, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				keys, err := d.Access.List(ctx)
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.All(api.KeyOf, keys), func(w io.Writer) error { return keyTable(w, keys) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

func keyTable(w io.Writer, keys []access.Key) error {
	if len(keys) == 0 {
		_, err := fmt.Fprintln(w, "There are no keys.")
		return err
	}
	limited := slices.ContainsFunc(keys, func(k access.Key) bool { return !k.Sources.All() })
	rows := make([][]string, len(keys))
	for i, k := range keys {
		state := "works"
		switch {
		case k.RevokedAt != nil:
			state = "revoked " + moment(*k.RevokedAt)
		case !k.Works(time.Now()):
			state = "expired " + moment(*k.ExpiresAt)
		case k.ExpiresAt != nil:
			state = "works until " + moment(*k.ExpiresAt)
		}
		used := ""
		if k.LastUsedAt != nil {
			used = moment(*k.LastUsedAt)
		}
		rows[i] = []string{k.ID, k.Name, join(k.Scopes), state, used, moment(k.CreatedAt), k.CreatedBy}
		if limited {
			rows[i] = slices.Insert(rows[i], 3, k.Sources.String())
		}
	}
	head := []string{"ID", "NAME", "SCOPES", "STATE", "LAST USED", "CREATED", "BY"}
	if limited {
		head = slices.Insert(head, 3, "SOURCES")
	}
	return grid(w, head, rows)
}

func (c *commands) apikeyRevoke() *cobra.Command {
	var out output
	var at acting
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "End a key",
		Long:  "End a key. A server that took it a moment ago takes it for up to " + access.Remembered.String() + " more.",
		Args:  exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				key, err := d.Access.Revoke(ctx, args[0])
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.KeyOf(key), func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "The key %s (%s) works no more.\n", key.ID, visible(key.Name))
					return err
				})
			})
		},
	}
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}
