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
	var why string
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "start ID",
		Short: "Begin an operation that was planned; with --wait watch it to its end",
		Long: `Begin an operation that was planned. One that has begun stays as it is, and one that has ended is refused. The work is
done by postrider serve; where it was given --roles, one process must have the role operator (postrider serve --roles
operator), or nothing happens.

With --wait the progress is shown on standard error until the operation ends, or stops for a person: halted by itself,
or paused. Watching ends after --timeout as well; the operation goes on then, as it does when you leave. Exit codes
with --wait: 0 completed, and what was sent has arrived; 1 halted, paused, aborted, or the time is over; 3 completed,
and some investigations were skipped, some messages became dead letters again, or had not arrived an hour after the
last was sent.`,
		Args:              exactly("ID"),
		ValidArgsFunction: c.completeOperations,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			switch {
			case !wait && cmd.Flags().Changed("timeout"):
				return usagef("--timeout goes with --wait")
			case patience <= 0:
				return usagef("--timeout is %s; it must be longer than 0, such as 30m or 2h", patience)
			}
			ids, err := identities("an operation", listsOperations, args)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				o, err := d.Redriver.Command(ctx, ids[0], dlq.Start, why)
				if err != nil {
					return noCommand(err, ids[0])
				}
				if wait {
					if o, err = watch(ctx, d.Redriver, o.UUID, newBar(c.stderr), watchPause, patience); err != nil {
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
	whyCommanded(cmd, &why)
	cmd.Flags().BoolVar(&wait, "wait", false, "watch it until it ends, or stops for a person")
	cmd.Flags().DurationVar(&patience, "timeout", time.Hour, "with --wait: watch no longer than this, such as 30m or 2h; the operation goes on")
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

// whyCommanded is the flag of what changes the state of an operation.
func whyCommanded(cmd *cobra.Command, why *string) {
	cmd.Flags().StringVar(why, "why", "", "why, for the audit log; op show has it")
}

// outcome makes the end of an operation an exit code.
func outcome(o dlq.Operation) error {
	switch {
	case o.State != dlq.Completed:
		return errors.New(stopped(o))
	case o.Skipped+o.Failed+o.CameBack > 0, o.Kind == dlq.OpRedrive && o.Delivered+o.CameBack < o.Done:
		return &spokenError{errPartly}
	}
	return nil
}

// stopped says why an operation does nothing more, and what to do.
func stopped(o dlq.Operation) string {
	text := fmt.Sprintf("operation %s is %s", o.UUID, o.State)
	if o.Error != "" {
		text += ": " + o.Error
	}
	switch o.State {
	case dlq.Halted:
		return text + fmt.Sprintf("; postrider op items %[1]s --outcome came_back lists them: find out why, then postrider op resume %[1]s, or postrider op abort %[1]s", o.UUID)
	case dlq.Paused:
		return text + fmt.Sprintf("; postrider op resume %[1]s goes on, postrider op abort %[1]s ends it", o.UUID)
	}
	return text + fmt.Sprintf("; postrider op items %s says what became of each investigation", o.UUID)
}

// noCommand says where to look when an operation is not there, or does not take a command.
func noCommand(err error, id uuid.UUID) error {
	if errors.Is(err, dlq.ErrState) {
		return fmt.Errorf("%w; postrider op show %s says what became of it", err, id)
	}
	return noOperation(err)
}

const (
	watchPause = 500 * time.Millisecond
	// lookLimit bounds one look, and watchPatience for how long looks may fail one after the other: the operation goes on
	// meanwhile, and a database that is restarted is back by then.
	lookLimit     = 10 * time.Second
	watchPatience = 2 * time.Minute
	// stallLimit is after how long without any progress it is said what may be wrong. An operation with a low rate has three
	// times its pause.
	stallLimit = 2 * time.Minute
)

// watch looks at an operation until no process works on it any more, for a time at most.
func watch(ctx context.Context, ops dlq.Redriver, id uuid.UUID, b *bar, pause, most time.Duration) (dlq.Operation, error) {
	began := time.Now()
	seen, moved, last := began, began, dlq.Operation{UUID: id}
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
			switch done := o.Done + o.Skipped + o.Failed + o.Delivered + o.CameBack; {
			case last.State == "" || done != last.Done+last.Skipped+last.Failed+last.Delivered+last.CameBack || o.State != last.State:
				moved = time.Now()
			case time.Since(moved) >= stallAfter(o):
				b.tell(fmt.Sprintf("nothing has changed for %s: %s", stallAfter(o), whatStalls(o)))
				moved = time.Now()
			}
			last = o
		case ctx.Err() != nil: // said below
		case errors.Is(err, dlq.ErrNotFound), time.Since(seen) > watchPatience:
			b.end()
			return o, fmt.Errorf("the operation cannot be looked at; postrider op show %s tries again: %w", id, err)
		default:
			b.draw("the operation cannot be looked at now, and is tried again: "+visible(err.Error()), 0, 1)
		}
		if time.Since(began) >= most {
			b.end()
			return last, fmt.Errorf("stopped watching after %s, with operation %s in the state %q; it goes on: postrider op show %s. If its numbers stay: %s", most, id, last.State, id, whatStalls(last))
		}
		select {
		case <-ctx.Done():
			b.end()
			return o, fmt.Errorf("stopped watching; the operation goes on: postrider op show %s", id)
		case <-time.After(pause):
		}
	}
}

// stallAfter is how long an operation without any change is not remarkable.
func stallAfter(o dlq.Operation) time.Duration {
	if o.Options.Rate <= 0 {
		return stallLimit
	}
	return max(stallLimit, time.Duration(3/o.Options.Rate*float64(time.Second)))
}

// whatStalls says what keeps an operation from going on, and what to do.
func whatStalls(o dlq.Operation) string {
	if o.Kind == dlq.OpRedrive && o.Delivered+o.CameBack < o.Done {
		return "messages that were sent have not arrived; postrider outbox status and postrider outbox holds say what keeps them"
	}
	return "a process with the role operator must run (postrider serve); postrider doctor says what is wrong"
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
	b.draw(fmt.Sprintf("%s: %s", o.State, progress(o)), handled(o), o.Items)
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

// tell writes a line that stays.
func (b *bar) tell(line string) {
	if b.terminal {
		line = "\r\x1b[K" + line
	}
	b.last = ""
	fmt.Fprintln(b.w, line)
}

func (b *bar) end() {
	if b.terminal && b.last != "" {
		fmt.Fprintln(b.w)
	}
}

func (c *commands) opCommand(command dlq.Command, short string) *cobra.Command {
	var out output
	var at acting
	var why string
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
				changed, err := d.Redriver.Command(ctx, ids[0], command, why)
				if err != nil {
					return noCommand(err, ids[0])
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
