package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/dlq"
)

func sortedKeys(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) }

func (c *commands) opStart() *cobra.Command {
	var out output
	var at acting
	var wait bool
	cmd := &cobra.Command{
		Use:   "start ID",
		Short: "Begin an operation that was planned; with --wait watch it to its end",
		Long: `Begin an operation that was planned. The work is done by postrider serve; where it was given --roles, one process
must have the role operator (postrider serve --roles operator), or nothing happens. With --wait the progress is shown on
standard error until it ends; leaving then leaves it running. Exit codes with --wait: 0 completed, and what was sent has
arrived; 1 it was halted, paused or aborted; 3 completed, and some were left alone, came back dead, or had not ended
when it stopped waiting for them.`,
		Args:              exactly("ID"),
		ValidArgsFunction: c.completeOperations,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			ids, err := identities("an operation", listsOperations, args)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				o, err := d.Redriver.Command(ctx, ids[0], dlq.Start)
				if err != nil {
					return noOperation(err)
				}
				if wait {
					if o, err = watch(ctx, d.Redriver, o.UUID, newBar(c.stderr), watchPause); err != nil {
						return err
					}
				}
				v := api.NewOperation(o)
				if err := out.print(c.stdout, v, func(w io.Writer) error { return showOperation(w, v) }); err != nil || !wait {
					return err
				}
				return outcome(o)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "watch it until it ends")
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

// outcome makes the end of an operation an exit code.
func outcome(o dlq.Operation) error {
	switch {
	case o.State != dlq.Completed:
		return fmt.Errorf("operation %s is %s: %s", o.UUID, o.State, orReason(o))
	case o.Skipped+o.Failed+o.CameBack > 0, o.Kind == dlq.OpRedrive && o.Delivered+o.CameBack < o.Done:
		return &spokenError{errPartly}
	}
	return nil
}

func orReason(o dlq.Operation) string {
	if o.Error != "" {
		return o.Error
	}
	return "postrider op resume goes on, unless it was aborted"
}

const (
	watchPause = 500 * time.Millisecond
	// lookLimit bounds one look, and watchPatience for how long looks may fail one after the other: the operation goes on
	// meanwhile, and a database that is restarted is back by then.
	lookLimit     = 10 * time.Second
	watchPatience = 2 * time.Minute
)

// watch looks at an operation until no process works on it any more.
func watch(ctx context.Context, ops dlq.Redriver, id uuid.UUID, b *bar, pause time.Duration) (dlq.Operation, error) {
	seen := time.Now()
	for {
		look, cancel := context.WithTimeout(ctx, lookLimit)
		o, err := ops.Operation(look, id)
		cancel()
		switch {
		case err == nil:
			seen = time.Now()
			b.show(o)
			if o.State.Ended() || o.State == dlq.Halted || o.State == dlq.Paused {
				b.end()
				return o, nil
			}
		case ctx.Err() != nil: // said below
		case errors.Is(err, dlq.ErrNotFound), time.Since(seen) > watchPatience:
			b.end()
			return o, fmt.Errorf("the operation cannot be looked at; postrider op show %s tries again: %w", id, err)
		default:
			b.draw("the operation cannot be looked at now, and is tried again: "+visible(err.Error()), 0, 1)
		}
		select {
		case <-ctx.Done():
			b.end()
			return o, fmt.Errorf("stopped watching; the operation goes on: postrider op show %s", id)
		case <-time.After(pause):
		}
	}
}

// bar shows progress: on a terminal one line that is written over, elsewhere a line for each change.
type bar struct {
	w        io.Writer
	terminal bool
	last     string
}

func newBar(w io.Writer) *bar { return &bar{w: w, terminal: isTerminal(w)} }

// isTerminal reports whether a stream is a terminal, and no file, pipe or test.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // a device as well, and no terminal
	return err != nil || !os.SameFile(info, null)
}

const barWidth = 30

func (b *bar) show(op dlq.Operation) {
	o := api.NewOperation(op)
	b.draw(fmt.Sprintf("%s: %s", o.State, progress(o)), treated(o), o.Items)
}

// draw shows a line, and on a terminal which part of the whole is done.
func (b *bar) draw(line string, part, whole int64) {
	if line == b.last {
		return
	}
	b.last = line
	if !b.terminal {
		fmt.Fprintln(b.w, line)
		return
	}
	full := barWidth
	if whole > 0 {
		full = int(part * barWidth / whole)
	}
	fmt.Fprintf(b.w, "\r\x1b[K[%s%s] %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), line)
}

func (b *bar) end() {
	if b.terminal && b.last != "" {
		fmt.Fprintln(b.w)
	}
}

func (c *commands) opCommand(command dlq.Command, short string) *cobra.Command {
	var out output
	var at acting
	cmd := &cobra.Command{
		Use:               string(command) + " ID",
		Short:             short,
		Args:              exactly("ID"),
		ValidArgsFunction: c.completeOperations,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			ids, err := identities("an operation", listsOperations, args)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				changed, err := d.Redriver.Command(ctx, ids[0], command)
				if err != nil {
					return noOperation(err)
				}
				o := api.NewOperation(changed)
				return out.print(c.stdout, o, func(w io.Writer) error { return showOperation(w, o) })
			})
		},
	}
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}
