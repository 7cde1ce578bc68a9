package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// engineSwitch is what commands say of the switch of engines of one kind.
type engineSwitch struct {
	engine ledger.Engine
	// engines is their name, work what they do, at the beginning of a sentence; label is that in a table.
	engines, work, label string
	// command has the commands pause, resume and status.
	command string
	// pause says what a pause does, for --help.
	pause string
}

var (
	detectorSwitch = engineSwitch{ledger.EngineDetector, "detectors", "Detection of stale tasks", "Detection", "postrider task detector",
		`Pause the detectors of all processes that use this database: no task is found to be stale, moved or
dead-lettered by them. They look at the switch before each pass; a pass that is under way ends first. What
gets stale meanwhile is found when they go on.`}
	archiverSwitch = engineSwitch{ledger.EngineArchiver, "archivers", "Archiving of tasks", "Archiving", "postrider archive",
		`Pause the archivers of all processes that use this database: tasks that ended stay in the ledger. They look
at the switch before each batch; a batch that is under way ends first. What ended meanwhile is archived when they
go on. postrider archive run works during a pause.`}
)

// fields are the switch in a table.
func (e engineSwitch) fields(s ledger.Switch) [][2]string {
	state, since, until := "working, where serve runs with the role "+string(e.engine), "", ""
	if s.Paused {
		state, until = "paused", "a person resumes it: "+e.command+" resume"
		if s.ResumeAt != nil {
			until = moment(*s.ResumeAt) + ", or " + e.command + " resume"
		}
	}
	if s.PausedAt != nil {
		since = moment(*s.PausedAt)
	}
	return [][2]string{{e.label, state}, {"Since", since}, {"By", s.PausedBy}, {"Reason", s.Reason}, {"Until", until}}
}

func (c *commands) pauseEngine(e engineSwitch) *cobra.Command {
	var p ledger.Pause
	var at acting
	cmd := &cobra.Command{
		Use:   "pause --by NAME",
		Short: "Pause the " + e.engines + " of all processes, until they are resumed or for a time",
		Long:  e.pause,
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case p.By == "":
				return usagef("say who pauses them, with --by")
			case p.For < 0:
				return usagef("--for is %v; it must not be negative", p.For)
			case p.For > 0 && p.For < time.Second:
				return usagef("--for is %v; it must be at least 1s, or 0 until a person resumes", p.For)
			}
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				if err := tasks.PauseEngine(ctx, actor, e.engine, p); err != nil {
					return err
				}
				s, err := tasks.Ledger().Switch(ctx, e.engine)
				if err != nil {
					return err
				}
				switch {
				case p.For > 0 && s.ResumeAt == nil:
					fmt.Fprintf(c.stdout, "%s was paused before, by %s without an end, and stays so.\n", e.work, visible(s.PausedBy))
				case s.ResumeAt != nil:
					fmt.Fprintf(c.stdout, "%s is paused until %s.\n", e.work, moment(*s.ResumeAt))
				default:
					fmt.Fprintf(c.stdout, "%s is paused until a person resumes it.\n", e.work)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&p.By, "by", "", "who you are")
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for the others")
	cmd.Flags().DurationVar(&p.For, "for", 0, "for how long; 0 is until a person resumes")
	c.actor(cmd, &at)
	return cmd
}

func (c *commands) resumeEngine(e engineSwitch) *cobra.Command {
	var at acting
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Let the " + e.engines + " go on after a pause",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				was, err := tasks.ResumeEngine(ctx, actor, e.engine)
				switch {
				case err != nil:
					return err
				case was:
					fmt.Fprintf(c.stdout, "The %s go on.\n", e.engines)
				default:
					fmt.Fprintf(c.stdout, "The %s were not paused.\n", e.engines)
				}
				return nil
			})
		},
	}
	c.actor(cmd, &at)
	return cmd
}
