package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/cmd/internal/debezium"
)

func (c *commands) debezium() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debezium",
		Short: "Move an outbox table from Debezium's connector to Postrider, and back",
		Long: `Moves a table that Debezium's connector with the outbox event router sends to Postrider, without a
gap and without a second copy, while the writers go on: first a shadow beside the connector, in topics of
other names, then the cutover. The way back is the rollback. Each command can be run again when it broke off.`,
		Args: cobra.ArbitraryArgs,
		RunE: c.group,
	}
	cmd.AddCommand(c.debeziumCheck(), c.debeziumShadow(), c.debeziumCutover(), c.debeziumRollback())
	return cmd
}

// connectorFlag is the flag --connector.
const connectorFlag = "the connector's configuration: a `FILE`, or its address in Connect's REST API, http://HOST:8083/connectors/NAME"

// connectorProperties reads the configuration of a connector, with the login at Connect's REST API from the environment.
func (c *commands) connectorProperties(ctx context.Context, from string) (debezium.Properties, error) {
	env := func(name string) string {
		for _, entry := range c.environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value
			}
		}
		return ""
	}
	return debezium.Load(ctx, from, env(debezium.UserEnv), env(debezium.PasswordEnv))
}

// connector reads the configuration of a connector, and says what of it a cutover meets.
func (c *commands) connector(ctx context.Context, from string) (debezium.Connector, error) {
	properties, err := c.connectorProperties(ctx, from)
	if err != nil {
		return debezium.Connector{}, err
	}
	found, err := properties.Read()
	if err != nil {
		return found, err
	}
	if found.Plugin != "pgoutput" {
		return found, fmt.Errorf("the connector decodes with plugin.name=%s, and a table cannot be taken out of what that sends: move it to pgoutput first", found.Plugin)
	}
	if found.Autocreate == "filtered" {
		return found, errors.New("the connector has publication.autocreate.mode=filtered: when it starts, it puts the table back into its publication, and rows are sent twice; set it to disabled first")
	}
	if !found.Heartbeats {
		fmt.Fprintln(c.stderr, "postrider: the connector has no heartbeat.interval.ms: after the last row of a quiet table its slot does not move, and a cutover waits; set 1000")
	}
	return found, nil
}

// moveFlags are the flags of a cutover and of its rollback.
type moveFlags struct {
	run, plan bool
	lock      int
	cut       adopt.Cutover
}

func (f *moveFlags) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.run, "run", false, "do it; without it the steps are printed")
	cmd.Flags().BoolVar(&f.plan, "plan", false, "print the steps, as without --run")
	cmd.Flags().IntVar(&f.lock, "lock-timeout-ms", 2000, "how long a lock on the table is waited for in one attempt: writers that come meanwhile wait as long")
	cmd.Flags().BoolVar(&f.cut.Confirmed, "confirmed", false, "the connector has sent all that was written before the fence: do not ask its slot")
}

func (f *moveFlags) check() error {
	switch {
	case f.run && f.plan:
		return usagef("--run does it, and --plan prints what it would do: leave one out")
	case f.lock < 1:
		return usagef("--lock-timeout-ms is %d; it must be 1 or more", f.lock)
	}
	return nil
}

func (f *moveFlags) set(a *adopt.Adopter) { a.LockTimeout = time.Duration(f.lock) * time.Millisecond }

func (c *commands) debeziumCutover() *cobra.Command {
	var flags moveFlags
	var from string
	cmd := &cobra.Command{
		Use:   "cutover TABLE",
		Short: "Move a table from its connector to Postrider, without a gap",
		Long: `One transaction takes the table out of the connector's publication and lets the trigger have it: each
row is on one side of it. Later events are held in the database until the connector has sent what is
before, and then go. If the command ends early, nothing is lost: run it again, or run the rollback. The
connector must run, and must not put the table back: publication.autocreate.mode=disabled.`,
		Args: exactly("TABLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			if from != "" {
				found, err := c.connector(cmd.Context(), from)
				if err != nil {
					return err
				}
				flags.cut.Slot, flags.cut.Publication = cmp.Or(flags.cut.Slot, found.Slot), cmp.Or(flags.cut.Publication, found.Publication)
			}
			return c.withAdopter(cmd, func(a *adopt.Adopter) error {
				flags.set(a)
				if flags.run {
					return a.Cutover(cmd.Context(), args[0], flags.cut)
				}
				script, err := a.ShowCutover(cmd.Context(), args[0], flags.cut)
				return c.script(script, err)
			})
		},
	}
	flags.bind(cmd)
	cmd.Flags().StringVar(&from, "connector", "", connectorFlag)
	cmd.Flags().StringVar(&flags.cut.Slot, "slot", "", "the connector's replication `slot`: slot.name; without it the only one of pgoutput")
	cmd.Flags().StringVar(&flags.cut.Publication, "publication", "", "its `publication`: publication.name; without it the only one that has the table")
	return cmd
}

func (c *commands) debeziumRollback() *cobra.Command {
	var flags moveFlags
	var block int
	cmd := &cobra.Command{
		Use:   "rollback TABLE",
		Short: "Give a table back to its connector, without a gap",
		Long: `Waits until the relay has sent the events of the table. Then one transaction keeps the writers waiting
for the last of them, at most --block-ms, and puts the table back into the connector's publication. If that
is not enough, all stays as it is, and it is tried again. A cutover that broke off is ended first.`,
		Args: exactly("TABLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			if block < 1 {
				return usagef("--block-ms is %d; it must be 1 or more", block)
			}
			return c.withAdopter(cmd, func(a *adopt.Adopter) error {
				flags.set(a)
				r := adopt.Rollback{Cutover: flags.cut, Block: time.Duration(block) * time.Millisecond}
				if flags.run {
					return a.Rollback(cmd.Context(), args[0], r)
				}
				script, err := a.ShowRollback(cmd.Context(), args[0], r)
				return c.script(script, err)
			})
		},
	}
	flags.bind(cmd)
	cmd.Flags().IntVar(&block, "block-ms", 5000, "how long writers wait at most, in one attempt")
	return cmd
}
