// Package cli is the command line of Postrider: it reads the settings, calls what does the work,
// and prints the result. Results go to standard output; logs and errors go to standard error.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/plural"
)

// The exit codes.
const (
	// ExitOK: the command did what it was asked to.
	ExitOK = 0
	// ExitFailure: it was tried and failed.
	ExitFailure = 1
	// ExitUsage: the command line or a setting is wrong, and nothing was tried.
	ExitUsage = 2
	// ExitPartly: it was done, but not for all that it was asked for: the output says which were skipped.
	ExitPartly = 3
)

// Run runs the command that args name, until it is done or ctx ends, and returns its exit code.
// environ is the environment, as os.Environ returns it.
func Run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	c := &commands{environ: environ, stdout: stdout, stderr: stderr}
	root := c.root()
	root.SetArgs(args)
	called, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	// A failure before a command begins is the command line's fault.
	var usage *usageError
	if !c.begun && !errors.As(err, &usage) {
		err = &usageError{err}
	}
	var spoken *spokenError
	if !errors.As(err, &spoken) {
		fmt.Fprint(stderr, report(err, called.CommandPath()))
	}
	switch {
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, errPartly):
		return ExitPartly
	}
	return ExitFailure
}

// Command is the tree of all commands, for what describes them. [Run] runs them.
func Command() *cobra.Command {
	return (&commands{stdout: io.Discard, stderr: io.Discard}).root()
}

// usageError is a mistake of the caller.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// spokenError is a failure that the output of the command has said.
type spokenError struct{ err error }

func (e *spokenError) Error() string { return e.err.Error() }
func (e *spokenError) Unwrap() error { return e.err }

// errPartly is what a spokenError wraps where something was done and something skipped.
var errPartly = errors.New("some were skipped")

// report renders an error for a terminal: further lines are indented, control characters shown. A mistake of the caller leads
// to the help of the command that was called.
func report(err error, command string) string {
	lines := strings.Split(strings.TrimRight(err.Error(), "\n"), "\n")
	for i := range lines {
		lines[i] = visible(lines[i])
	}
	text := "postrider: " + strings.Join(lines, "\n  ") + "\n"
	var usage *usageError
	if errors.As(err, &usage) {
		text += "Help is in: " + command + " --help\n"
	}
	return text
}

// commands is what all commands share.
type commands struct {
	environ        []string
	stdout, stderr io.Writer
	settings       settings
	begun          bool
}

func (c *commands) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "postrider",
		Short: "A PostgreSQL outbox relay to Kafka that turns dead letters into investigations",
		Long: `Postrider carries events that services wrote into a PostgreSQL outbox to Kafka, in order
per key, and turns what cannot be delivered into investigations.

Begin with:  postrider dev --demo

Settings come from flags, the environment (DATABASE_URL, KAFKA_BROKERS, OUTBOX_BATCH_SIZE …)
and a YAML file (--config), in this order. Results are tables, or with -o json and -o yaml what
scripts read. Exit codes: 0 done, 1 failed, 2 wrong command line or setting, 3 done in part: the
output says what was skipped, and why.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := checkText(cmd, args); err != nil {
				return err
			}
			if err := checkSelecting(cmd); err != nil {
				return err
			}
			c.begun = true
			return c.completeIDs(cmd, args)
		},
		RunE: c.group,
		Args: cobra.ArbitraryArgs,
	}
	root.SetGlobalNormalizationFunc(shortNames)
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(c.usage)
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}")
	c.settings.bindCommon(root.PersistentFlags())
	root.AddCommand(c.serve(), c.sources(), c.dev(), c.demo(), c.migrate(), c.adopt(), c.debezium(), c.outbox(), c.dlq(), c.task(), c.template(), c.archive(),
		c.op(), c.replay(), c.audit(), c.apikey(), c.console(), c.mcp(), c.inbox(), c.doctor(), c.health(), c.config(), c.version())
	root.SetOut(c.stdout) // before cobra adds its commands, which keep it
	root.SetErr(c.stderr)
	c.ownArguments(root)
	c.completeRest(root)
	return root
}

// group runs when a command that only groups others is called by itself.
func (c *commands) group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			names = append(names, sub.Name())
		}
	}
	meant := ""
	cmd.SuggestionsMinimumDistance = 2 // letters to change
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		meant = "did you mean " + strings.Join(near, " or ") + "? "
	}
	return usagef("%s has no command %q; %sthere are %s", cmd.CommandPath(), args[0], meant, strings.Join(names, ", "))
}

// exactly is takes of arguments that are all needed.
func exactly(names ...string) cobra.PositionalArgs { return takes(names...) }

// takes refuses arguments that do not fit these, written as in a command's use: NAME, [NAME] where it may be left out, and
// NAME... for one or more. The refusal says what the command takes, what it was given, and what to write.
func takes(names ...string) cobra.PositionalArgs {
	least, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
		if strings.HasSuffix(name, "...") {
			most = math.MaxInt
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		what, given := strings.Join(names, " "), plural.Of(len(args), "argument", "arguments")
		if len(names) == 0 {
			what, given = "no arguments", fmt.Sprintf("%q", shorten(args[0], 60))
		}
		return fmt.Errorf("%s takes %s, but was given %s; write: %s", cmd.CommandPath(), what, given, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
}

// ownArguments gives the commands that cobra adds, for completion and help, refusals as all others have them.
func (c *commands) ownArguments(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, c.group
			for _, shell := range cmd.Commands() {
				shell.Args = exactly()
			}
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err == nil && len(rest) > 0 && about.HasSubCommands() {
					return c.group(about, rest)
				}
				return err
			}
		}
	}
}
