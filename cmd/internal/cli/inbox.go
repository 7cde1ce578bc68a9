package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/consumer/inbox"
)

func (c *commands) inbox() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "The table by which services that consume handle each message once",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.inboxSchema())
	return cmd
}

func (c *commands) inboxSchema() *cobra.Command {
	var schema string
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the SQL that creates the table inbox_message, for a service's own migrations",
		Long: `Prints the SQL that creates the table inbox_message with its index and comments. The table belongs to
the service that consumes and stands in its database: run the script there, with psql or as one of its
migrations. Running it again changes nothing. Go services may call inbox.Migrate instead.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			box := inbox.Inbox{}
			if cmd.Flags().Changed("schema") {
				var err error
				if box, err = inbox.In(schema); err != nil {
					return &usageError{err}
				}
			}
			_, err := io.WriteString(c.stdout, box.Script())
			return err
		},
	}
	cmd.Flags().StringVar(&schema, "schema", "", "the `schema`, which must exist (default: the first of the search path)")
	return cmd
}
