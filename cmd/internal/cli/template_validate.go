package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/task"
)

func (c *commands) templateValidate() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "validate FILE|DIRECTORY…",
		Short: "Check templates without a database",
		Long:  `Check templates without a database. Everything that is wrong is told, with its line and what to do.`,
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if len(args) == 0 {
				return usagef("name the files of templates")
			}
			files, err := templateFiles(args)
			if err != nil {
				return err
			}
			wrong := allValid(files)
			if wrong == nil || out.format != "table" {
				err = out.print(c.stdout, api.All(validated, files), func(w io.Writer) error {
					for _, f := range files {
						fmt.Fprintf(w, "%s: template %s is valid.\n", visible(f.name), f.template)
					}
					return nil
				})
			}
			return errors.Join(err, wrong)
		},
	}
	out.bind(cmd)
	return cmd
}

// validated is what the check of a file found.
func validated(f templateFile) api.ValidatedTemplate {
	v := api.ValidatedTemplate{File: f.name, Problems: []task.Problem{}}
	if f.template != nil {
		v.Template = api.OrNull(f.template.String())
	}
	var invalid *task.InvalidError
	switch {
	case errors.As(f.err, &invalid):
		v.Problems = invalid.Problems
	case f.err != nil:
		v.Problems = []task.Problem{{Line: 1, Text: f.err.Error()}}
	}
	return v
}
