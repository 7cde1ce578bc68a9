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
	cmd.AddCommand(c.detectorStatus(), c.pauseEngine(detectorSwitch), c.resumeEngine(detectorSwitch))
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
	pass := "none yet"
	if s.LastPassAt != nil {
		pass = fmt.Sprintf("%s by %s, %d stale tasks in %.1f ms", moment(*s.LastPassAt), s.LastPassBy, s.LastPassStale, s.LastPassMS)
		if s.LastPassDryRun {
			pass += ", a dry run"
		}
	}
	return fields(w, append(detectorSwitch.fields(s.Switch), [2]string{"Last pass", pass})...)
}
