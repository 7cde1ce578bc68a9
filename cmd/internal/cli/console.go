package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
)

func (c *commands) console() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Let people into the web console",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.consoleLink())
	return cmd
}

// signInLink is what console link prints with -o json.
type signInLink struct {
	// URL is the link.
	URL string `json:"url"`
	// ExpiresAt is until when it may be used.
	ExpiresAt time.Time `json:"expires_at"`
}

func (c *commands) consoleLink() *cobra.Command {
	var out output
	var at acting
	n := access.NewLink{}
	var scopes, expires string
	var sources []string
	cmd := &cobra.Command{
		Use:   "link --name NAME --scopes SCOPE,... | --key ID",
		Short: "Make a link that signs one browser in, once",
		Long: `Make a link to the web console that signs one browser in, and works once, within --expires-in. With --key the session
belongs to that API key: it has the scopes and sources of the key, and ends with it. Otherwise it is for a person, with
the scopes and sources given; a source that neither the settings (--config FILE) nor the desk know is refused. It needs
the rights of postrider_relay or of the schema's owner, as apikey create does. The link begins with console.url, where
that is set; otherwise, in the database of postrider dev, with the address that dev serves; otherwise with http.address.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := out.check()
			if err != nil {
				return err
			}
			if (n.KeyID == "") == (scopes == "") {
				return usagef("give either --key, or --name and --scopes")
			}
			if scopes != "" {
				if n.Scopes, err = access.ParseScopes(scopes); err != nil {
					return usagef("--scopes: %w", err)
				}
			}
			if n.KeyID != "" && len(sources) > 0 {
				return usagef("--source goes with --scopes: a session of a key has the sources of the key")
			}
			if n.Sources, err = sourcesOf(sources); err != nil {
				return err
			}
			if n.ExpiresIn, err = parseAge("expires-in", expires); err != nil {
				return err
			}
			if n.ExpiresIn < time.Second || n.ExpiresIn > access.MaxLinkAge {
				return usagef("--expires-in is %q; it must be from 1s to 7d", shorten(expires, 60))
			}
			cfg, err := c.load(inWords, "database.url")
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_relay"), func(ctx context.Context, d *app.Services, _ string) error {
				if err := app.CheckSources(ctx, cfg, d, n.Sources); err != nil {
					return fmt.Errorf("--source: %w", noSource(err))
				}
				served, err := d.Access.ConsoleURL(ctx)
				if err != nil {
					return err
				}
				token, until, err := d.Access.Link(ctx, n)
				if err != nil {
					return err
				}
				link := signInLink{URL: consoleURL(cfg, served) + "/login?link=" + url.QueryEscape(token), ExpiresAt: until.UTC()}
				return out.print(c.stdout, link, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, link.URL)
					return err
				})
			})
		},
	}
	cmd.Flags().StringVar(&n.KeyID, "key", "", "the `ID` of the API key that the session belongs to")
	cmd.Flags().StringVar(&n.Name, "name", "", "who signs in; the name of the key by default")
	cmd.Flags().StringVar(&scopes, "scopes", "", "what a person without a key may do, separated by commas: "+join(access.Scopes()))
	cmd.Flags().StringArrayVar(&sources, "source", nil, "a `source` that a person without a key sees and acts on, once for each; all by default")
	cmd.Flags().StringVar(&expires, "expires-in", "10m", "how long the link may be used, from 1s to 7d")
	_ = cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(texts(access.Scopes()), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

// consoleURL is where browsers reach the console: as the settings say, or where postrider dev noted that it serves it, or on
// this machine.
func consoleURL(cfg config.Config, served string) string {
	if url := cmp.Or(cfg.Console.URL, served); url != "" {
		return url
	}
	host, port, err := net.SplitHostPort(cfg.HTTP.Address)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}
