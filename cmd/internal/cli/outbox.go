package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
)

func (c *commands) outbox() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Look at the events that wait for Kafka, and work on them by hand",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.outboxStatus(), c.outboxList(), c.outboxHolds(), c.outboxRelease(), c.outboxGiveUp(), c.outboxSkip(), c.outboxRedrive(),
		c.outboxProcess(), c.outboxRetry(), c.outboxCleanup(), c.outboxStats(), c.outboxPurge())
	return cmd
}

func (c *commands) outboxStatus() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Count events by state, and list what is held and why",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withOutbox(cmd.Context(), func(store *postgres.Store) error {
				status, err := store.Status(cmd.Context())
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.NewOutboxStatus(status), func(w io.Writer) error { return outboxTable(w, status) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

// overdue is the age at which a due event gets a remark if no process works on it.
const overdue = 5 * time.Second

func outboxTable(w io.Writer, s relay.Status) error {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	oldest := "No event is overdue."
	if s.OldestDueSeconds > 0 {
		age := time.Duration(s.OldestDueSeconds * float64(time.Second))
		oldest = fmt.Sprintf("The oldest event that should have gone by now is %v old.", age.Round(time.Second))
	}
	if err := grid(w, []string{"STATE", "EVENTS", ""}, [][]string{
		{"pending", count(s.Pending), fmt.Sprintf("in the log, read next; %d of them are due", s.Due)},
		{"scheduled", count(s.Scheduled), "wait for their time"},
		{"parked", count(s.Parked), "wait for a hold to end"},
		{"processing", count(s.Processing), "had waited, and are being sent now"},
		{"exhausted", count(s.Exhausted), "on their way to the dead-letter topic"},
		{"dead_lettered", count(s.DeadLettered), "arrived there"},
		{"failed", count(s.Failed), "of the waiting ones, were tried and will be again"},
	}); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n", oldest)
	if len(s.Holds) == 0 {
		fmt.Fprintln(w, "Nothing is held.")
		if s.OldestDueSeconds >= overdue.Seconds() && s.Processing == 0 {
			fmt.Fprintln(w, "No relay works on the due events: check that one runs and leads (postrider_outbox_leading), and by its /readyz and log that it reaches the brokers.")
		}
		return nil
	}
	shown := int64(len(s.Holds))
	if s.HoldCount <= shown {
		fmt.Fprintf(w, "\n%s\n", plural.Of(shown, "hold:", "holds, the oldest first:"))
		return holdTable(w, s.Holds)
	}
	fmt.Fprintf(w, "\n%d holds; the %d oldest are:\n", s.HoldCount, shown)
	if err := holdTable(w, s.Holds); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "The others: postrider outbox holds --after %s\n", postgres.PlaceOf(s.Holds[shown-1]))
	return err
}
