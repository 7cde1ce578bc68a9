package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// output is the flags -o and --wide.
type output struct {
	format string
	wide   bool
}

func (o *output) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "table", "output `format`: table, json or yaml")
	cmd.Flags().BoolVar(&o.wide, "wide", false, "show cells and ids of tables whole, also where they do not fit the terminal")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) check() error {
	if !slices.Contains([]string{"table", "json", "yaml"}, o.format) {
		return usagef("-o is %q; it must be table, json or yaml", o.format)
	}
	return nil
}

// print writes value as JSON or YAML, or calls table, as the flag says.
func (o *output) print(w io.Writer, value any, table func(io.Writer) error) error {
	text := page{terminal: terminalOf(w, os.Getenv), wide: o.wide, now: time.Now()}
	if o.format != "table" {
		enc := json.NewEncoder(&text.Buffer)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(value); err != nil {
			return fmt.Errorf("encode the result: %w", err)
		}
		if o.format == "yaml" {
			return writeYAML(w, text.Bytes())
		}
		_, err := io.WriteString(w, visibleJSON(text.String()))
		return err
	}
	if err := table(&text); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// fields aligns names and values, and leaves out names without a value. Where a person reads, how long ago a time was is
// said beside it.
func fields(w io.Writer, pairs ...[2]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	shown, _ := w.(*page)
	for _, p := range pairs {
		if p[1] == "" {
			continue
		}
		value := visible(p[1])
		if shown.fits() {
			if ago := relative(value, shown.now); ago != value {
				value += " (" + ago + ")"
			}
		}
		fmt.Fprintf(t, "%s\t%s\n", p[0], value)
	}
	return t.Flush()
}

func shorten(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}

// momentLayout is how moment renders times.
const momentLayout = "2006-01-02T15:04:05Z"

// moment renders a time in UTC; empty for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(momentLayout)
}
