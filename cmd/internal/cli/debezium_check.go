package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/debezium"
	"github.com/postrider/postrider/cmd/internal/debezium/check"
)

func (c *commands) debeziumCheck() *cobra.Command {
	var out output
	var from, worker string
	var compared check.Config
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Compare a connector's settings, database and records with what Postrider would do",
		Long: `Reads the configuration of a connector with the outbox event router, and says of each setting whether
consumers get the same from Postrider, what differs and what to set, or what is refused and why. Then it
looks at the table, the publication, the slot, rights and order, and compares the last records of the topics
with what Postrider would send for their rows, byte by byte. Nothing is changed. What the shadow sends is
compared by postrider debezium shadow --follow.

--connector is a file (JSON or properties), or the connector in Connect's REST API; its login is taken from
` + debezium.UserEnv + ` and ` + debezium.PasswordEnv + `. The report ends with the settings that do what the connector does. Exit
codes: 0 the same, 1 something differs or failed, 2 something is refused, or the command line is wrong.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			switch {
			case from == "":
				return usagef("--connector is missing: give a file with the connector's configuration, or http://HOST:8083/connectors/NAME")
			case compared.Last < 1 || compared.Last > 100_000:
				return usagef("--last is %d; it must be between 1 and 100000", compared.Last)
			}
			report, err := c.checkConnector(cmd, from, worker, compared)
			if err != nil {
				return err
			}
			if err := out.print(c.stdout, report, func(w io.Writer) error { return connectorTable(w, report) }); err != nil {
				return err
			}
			switch report.Verdict {
			case debezium.Refused:
				return &spokenError{&usageError{errors.New("something is refused")}}
			case debezium.Differs:
				return &spokenError{errors.New("something differs")}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "connector", "", connectorFlag)
	cmd.Flags().StringVar(&worker, "worker", "", "a properties `file` of the Connect worker, for the converters that the connector does not set")
	cmd.Flags().StringVar(&compared.Table, "table", "", "the outbox `table`, SCHEMA.NAME, where table.include.list means several")
	cmd.Flags().StringSliceVar(&compared.Topics, "topic", nil, "a `topic` to compare, beside those of the rows in the table; again for more")
	cmd.Flags().IntVar(&compared.Last, "last", 200, "how many records of each topic are compared")
	cmd.Flags().BoolVar(&compared.KeysLocked, "keys-locked", false, "each writer locks the key before it inserts, so that commit_order is not needed")
	out.bind(cmd)
	c.settings.bindShowing(cmd.Flags(), "database", "kafka")
	return cmd
}

// checkConnector reads the configuration and makes the comparison.
func (c *commands) checkConnector(cmd *cobra.Command, from, worker string, compared check.Config) (check.Report, error) {
	cfg, err := c.load(nil)
	if err != nil {
		return check.Report{}, err
	}
	ctx := cmd.Context()
	compared.Settings, compared.From = cfg, from
	if compared.Properties, err = c.connectorProperties(ctx, from); err != nil {
		return check.Report{}, err
	}
	if worker != "" {
		properties, err := debezium.Load(ctx, worker, "", "")
		if err != nil {
			return check.Report{}, fmt.Errorf("--worker: %w", err)
		}
		compared.Properties = compared.Properties.WithWorker(properties)
	}
	if cfg.Database.URL != "" {
		pool, err := app.OpenAny(ctx, cfg.Database, 2)
		if err == nil {
			defer pool.Close()
			compared.Database = pool
		}
		compared.DatabaseError = err
	}
	if len(cfg.Kafka.Brokers) > 0 {
		compared.Kafka = check.Brokers(cfg.Kafka)
	}
	return check.Check(ctx, compared)
}

// verdictMarks begin the lines of a comparison.
var verdictMarks = map[debezium.Verdict]string{debezium.Same: "✓", debezium.Differs: "!", debezium.Refused: "✗", debezium.NotLookedAt: "-"}

func connectorTable(w io.Writer, r check.Report) error {
	fmt.Fprintln(w, "SETTINGS")
	knobLines(w, r.Settings)
	fmt.Fprintln(w, "\nDATABASE")
	knobLines(w, r.Database)
	fmt.Fprintf(w, "\nRECORDS\n%s %s\n", verdictMarks[r.Records.Verdict], visible(r.Records.Says))
	for _, d := range r.Records.Differences {
		differenceLines(w, d)
	}
	counts := map[debezium.Verdict]int{}
	for _, k := range slices.Concat(r.Settings, r.Database) {
		counts[k.Verdict]++
	}
	fmt.Fprintf(w, "\nThe connector %s: %s (%d same, %d differ, %d refused, %d not looked at)\n", visible(cmp.Or(r.Connector, "without a name")), r.Verdict,
		counts[debezium.Same], counts[debezium.Differs], counts[debezium.Refused], counts[debezium.NotLookedAt])
	if r.Rules != "" {
		fmt.Fprintf(w, "\nThese settings do what the connector does:\n\n%s", r.Rules)
	}
	_, err := fmt.Fprintf(w, "\nNext: %s\n", r.Next)
	return err
}

// differenceLines prints in which parts a record is not as Postrider's.
func differenceLines(w io.Writer, d check.Difference) {
	fmt.Fprintf(w, "  %s, partition %d, offset %d, id %s\n", visible(d.Topic), d.Partition, d.Offset, visible(d.ID))
	for _, p := range d.Parts {
		at := ""
		if p.At != nil {
			at = fmt.Sprintf(", from byte %d", *p.At)
		}
		fmt.Fprintf(w, "    %s%s\n      Debezium   %s\n      Postrider  %s\n", visible(p.Part), at, visible(p.Theirs), visible(p.Ours))
	}
	if d.Note != "" {
		fmt.Fprintf(w, "    %s\n", visible(d.Note))
	}
}

// knobLines prints refused knobs first, then knobs that differ, then knobs that are the same, and the names of the others.
func knobLines(w io.Writer, knobs []debezium.Knob) {
	var unknown []string
	for _, verdict := range []debezium.Verdict{debezium.Refused, debezium.Differs, debezium.Same, debezium.NotLookedAt} {
		for _, k := range knobs {
			switch {
			case k.Verdict != verdict:
				continue
			case k.Verdict == debezium.NotLookedAt && k.Says == "":
				unknown = append(unknown, k.Name)
				continue
			}
			value := k.Value
			switch {
			case value != "" && k.Default:
				value = " = " + value + " (default)"
			case value != "":
				value = " = " + value
			}
			fmt.Fprintf(w, "%s %s%s: %s\n", verdictMarks[k.Verdict], visible(k.Name), visible(value), visible(k.Says))
			if k.Do != "" {
				fmt.Fprintf(w, "    → %s\n", visible(k.Do))
			}
		}
	}
	if len(unknown) > 0 {
		fmt.Fprintf(w, "- not looked at: %s\n", visible(strings.Join(unknown, ", ")))
	}
}
