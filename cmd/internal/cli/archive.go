package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/tasks/ledger"
	ledgerpostgres "github.com/postrider/postrider/internal/tasks/postgres"
)

func (c *commands) archive() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "archive",
		Short: "Look at tasks that ended long ago, move them out of the way, and pause the archivers",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.archiveRun(), c.archiveList(), c.archiveShow(), c.archiveStats(),
		c.archiveStatus(), c.pauseEngine(archiverSwitch), c.resumeEngine(archiverSwitch))
	return cmd
}

func (c *commands) archiveRun() *cobra.Command {
	var out output
	var at acting
	var dry bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Count what may be archived, or archive it at once",
		Long: `Counts the tasks that ended more than archive.retention_days ago and that the policies let go; with
--dry-run=false moves them to the archive, in transactions of up to 250 tasks. Tasks
with a pending investigation, or with a dead letter on its way, stay. postrider serve does the same
every archive.archive_interval_hours. The command works while the archivers are paused.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			cfg, err := c.load(nil, "database.url")
			if err != nil {
				return err
			}
			policies := app.ArchivePolicies(cfg.Archive)
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, _ string) error {
				run := func() (ledger.Archived, error) {
					return ledger.Archive(ctx, d.Archive, ledger.ArchiveOptions{
						RetentionDays: cfg.Archive.RetentionDays, BatchSize: cfg.Archive.ArchiveBatchSize, Policies: &policies, DryRun: dry,
					})
				}
				var got ledger.Archived
				if dry {
					got, err = run()
				} else {
					got, err = told(ctx, d, "archive.run", "task", run)
				}
				if err == nil || got.Tasks > 0 { // what was moved stays moved
					if printErr := out.print(c.stdout, api.ArchiveRun{DryRun: dry, Archived: got}, func(w io.Writer) error { return archivedTable(w, got, dry) }); err == nil {
						err = printErr
					}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", true, "only count; --dry-run=false archives")
	c.actor(cmd, &at)
	out.bind(cmd)
	c.settings.bindAll(cmd.Flags(), nil)
	return cmd
}

func (c *commands) archiveStatus() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether the archivers are paused, by whom and why",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withLedger(cmd.Context(), func(l ledgerpostgres.Ledger) error {
				s, err := l.Switch(cmd.Context(), ledger.EngineArchiver)
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.SwitchOf(s), func(w io.Writer) error { return fields(w, archiverSwitch.fields(s)...) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

func archivedTable(w io.Writer, a ledger.Archived, dry bool) error {
	head := "ARCHIVED"
	if dry {
		head = "WOULD BE ARCHIVED"
	}
	return grid(w, []string{"KIND", head}, [][]string{
		{"tasks", strconv.Itoa(a.Tasks)},
		{"  complete", strconv.Itoa(a.Complete)},
		{"  error", strconv.Itoa(a.Error)},
		{"  cancelled", strconv.Itoa(a.Cancelled)},
		{"  dlq_resolved", strconv.Itoa(a.DLQResolved)},
		{"steps", strconv.Itoa(a.Steps)},
		{"transitions", strconv.Itoa(a.Transitions)},
	})
}

func (c *commands) archiveList() *cobra.Command {
	var out output
	var f ledger.ArchiveFilter
	var final, after string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List archived tasks, the last archived first",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			f.FinalState = ledger.FinalState(final)
			switch {
			case final != "" && !slices.Contains(ledger.FinalStates(), f.FinalState):
				return usagef("--final-state is %q; it must be one of %s", final, join(ledger.FinalStates()))
			case f.Name != "" && f.Namespace == "":
				return usagef("--name needs --namespace beside it")
			case f.Limit < 1 || f.Limit > ledger.MaxArchiveLimit:
				return usagef("--limit is %d; it must be from 1 to %d", f.Limit, ledger.MaxArchiveLimit)
			}
			if after != "" {
				place, err := ledger.ParseTaskPlace(after)
				if err != nil {
					return usagef("--after: %w", err)
				}
				f.Before = &place
			}
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				tasks, more, err := ledgerpostgres.NewArchive(pool).List(cmd.Context(), f)
				if err != nil {
					return err
				}
				list := api.NewArchivedTaskList(tasks, more)
				return out.print(c.stdout, list, func(w io.Writer) error { return archiveTable(w, list) })
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Namespace, "namespace", "", "only tasks of this `namespace`")
	flags.StringVar(&f.Name, "name", "", "only tasks of the template with this `name`")
	flags.StringVar(&final, "final-state", "", "only tasks archived under this `policy`: "+join(ledger.FinalStates()))
	flags.StringVar(&after, "after", "", "go on with a list: the `next` of the one before")
	flags.IntVar(&f.Limit, "limit", ledger.DefaultArchiveLimit, fmt.Sprintf("how many, 1 to %d", ledger.MaxArchiveLimit))
	out.bind(cmd)
	return cmd
}

func archiveTable(w io.Writer, list api.List[ledger.Task]) error {
	if len(list.Items) == 0 {
		_, err := fmt.Fprintln(w, "There are no such tasks in the archive.")
		return err
	}
	rows := make([][]string, len(list.Items))
	for i, t := range list.Items {
		rows[i] = []string{t.UUID.String(), t.Namespace + "/" + t.Name + "@" + t.Version, t.State, string(value(t.FinalState)), moment(t.CreatedAt), moment(value(t.ArchivedAt))}
	}
	if err := grid(w, []string{"ID", "TEMPLATE", "STATE", "AS", "CREATED", "ARCHIVED"}, rows); err != nil {
		return err
	}
	return goOn(w, list.Next)
}

func (c *commands) archiveShow() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an archived task with its steps and its history",
		Long: `Show an archived task with its steps and its history. As JSON it is what GET /archive/tasks/{id}/payload of the
API answers.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			id, err := parseID(args[0], "a task", "postrider archive list")
			if err != nil {
				return err
			}
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				whole, err := ledger.ReadArchived(cmd.Context(), ledgerpostgres.NewArchive(pool), id)
				if errors.Is(err, ledger.ErrNotArchived) {
					return fmt.Errorf("there is no task %s in the archive; postrider archive list shows the existing ones", id)
				}
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.WholeTaskOf(whole), func(w io.Writer) error { return showTask(w, whole) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

func (c *commands) archiveStats() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show how much is in the archive, by the month in which tasks were created",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				stats, err := ledgerpostgres.NewArchive(pool).Statistics(cmd.Context())
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.All(api.ArchiveStatisticsOf, stats), func(w io.Writer) error { return statisticsTable(w, stats) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

func statisticsTable(w io.Writer, stats []ledger.ArchiveStatistics) error {
	if len(stats) == 0 {
		_, err := fmt.Fprintln(w, "The archive is empty.")
		return err
	}
	rows := make([][]string, len(stats))
	for i, s := range stats {
		rows[i] = []string{s.Month.Format("2006-01")}
		for _, n := range []int64{s.Tasks, s.Complete, s.Error, s.Cancelled, s.DLQResolved, s.Steps, s.Transitions} {
			rows[i] = append(rows[i], strconv.FormatInt(n, 10))
		}
		rows[i] = append(rows[i], moment(s.LastArchivedAt))
	}
	if err := grid(w, []string{"MONTH", "TASKS", "COMPLETE", "ERROR", "CANCELLED", "DLQ RESOLVED", "STEPS", "TRANSITIONS", "LAST"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "The archive takes %s.\n", stats[0].Size)
	return err
}
