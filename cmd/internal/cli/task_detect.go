package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// maxDetectBatch is what staleness.batch_size allows, too.
const maxDetectBatch = 10000

func (c *commands) taskDetectStale() *cobra.Command {
	var out output
	var at acting
	var dryRun bool
	var batch int
	cmd := &cobra.Command{
		Use:   "detect-stale",
		Short: "Find stale tasks once; by default only say what would be done",
		Long: `Find tasks that are too long in a state, or too old, and say which threshold was passed and where it comes
from: the template, its namespace, or the defaults of the section staleness. With --dry-run=false do with
them what their templates say, as the detector does: at most --batch-size of them, in one transaction.

MINUTES is how long the task is in its state, or how old it is, as OF says: that is what LIMIT is for.

It uses the settings that postrider serve wrote into the database, and works while the detectors are paused. A setting
that is given here, in the environment or in the file goes before. The settings of detection are listed; the others may
be given, too, by the names that they have for serve.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			cfg, err := c.load(nil, "database.url")
			if err != nil {
				return err
			}
			d := app.DetectionBeside(cfg)
			d.DryRun = dryRun
			if cmd.Flags().Changed("batch-size") {
				d.BatchSize = batch
			}
			if d.BatchSize < 1 || d.BatchSize > maxDetectBatch {
				return usagef("--batch-size is %d; it must be from 1 to %d", d.BatchSize, maxDetectBatch)
			}
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				began := time.Now()
				found, err := tasks.DetectStale(ctx, actor, d)
				if err != nil {
					return err
				}
				view := api.NewStaleTasks(found, dryRun, time.Since(began))
				return out.print(c.stdout, view, func(w io.Writer) error { return detectTable(w, view, d.BatchSize) })
			})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", true, "only say what would be done")
	cmd.Flags().IntVar(&batch, "batch-size", 0, "at most so many `tasks` (default staleness.batch_size, 100)")
	c.actor(cmd, &at)
	out.bind(cmd)
	c.settings.bindShowing(cmd.Flags(), "staleness")
	return cmd
}

func detectTable(w io.Writer, v api.StaleTasks, batch int) error {
	if v.Detected == 0 {
		_, err := fmt.Fprintln(w, "No task is stale.")
		return err
	}
	rows := make([][]string, len(v.Tasks))
	for i, t := range v.Tasks {
		minutes := int64(t.TimeInStateMinutes)
		if t.ThresholdKind == "lifetime" {
			minutes = int64(t.TaskAgeSeconds / 60)
		}
		rows[i] = []string{t.TaskUUID.String(), t.NamespaceName + "/" + t.TaskName, t.CurrentState, count(minutes),
			strconv.Itoa(t.StalenessThresholdMinutes), t.ThresholdKind, t.ThresholdSource, string(t.ActionTaken), t.DLQReason}
	}
	if err := grid(w, []string{"TASK", "TEMPLATE", "STATE", "MINUTES", "LIMIT", "OF", "FROM", "ACTION", "REASON"}, rows); err != nil {
		return err
	}
	if v.DryRun {
		fmt.Fprintf(w, "\n%s stale. This was a dry run: nothing was changed. With --dry-run=false the actions are taken.\n", plural.Of(v.Detected, "task is", "tasks are"))
	} else {
		fmt.Fprintf(w, "\n%s stale: %d moved to their failed state, %d dead-lettered.\n", plural.Of(v.Detected, "task was", "tasks were"), v.Transitioned, v.MovedToDLQ)
	}
	if v.Detected == batch {
		fmt.Fprintf(w, "There may be more: these are as many as --batch-size allows.\n")
	}
	return nil
}

func (c *commands) taskDetector() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "detector",
		Short: "Look at the detectors of stale tasks, pause them all, and let them go on",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.detectorStatus(), c.detectorPause(), c.detectorResume())
	return cmd
}

func (c *commands) detectorStatus() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether the detectors work, and what the last pass did",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withLedger(cmd.Context(), func(l postgres.Ledger) error {
				s, err := l.DetectorStatus(cmd.Context())
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.DetectorOf(s), func(w io.Writer) error { return detectorTable(w, s) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

func detectorTable(w io.Writer, s ledger.DetectorStatus) error {
	state, until, pass := "working, where serve runs with the role detector", "", "none yet"
	if s.Paused {
		state, until = "paused", "a person resumes it: postrider task detector resume"
		if s.ResumeAt != nil {
			until = moment(*s.ResumeAt) + ", or postrider task detector resume"
		}
	}
	if s.LastPassAt != nil {
		pass = fmt.Sprintf("%s by %s, %d stale tasks in %.1f ms", moment(*s.LastPassAt), s.LastPassBy, s.LastPassStale, s.LastPassMS)
		if s.LastPassDryRun {
			pass += ", a dry run"
		}
	}
	since := ""
	if s.PausedAt != nil {
		since = moment(*s.PausedAt)
	}
	return fields(w, [2]string{"Detection", state}, [2]string{"Since", since}, [2]string{"By", s.PausedBy}, [2]string{"Reason", s.Reason},
		[2]string{"Until", until}, [2]string{"Last pass", pass})
}

func (c *commands) detectorPause() *cobra.Command {
	var p ledger.Pause
	var at acting
	cmd := &cobra.Command{
		Use:   "pause --by NAME",
		Short: "Pause the detectors of all processes, until they are resumed or for a time",
		Long: `Pause the detectors of all processes that use this database: no task is found to be stale, moved or
dead-lettered by them. They look at the switch before each pass; a pass that is under way ends first. What
gets stale meanwhile is found when they go on.`,
		Args: exactly(),
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
				if err := tasks.PauseDetector(ctx, actor, p); err != nil {
					return err
				}
				s, err := tasks.Ledger().DetectorStatus(ctx)
				if err != nil {
					return err
				}
				if p.For > 0 && s.ResumeAt == nil {
					fmt.Fprintf(c.stdout, "Detection was paused before, by %s without an end, and stays so.\n", visible(s.PausedBy))
					return nil
				}
				if s.ResumeAt != nil {
					fmt.Fprintf(c.stdout, "Detection of stale tasks is paused until %s.\n", moment(*s.ResumeAt))
				} else {
					fmt.Fprintln(c.stdout, "Detection of stale tasks is paused until a person resumes it.")
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

func (c *commands) detectorResume() *cobra.Command {
	var at acting
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Let the detectors go on after a pause",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withTasks(cmd.Context(), at, func(ctx context.Context, tasks *actions.Tasks, actor string) error {
				was, err := tasks.ResumeDetector(ctx, actor)
				switch {
				case err != nil:
					return err
				case was:
					fmt.Fprintln(c.stdout, "The detectors go on with their next pass.")
				default:
					fmt.Fprintln(c.stdout, "The detectors were not paused.")
				}
				return nil
			})
		},
	}
	c.actor(cmd, &at)
	return cmd
}
