package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/jsontime"
)

// output is the flag -o.
type output struct{ format string }

func (o *output) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "table", "output `format`: table, json or yaml")
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
	var text bytes.Buffer
	if o.format != "table" {
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := jsontime.Encode(value, enc.Encode); err != nil {
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

// maxCell is how wide a cell of a grid may be.
const maxCell = 80

// grid aligns rows of cells under a head. Cells are made visible and kept to a width.
func grid(w io.Writer, head []string, rows [][]string) error {
	return gridOf(w, head, rows, maxCell)
}

// wideGrid is grid for cells that must be seen whole.
func wideGrid(w io.Writer, head []string, rows [][]string) error {
	return gridOf(w, head, rows, math.MaxInt)
}

func gridOf(w io.Writer, head []string, rows [][]string, width int) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = shorten(visible(cell), width)
			if cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// fields aligns names and values, and leaves out names without a value.
func fields(w io.Writer, pairs ...[2]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", p[0], visible(p[1]))
		}
	}
	return t.Flush()
}

func shorten(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}

// moment renders a time in UTC; empty for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}
