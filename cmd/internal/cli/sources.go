package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/plural"
)

func (c *commands) sources() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "sources",
		Short: "Look at every database whose outbox is carried beside that of database.url",
		Long: `Connects to each source of the settings, and shows whether a relay leads it, how much waits there, and
what is wrong with it, in a word: away, slow, full, read_only, login, rights, connections, no_database, schema,
version, name, copy, rewound, desk_rewound, identity, forgotten or error. With database.url it also says which
commands of the desk a source has not answered. Give it the settings of postrider serve (--config FILE).

Exit codes: 0 all sources can be carried, 1 one cannot, or the desk's database is away, 2 wrong command line or
setting.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			cfg, err := c.load(nil)
			if err != nil {
				return err
			}
			if len(cfg.Sources) == 0 && cfg.Database.URL == "" {
				return usagef("the settings have no sources; name them in the section sources of the file, or in the folder that its sources_dir names (--config FILE)")
			}
			var desk *app.Services
			var away error // what the desk knows is not known then; its sources are carried all the same
			if cfg.Database.URL != "" {
				pool, err := app.OpenPool(cmd.Context(), cfg.Database, 1)
				if err != nil {
					away = fmt.Errorf("what the desk knows of the sources is not shown: %w", err)
				} else {
					defer pool.Close()
					if desk, err = app.NewServices(pool, cfg); err != nil {
						return err
					}
				}
			}
			found := app.LookAtSources(cmd.Context(), cfg, desk)
			looks := found.Items
			if err := out.print(c.stdout, found, func(w io.Writer) error { return sourcesTable(w, found) }); err != nil {
				return err
			}
			if away != nil {
				return away
			}
			for _, l := range looks {
				if !l.OK {
					return &spokenError{errors.New("a source cannot be carried")} // the table says which
				}
			}
			return nil
		},
	}
	out.bind(cmd)
	cmd.AddCommand(c.sourcesRejoin(), c.sourcesForget())
	return cmd
}

func sourcesTable(w io.Writer, found api.Sources) error {
	looks := found.Items
	if len(looks) == 0 {
		fmt.Fprintln(w, "The settings name no source beside the outbox of database.url.")
		return removedText(w, found.Removed)
	}
	rows := make([][]string, len(looks))
	wrong := 0
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	for i, l := range looks {
		if !l.OK {
			wrong++
			rows[i] = []string{l.Name, api.OrZero(l.Reason), "", "", "", "", ""}
			continue
		}
		state, leader, oldest := "not led", "", ""
		if l.Led {
			state, leader = "led", api.OrZero(l.Leader)
		}
		if l.OldestDueSeconds > 0 {
			oldest = time.Duration(l.OldestDueSeconds * float64(time.Second)).Round(time.Second).String()
		}
		rows[i] = []string{l.Name, state, leader, count(l.Pending), count(l.Parked + l.Scheduled + l.Exhausted), count(l.DeadLettered), oldest}
	}
	if err := grid(w, []string{"SOURCE", "STATE", "LEADER", "PENDING", "HELD BACK", "DEAD", "OLDEST DUE"}, rows); err != nil {
		return err
	}
	for _, l := range looks {
		if !l.OK {
			fmt.Fprintf(w, "\n%s (%s): %s\n", l.Name, visible(l.Origin), visible(api.OrZero(l.Error)))
		}
	}
	for _, l := range looks {
		if n := api.OrZero(l.WaitingCommands); n > 0 {
			fmt.Fprintf(w, "\n%s has not answered %s of the desk, the oldest for %s.\n", l.Name, plural.Of(int(n), "command", "commands"),
				time.Since(api.OrZero(l.OldestCommandAt)).Round(time.Second))
		}
	}
	for _, l := range looks {
		if l.OtherDesk {
			fmt.Fprintf(w, "\n%s belongs to the desk %s, and refuses the commands of this one.\n", l.Name, visible(api.OrZero(l.Desk)))
		}
	}
	if wrong > 0 {
		fmt.Fprintf(w, "\n%s of %d cannot be carried. The others go on.\n", plural.Of(wrong, "source", "sources"), len(looks))
	}
	return removedText(w, found.Removed)
}

// removedText says which sources the desk knows and the settings do not name.
func removedText(w io.Writer, removed []api.RemovedSource) error {
	for _, r := range removed {
		left := plural.Of(int(r.Pending), "investigation", "investigations") + " pending"
		if r.ForgottenAt != nil {
			fmt.Fprintf(w, "\n%s is forgotten since %s; %s.\n", r.Name, moment(*r.ForgottenAt), left)
			continue
		}
		fmt.Fprintf(w, "\n%s is not in the settings; %s, %s without an answer. If it is gone for good: postrider sources forget %s.\n", r.Name, left,
			plural.Of(int(r.WaitingCommands), "command", "commands"), r.Name)
	}
	return nil
}
