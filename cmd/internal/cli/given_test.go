package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// TestEveryTextIsText: if a flag or an argument has bytes that are no text, the refusal names it, and no database was
// asked. Only names of files and parts of messages may have these bytes.
func TestEveryTextIsText(t *testing.T) {
	t.Parallel()
	const nowhere = "postgres://u:s3ntinel@127.0.0.1:1/d"
	root := (&commands{}).root()
	tried := 0
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				walk(sub, append(slices.Clone(path), sub.Name()))
			}
		}
		if cmd.HasSubCommands() || !cmd.Runnable() {
			return
		}
		var args []string // as many as it takes
		for cmd.Args != nil && cmd.Args(cmd, args) != nil && len(args) < 5 {
			args = append(args, uuid.NewString())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "string" && f.Value.Type() != "stringArray" || slices.Contains(anyBytes, f.Name) {
				return
			}
			for _, bad := range []string{"a\xff", "a\x00b"} {
				tried++
				given := append(append(slices.Clone(path), args...), "--"+f.Name+"="+bad)
				r := postrider(t, []string{"DATABASE_URL=" + nowhere}, given...)
				if r.code != ExitUsage || !strings.Contains(r.stderr, "--"+f.Name+" is ") || !strings.Contains(r.stderr, "not UTF-8 text") {
					t.Errorf("%q: exit code %d, %s%s", given, r.code, r.stdout, r.stderr)
				}
			}
		})
		if len(args) > 0 && !strings.Contains(cmd.Use, "FILE") {
			tried++
			given := append(slices.Clone(path), args...)
			given[len(given)-1] = "a\xff"
			if r := postrider(t, []string{"DATABASE_URL=" + nowhere}, given...); r.code != ExitUsage || !strings.Contains(r.stderr, "not UTF-8 text") {
				t.Errorf("%q: exit code %d, %s%s", given, r.code, r.stdout, r.stderr)
			}
		}
	}
	walk(root, nil)
	if tried < 100 {
		t.Errorf("only %d flags and arguments were tried", tried)
	}
	r := postrider(t, []string{"DATABASE_URL=" + nowhere, "USER=a\xff"}, "outbox", "release", "1")
	if r.code != ExitUsage || !strings.Contains(r.stderr, "--actor") {
		t.Errorf("a user of the environment: exit code %d, %s", r.code, r.stderr)
	}
}

// TestFlagMistakes: what was given, what must be, and what the flag is for.
func TestFlagMistakes(t *testing.T) {
	t.Parallel()
	for command, want := range map[string][]string{
		"dlq list --limit x":                    {`--limit is "x"; it must be a whole number: how many, 1 to 1000`},
		"dlq list --limit 99999999999999999999": {`--limit is "99999999999999999999"; it must be a whole number`, "1 to 1000"},
		"dlq list --limt 3":                     {"unknown flag --limt of postrider dlq list; the nearest is --limit"},
		"op plan --all --name n --rate fast":    {`--rate is "fast"; it must be a number: handle so many a second at most`},
		"op list --open=waiting":                {`--open is "waiting"; it must be true or false`},
		"op plan --all":                         {"--name is missing: a name for people"},
		"op plan --name":                        {"--name needs a value: a name for people"},
		"replay --from x --partition a":         {`--partition is "a"; it must be whole numbers, separated by commas`},
		"serve --outbox-batchsize 3":            {"unknown flag --outbox-batchsize of postrider serve; the nearest is --outbox-batch-size"},
		"outbox skip one --reason x":            {`EVENT is "one"; it must be a whole number from 1 to 9223372036854775807`, "postrider.outbox_event"},
		"dev --data=":                           {`--data is ""; name a folder`, "temporary"},
		"dlq list -x":                           {"unknown shorthand flag: 'x' in -x"},
	} {
		r := postrider(t, nil, strings.Fields(command)...)
		if r.code != ExitUsage || strings.Contains(r.stderr, "strconv") {
			t.Errorf("%s: exit code %d, %s", command, r.code, r.stderr)
		}
		contains(t, r.stderr, want...)
	}
}

// TestGroupRemedy: the recommended command is possible.
func TestGroupRemedy(t *testing.T) {
	t.Parallel()
	group := func(template string, entries, pending int64) api.GroupDetail {
		return api.GroupDetail{Group: api.Group{Entries: entries, Pending: pending, Parts: dlq.Parts{Template: template}},
			Statuses: map[dlq.Status]int64{dlq.ManuallyResolved: entries - pending}}
	}
	for want, g := range map[string]api.GroupDetail{
		"send all of them again":                        group("", 3, 3),
		"send the 2 pending ones again":                 group("", 3, 2),
		"All of them are closed (3 manually_resolved).": group("", 3, 0),
		"All of them were purged.":                      group("", 0, 0),
		"tasks, which are not sent again":               group("shop/order", 3, 3),
		"All of them are closed (4 manually_resolved).": group("shop/order", 4, 0),
	} {
		got := groupRemedy(g)
		contains(t, got, want)
		if plans := strings.Contains(got, "op plan"); plans != (g.Pending > 0) || strings.Contains(got, "again with") == (g.Parts.Template != "" || g.Pending == 0) {
			t.Errorf("%+v: %s", g, got)
		}
	}
}

// TestTwoOperationsOfOneName: who plans twice is told which there is; when that has ended the name is free.
func TestTwoOperationsOfOneName(t *testing.T) {
	t.Parallel()
	d := newRig(t, 2)
	first := decode[api.Operation](t, d.run(ExitOK, "op plan --all --name incident-7 --actor ada -o json")).UUID.String()
	d.run(ExitFailure, "op plan --all --name incident-7", "the name is taken: operation "+first, `"incident-7"`, "(ada) planned it at 20", "it is planned", "postrider op list --open")
	d.run(ExitOK, "op plan --all --name incident-8")
	d.run(ExitOK, "op start "+first)
	d.run(ExitFailure, "op plan --all --name incident-7", "it is running")
	d.run(ExitOK, "op abort "+first)
	again := decode[api.Operation](t, d.run(ExitOK, "op plan --all --name incident-7 -o json")).UUID.String()
	if again == first {
		t.Error("it is the same operation")
	}
	if got := d.ask(`select count(*)::text from postrider.dlq_operation where name = 'incident-7'`); got != "2" {
		t.Errorf("%s operations have the name, want 2", got)
	}
}

// TestWhatSelectsSaysWhich: a flag that says which are meant and is empty is refused before a database is asked; all
// that say in their help that they select are known, in every command.
func TestWhatSelectsSaysWhich(t *testing.T) {
	t.Parallel()
	const nowhere = "DATABASE_URL=postgres://u:s3ntinel@127.0.0.1:1/d"
	tried := 0
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				walk(sub, append(slices.Clone(path), sub.Name()))
			}
		}
		if cmd.HasSubCommands() || !cmd.Runnable() {
			return
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			help := purpose(f)
			selects := strings.HasPrefix(help, "only ") || strings.HasPrefix(help, "the pending ones") || strings.Contains(help, ": only ")
			if f.Value.Type() != "string" || !selects {
				return
			}
			tried++
			given := append(slices.Clone(path), "--"+f.Name+"=")
			if r := postrider(t, []string{nowhere}, given...); r.code != ExitUsage || !strings.Contains(r.stderr, "--"+f.Name+" is given and empty") {
				t.Errorf("%q: exit code %d, %s%s", given, r.code, r.stdout, r.stderr)
			}
		})
	}
	walk((&commands{}).root(), nil)
	if tried < 40 {
		t.Errorf("only %d flags were tried", tried)
	}
	for _, args := range [][]string{
		{"op", "plan", "--name", "n", "--topic", "orders", "--group", uuid.Nil.String()}, {"dlq", "list", "--group", uuid.Nil.String()},
		{"outbox", "list", "--event", uuid.Nil.String()}, {"outbox", "list", "--task", uuid.Nil.String()},
	} {
		if r := postrider(t, []string{nowhere}, args...); r.code != ExitUsage || !strings.Contains(r.stderr, uuid.Nil.String()) {
			t.Errorf("%q: exit code %d, %s", args, r.code, r.stderr)
		}
	}
}
