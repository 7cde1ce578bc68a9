package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/cmd/internal/plural"
)

func (c *commands) doctor() *cobra.Command {
	var out output
	var pre bool
	var role, produceTo string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine database, schema, brokers, topics and state, and say what to do",
		Long: `Examine everything that Postrider depends on, and say what to do about what is not as it should be. Nothing
is changed, but for records that --produce-to asks for. Each line begins with ✓ (well), ! (it works, and
will hurt), ✗ (it does not work) or - (it could not be looked at). Give it the settings of postrider serve,
because sizes, topics and times are compared with them.

With --pre only what can be examined before postrider migrate up. Exit codes: 0 nothing failed, 1 something
failed, 2 wrong command line or setting.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if role != "" && !slices.Contains(doctor.Roles(), role) {
				return usagef("--role is %q; it must be one of %s", role, strings.Join(doctor.Roles(), ", "))
			}
			cfg, err := c.load(nil) // without brokers the database is examined all the same
			if err == nil && !cfg.HasSources() {
				if err = cfg.Require("database.url"); err != nil {
					err = &usageError{err}
				}
			}
			if err != nil {
				return err
			}
			for _, warning := range cfg.KafkaWarnings() {
				fmt.Fprintf(c.stderr, "Warning: %s\n", visible(warning))
			}
			report, err := app.Examine(cmd.Context(), cfg, app.Examination{Pre: pre, Role: role, ProduceTopic: produceTo})
			if err != nil {
				return err
			}
			if err := out.print(c.stdout, report, func(w io.Writer) error { return doctorTable(w, report) }); err != nil {
				return err
			}
			if !report.OK {
				return &spokenError{errors.New("something failed")} // the report says what
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&pre, "pre", false, "only what can be examined before the schema is there")
	cmd.Flags().StringVar(&role, "role", "", "the `role` whose rights the user of database.url needs: relay (serve), operator (people) or writer (services); by default any of them")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(doctor.Roles(), cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&produceTo, "produce-to", "", "a `topic` of yours: five records that mean nothing are written to it, to see how long one takes")
	out.bind(cmd)
	c.settings.bindAll(cmd.Flags(), nil)
	return cmd
}

// marks begin the lines of a report.
var marks = map[doctor.Verdict]string{doctor.OK: "✓", doctor.Warning: "!", doctor.Failed: "✗", doctor.Skipped: "-"}

func doctorTable(w io.Writer, r doctor.Report) error {
	group := ""
	for i := 0; i < len(r.Findings); {
		f := r.Findings[i]
		if f.Group != group {
			if group != "" {
				fmt.Fprintln(w)
			}
			group = f.Group
			fmt.Fprintf(w, "%s\n", strings.ToUpper(group))
		}
		checks := skippedAlike(r.Findings[i:])
		fmt.Fprintf(w, "%s %s: %s\n", marks[f.Verdict], strings.Join(checks, ", "), visible(f.Says))
		if f.Hint != "" {
			fmt.Fprintf(w, "    → %s\n", visible(f.Hint))
		}
		i += len(checks)
	}
	checks := len(r.Findings)
	_, err := fmt.Fprintf(w, "\n%s: %d well, %s, %d failed, %d skipped\n", plural.Of(checks, "check", "checks"), checks-r.Failed-r.Warnings-r.Skipped,
		plural.Of(r.Warnings, "warning", "warnings"), r.Failed, r.Skipped)
	return err
}

// skippedAlike are the names of the first check and of the checks behind it that were skipped for the same reason: one line
// for all, so that they do not bury a failure.
func skippedAlike(found []doctor.Finding) []string {
	first := found[0]
	checks := []string{first.Check}
	for _, f := range found[1:] {
		if first.Verdict != doctor.Skipped || f.Verdict != doctor.Skipped || f.Group != first.Group || f.Says != first.Says || f.Hint != first.Hint {
			break
		}
		checks = append(checks, f.Check)
	}
	return checks
}
