package cli

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/obs"
)

// mcpKey is the variable with the API key of the agent at the other end of standard input. It is no setting, because
// settings are shown.
const mcpKey = "MCP_API_KEY"

func (c *commands) mcp() *cobra.Command {
	var transport, keyFile string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve agents over the Model Context Protocol: triage dead letters, and work on the outbox with confirmation",
		Long: `Serves tools to an agent: dlq_stats, dlq_groups, dlq_list, dlq_show, dlq_why, dlq_comments, outbox_list and op_items,
which read, and outbox_sync (also a2a_outbox_sync), which publishes what is pending, tries again, cleans up, and
counts dead letters. What changes something needs --allow-writes and a key with the scope for it; it answers with a
preview first, and acts when that is confirmed.

On standard input and output, where the client starts this program, the key is in ` + mcpKey + ` or in a
file (--api-key-file); logs go to standard error. With --transport http it listens on mcp.address, under
/mcp, with /livez, /readyz and /metrics beside it, and each request brings its key as Authorization:
Bearer. A confirmation belongs to the process that made the preview. postrider apikey create makes keys;
payloads of messages are shown to keys with the scope read:payload.

The user of database.url needs postrider_relay. Brokers are asked only to publish.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if transport != "stdio" && transport != "http" {
				return usagef("--transport is %q; it must be stdio or http", shorten(transport, 60))
			}
			token, err := c.mcpToken(keyFile)
			switch {
			case err != nil:
				return err
			case transport == "stdio" && token == "":
				return usagef("an API key is needed: set %s, or give --api-key-file; postrider apikey create makes one", mcpKey)
			case transport == "http" && keyFile != "":
				return usagef("--api-key-file is for --transport stdio; over HTTP each request brings its key")
			}
			cfg, err := c.load(nil, "database.url")
			if err != nil {
				return err
			}
			log, err := obs.NewLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			if transport == "http" {
				token = "" // callers without a key must not use the key of the environment
			}
			a, err := app.NewAgents(cmd.Context(), app.Options{Config: cfg, Logger: log}, token, transport == "http")
			if err != nil {
				return explain(err, grant("postrider_relay"))
			}
			if transport == "http" {
				return a.Run(cmd.Context())
			}
			return a.ServeStdio(cmd.Context(), io.NopCloser(cmd.InOrStdin()), writer{c.stdout})
		},
	}
	cmd.Flags().StringVar(&transport, "transport", "stdio", "how clients come: stdio or http")
	cmd.Flags().StringVar(&keyFile, "api-key-file", "", "`file` with the API key, instead of "+mcpKey)
	c.settings.bindAll(cmd.Flags(), nil)
	_ = cmd.RegisterFlagCompletionFunc("transport", cobra.FixedCompletions([]string{"stdio", "http"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// mcpToken is the key of the file, or else of the environment.
func (c *commands) mcpToken(file string) (string, error) {
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", usagef("--api-key-file: %w", err)
		}
		return strings.TrimSpace(string(raw)), nil
	}
	for _, entry := range c.environ {
		if value, found := strings.CutPrefix(entry, mcpKey+"="); found {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}

// writer is standard output, which is not ours to close.
type writer struct{ io.Writer }

func (writer) Close() error { return nil }
