package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/obs"
)

func (c *commands) version() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which build this is",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return out.print(c.stdout, obs.ReadBuild(), func(w io.Writer) error {
				_, err := io.WriteString(w, versionText())
				return err
			})
		},
	}
	out.bind(cmd)
	return cmd
}

// versionText is what the command and the flag --version print.
func versionText() string {
	b := obs.ReadBuild()
	var text strings.Builder
	// A strings.Builder takes everything.
	_ = fields(&text, [2]string{"version", b.Version}, [2]string{"revision", b.Revision}, [2]string{"go", b.Go}, [2]string{"platform", b.Platform})
	return text.String()
}
