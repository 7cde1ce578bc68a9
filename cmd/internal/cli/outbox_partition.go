package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/relay/postgres"
)

// partitionView is the JSON of outbox partition.
type partitionView struct {
	Partitioned bool  `json:"partitioned"`
	Rows        int64 `json:"rows"`
}

func (c *commands) outboxPartition() *cobra.Command {
	var out output
	var rows int64
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "partition",
		Short: "Partition the outbox by id, so that retention drops tables instead of deleting rows",
		Long: `For outboxes of thousands of events a second. Makes outbox_event a partitioned table, with the table
there is as its first partition; no row is copied. Services and relays may go on meanwhile: the table
is read once beside them, and then locked for some milliseconds. Ids go on a thousand million later.

From then on relays add partitions of --rows ids ahead of the writers, and drop a partition as a whole
when nothing in it waits and outbox.retention_days have passed. Choose --rows so that fewer than a
hundred partitions cover the time that events are kept, and each more than ten minutes of writing.

It runs as the owner of the schema and cannot be undone by a command. It refuses while foreign keys,
triggers, policies, publications or views of others stand on the table.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if rows < 10_000 {
				return usagef("--rows is %d; it must be 10000 or more, and should be millions", rows)
			}
			if patience <= 0 {
				return usagef("--wait is %v; it must be positive", patience)
			}
			return c.withDatabase(cmd.Context(), func(conn *pgx.Conn) error {
				if err := postgres.Partition(cmd.Context(), conn, postgres.PartitionOptions{Rows: rows, Patience: patience}); err != nil {
					return explain(err, "let the user of database.url be the role that owns the schema postrider")
				}
				return out.print(c.stdout, partitionView{true, rows}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "outbox_event is partitioned, with %d ids in each partition; relays look after the partitions from now on\n", rows)
					return err
				})
			})
		},
	}
	cmd.Flags().Int64Var(&rows, "rows", 10_000_000, "how many `ids` each partition has")
	cmd.Flags().DurationVar(&patience, "wait", time.Minute, "how long to try to get the table's lock, half a second at a time")
	out.bind(cmd)
	return cmd
}
