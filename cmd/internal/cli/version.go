package cli

import (
	"io"

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
			b := obs.ReadBuild()
			return out.print(c.stdout, b, func(w io.Writer) error {
				return fields(w, [2]string{"version", b.Version}, [2]string{"revision", b.Revision}, [2]string{"go", b.Go}, [2]string{"platform", b.Platform})
			})
		},
	}
	out.bind(cmd)
	return cmd
}
