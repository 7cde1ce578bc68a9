package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// common are the settings that most installations give, in the order in which the help has them.
var common = []string{"database.password_file", "kafka.sasl_mechanism", "dlq.topic", "collector.topics", "http.address", "log.level", "log.format"}

// usage writes how a command is called: examples, commands below it, its own flags, and then the flags of settings. Only
// the help of serve lists every setting, by section; the others have the same flags and say so.
func (c *commands) usage(cmd *cobra.Command) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Usage:\n  %s\n", useLine(cmd))
	if examples := examples[strings.TrimPrefix(cmd.CommandPath(), "postrider ")]; len(examples) > 0 {
		text.WriteString("\nExamples:\n")
		for _, e := range examples {
			fmt.Fprintf(&text, "  %s\n", e)
		}
	}
	below(&text, cmd)
	own, global, sections := c.sort(cmd)
	width := terminalOf(c.stdout, c.variable).width
	flags := func(title string, fs *pflag.FlagSet) {
		if fs.HasAvailableFlags() {
			fmt.Fprintf(&text, "\n%s:\n%s", title, fs.FlagUsagesWrapped(width))
		}
	}
	flags("Flags", own)
	flags("Where", global)
	if first := sections["common"]; first != nil {
		flags("Settings used most", first)
		delete(sections, "common")
		if cmd.Name() != "serve" {
			text.WriteString("\nEvery other setting has a flag here, too: postrider serve --help lists them.\n")
			sections = nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		flags("Settings of "+name, sections[name])
	}
	_, err := io.WriteString(cmd.OutOrStderr(), text.String())
	return err
}

// below lists the commands below a command.
func below(w io.Writer, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	fmt.Fprint(w, "\nCommands:\n")
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(w, "  %-*s  %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
}

// useLine is how a command is called. One that has commands below it does nothing by itself.
func useLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND [flags]"
	}
	return cmd.UseLine()
}

// sort divides the flags of a command: its own, the addresses that every command has, and settings by section. The section
// common has the settings used most. A command that shows one section only has no section common.
func (c *commands) sort(cmd *cobra.Command) (own, global *pflag.FlagSet, sections map[string]*pflag.FlagSet) {
	own, global, sections = newFlagSet(), newFlagSet(), map[string]*pflag.FlagSet{}
	add := func(section string, f *pflag.Flag) {
		if sections[section] == nil {
			sections[section] = newFlagSet()
		}
		sections[section].AddFlag(f)
	}
	whole := true // all settings have a flag, and none is hidden
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { whole = whole && !(f.Hidden && c.settings.key(f) != "") })
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch key := c.settings.key(f); {
		case f.Hidden:
		case key == "" && f.Name == "config", slices.Contains(everywhere, key):
			global.AddFlag(f)
		case key == "":
			own.AddFlag(f)
		case whole && slices.Contains(common, key):
			add("common", f)
		default:
			section, _, _ := strings.Cut(key, ".")
			add(section, f)
		}
	})
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			global.AddFlag(f)
		}
	})
	return own, global, sections
}

// newFlagSet is an empty set that shows flags in alphabetical order.
func newFlagSet() *pflag.FlagSet { return pflag.NewFlagSet("", pflag.ContinueOnError) }

// key is the key of the setting that a flag gives; empty for any other flag.
func (s *settings) key(f *pflag.Flag) string {
	for i, mine := range s.flags {
		if mine == f {
			return s.keys[i]
		}
	}
	return ""
}
