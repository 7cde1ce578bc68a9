package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/tasks/task"
)

// validatedView is a file in the JSON of template validate.
type validatedView struct {
	File     string         `json:"file"`
	Template string         `json:"template,omitempty"`
	Problems []task.Problem `json:"problems"`
}

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
			views := make([]validatedView, len(files))
			for i, f := range files {
				views[i] = viewValidated(f)
			}
			wrong := allValid(files)
			if wrong == nil || out.format == "json" {
				err = out.print(c.stdout, views, func(w io.Writer) error {
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

func viewValidated(f templateFile) validatedView {
	v := validatedView{File: f.name, Problems: []task.Problem{}}
	if f.template != nil {
		v.Template = f.template.String()
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
