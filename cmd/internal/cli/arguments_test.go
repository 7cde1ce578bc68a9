package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandRefusesArguments: a command with too few or too many arguments says what it takes, what it was given, and
// what to write.
func TestEveryCommandRefusesArguments(t *testing.T) {
	t.Parallel()
	refused := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.HasSubCommands() || cmd.Name() == "help" {
			return
		}
		if cmd.Args == nil {
			t.Errorf("%s does not say which arguments it takes", cmd.CommandPath())
			return
		}
		for n := range 6 {
			err := cmd.Args(cmd, slices.Repeat([]string{"x"}, n))
			if err == nil {
				continue
			}
			refused++
			for _, part := range []string{cmd.CommandPath() + " takes ", ", but was given ", "; write: " + cmd.CommandPath()} {
				if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "arg(s)") || strings.Contains(err.Error(), "[flags]") {
					t.Errorf("%s with %d arguments: %q does not say %q", cmd.CommandPath(), n, err, part)
				}
			}
		}
	}
	walk((&commands{}).root())
	if refused < 200 {
		t.Errorf("only %d mistakes were tried", refused)
	}
	for command, want := range map[string]string{
		"dlq stats now":     `postrider dlq stats takes no arguments, but was given "now"; write: postrider dlq stats`,
		"dlq groups a b":    "postrider dlq groups takes [ID], but was given 2 arguments; write: postrider dlq groups [ID]",
		"dlq requeue":       "postrider dlq requeue takes ID..., but was given 0 arguments; write: postrider dlq requeue ID...",
		"op show":           "postrider op show takes ID, but was given 0 arguments; write: postrider op show ID",
		"completion bash x": `postrider completion bash takes no arguments, but was given "x"; write: postrider completion bash`,
		"completion ksh":    `postrider completion has no command "ksh"; did you mean bash or fish or zsh? there are bash, fish, powershell, zsh`,
		"help nothing":      `postrider has no command "nothing"; there are `,
		"help dlq nothing":  `postrider dlq has no command "nothing"; there are `,
	} {
		if r := postrider(t, nil, strings.Fields(command)...); r.code != ExitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit code %d, %s%s", command, r.code, r.stdout, r.stderr)
		}
	}
	for command, want := range map[string]string{"help dlq show": "postrider dlq show ID", "completion zsh": "#compdef postrider", "help": "Begin with:"} {
		if r := postrider(t, nil, strings.Fields(command)...); r.code != ExitOK || !strings.Contains(r.stdout, want) {
			t.Errorf("%s: exit code %d, %s", command, r.code, r.stderr)
		}
	}
}
