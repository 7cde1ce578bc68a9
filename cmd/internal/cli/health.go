package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthPatience bounds the question: health checks of containers are asked every few seconds.
const healthPatience = 3 * time.Second

func (c *commands) health() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the postrider serve of this machine whether it is well, for health checks of containers",
		Long: `Asks /livez of http.address on this machine, or /readyz with --ready, and exits with 0 when the answer is
200, with 1 otherwise. The image has no shell and no curl; this takes their place.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load(nil)
			if err != nil {
				return err
			}
			path := "/livez"
			if ready {
				path = "/readyz"
			}
			return askHealth(cmd.Context(), c.stdout, cfg.HTTP.Address, path)
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether it can work now: database and brokers answer")
	c.settings.bindShowing(cmd.Flags(), "http")
	return cmd
}

// askHealth asks a server on this machine that listens on the address.
func askHealth(ctx context.Context, out io.Writer, address, path string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("http.address is %q; it must be host:port: %w", address, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	url := "http://" + net.JoinHostPort(host, port) + path
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // not through a proxy of the environment
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("postrider serve does not answer: %w", err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	said := strings.TrimSpace(string(body))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s: %s", url, answer.Status, said)
	}
	_, err = fmt.Fprintln(out, visible(said))
	return err
}
