package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// confirmation is the flag --yes.
type confirmation struct{ yes bool }

func (c *confirmation) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask whether it is meant")
}

// ask says what will be done and reads whether it is meant. Without an answer it is not.
func (c *confirmation) ask(cmd *cobra.Command, what string) error {
	if c.yes {
		return nil
	}
	return confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), what)
}

// askAtTerminal is ask for work that a script must not confirm by chance: an answer counts only where a person types it.
func (c *confirmation) askAtTerminal(cmd *cobra.Command, what string) error {
	if !c.yes && !isTerminal(cmd.InOrStdin()) {
		return usagef("it was not confirmed, and nothing was done: standard input is no terminal; a script says --yes")
	}
	return c.ask(cmd, what)
}

func confirm(in io.Reader, out io.Writer, what string) error {
	fmt.Fprintf(out, "%s This cannot be undone. Type yes to go on: ", visible(what))
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		fmt.Fprintln(out)
		return usagef("it was not confirmed, and nothing was done; a script says --yes")
	}
	return nil
}
