package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// leaves calls look for each command that does something: of those with commands below them, the ones that print something.
func leaves(cmd *cobra.Command, look func(path string, cmd *cobra.Command)) {
	for _, sub := range cmd.Commands() {
		prints := !sub.HasSubCommands() || sub.Flags().Lookup("output") != nil
		if prints && sub.Name() != "help" && sub.Parent().Name() != "completion" {
			look(strings.TrimPrefix(sub.CommandPath(), "postrider "), sub)
		}
		leaves(sub, look)
	}
}

// TestEveryCommandHasExamples: each has one, each is a command line that the command takes, and none is of a command that
// does not exist.
func TestEveryCommandHasExamples(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	leaves((&commands{stdout: io.Discard, stderr: io.Discard}).root(), func(path string, _ *cobra.Command) {
		seen[path] = true
		if len(examples[path]) == 0 {
			t.Errorf("postrider %s has no example", path)
		}
		for _, line := range examples[path] {
			// Flags keep what they were given, so each example has commands of its own.
			cmd, args, err := (&commands{stdout: io.Discard, stderr: io.Discard}).root().Find(words(line)[1:])
			if err != nil || strings.TrimPrefix(cmd.CommandPath(), "postrider ") != path {
				t.Errorf("%s: it is an example of postrider %s, %v", line, path, err)
				continue
			}
			if err := cmd.ParseFlags(args); err != nil {
				t.Errorf("%s: %v", line, err)
			} else if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	})
	for path := range examples {
		if !seen[path] {
			t.Errorf("there are examples of postrider %s, which is no command", path)
		}
	}
}

// words divides a line as a shell does: quotes, variables before the command, and nothing behind | or >.
func words(line string) []string {
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " > ")
	var out []string
	for len(line) > 0 {
		word, rest, _ := strings.Cut(line, " ")
		if strings.HasPrefix(word, "'") {
			word, rest, _ = strings.Cut(line[1:], "'")
			rest = strings.TrimPrefix(rest, " ")
		}
		if name, _, is := strings.Cut(word, "="); len(out) > 0 || !is || strings.ToUpper(name) != name {
			out = append(out, word)
		}
		line = rest
	}
	return out
}

// TestHelpOfServe: the settings used most come before the others, which are listed by section; other commands do not
// repeat them.
func TestHelpOfServe(t *testing.T) {
	t.Parallel()
	serve := postrider(t, nil, "serve", "--help").stdout
	before := 0
	for _, title := range []string{"Usage:", "Examples:", "Flags:", "Where:", "Settings used most:", "Settings of archive:", "Settings of outbox:", "Settings of tracing:"} {
		at := strings.Index(serve, "\n"+title+"\n")
		if at < before {
			t.Errorf("%q stands at %d, and the title before it at %d", title, at, before)
		}
		before = at
	}
	for _, flag := range []string{"--roles", "--database-url", "--http-address", "--outbox-batch-size"} {
		if n := strings.Count(serve, "\n      "+flag+" "); n != 1 {
			t.Errorf("%s is there %d times", flag, n)
		}
	}
	doctor := postrider(t, nil, "doctor", "--help").stdout
	contains(t, doctor, "Settings used most:", "postrider serve --help lists them", "--http-address")
	if strings.Contains(doctor, "--archive-enabled") {
		t.Errorf("the help of doctor lists every setting:\n%s", doctor)
	}
	health := postrider(t, nil, "health", "--help").stdout
	contains(t, health, "Settings of http:", "--http-address", "--http-request-timeout-ms")
	if strings.Contains(health, "Settings used most") {
		t.Errorf("the help of health has settings that it is not about:\n%s", health)
	}
	detect := postrider(t, nil, "task", "detect-stale", "--help").stdout
	contains(t, detect, "Settings of staleness:", "--staleness-batch-size")
	if strings.Contains(detect, "Settings used most") {
		t.Errorf("the help of detect-stale has settings that it is not about:\n%s", detect)
	}
}

// TestCommandsBelowAreAligned: what each command does stands in one column, however long its name is, and the command above says
// that it takes one.
func TestCommandsBelowAreAligned(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "task", "task step", "dlq"} {
		help := postrider(t, nil, append(strings.Fields(line), "--help")...).stdout
		contains(t, help, strings.TrimSpace("postrider "+line)+" COMMAND [flags]\n")
		_, list, _ := strings.Cut(help, "Commands:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		column := 0
		for _, command := range strings.Split(list, "\n") {
			name := strings.Fields(command)[0]
			at := len(command) - len(strings.TrimLeft(command[2+len(name):], " "))
			if column == 0 {
				column = at
			}
			if at != column || at < 4+len(name) {
				t.Errorf("%s: column %d, not %d: %q", line, at, column, command)
			}
		}
	}
}

// TestMistakesLeadToTheirHelp: to that of the command which was called.
func TestMistakesLeadToTheirHelp(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"dlq show": "postrider dlq show --help", "console link": "postrider console link --help", "op foo": "postrider op --help", "--odd": "postrider --help", "outbox list --statuss x": "postrider outbox list --help"} {
		if r := postrider(t, nil, strings.Fields(line)...); r.code != ExitUsage || !strings.HasSuffix(r.stderr, "Help is in: "+want+"\n") {
			t.Errorf("%s: exit code %d, %s", line, r.code, r.stderr)
		}
	}
}

// TestMistypedCommands: the nearest is suggested.
func TestMistypedCommands(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"dlq lst": "did you mean list?", "serv": "serve? there are", "outbox release-all": "there are"} {
		r := postrider(t, nil, strings.Fields(line)...)
		if r.code != ExitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit code %d, %s", line, r.code, r.stderr)
		}
	}
}
