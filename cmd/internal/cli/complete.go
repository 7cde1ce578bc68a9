package cli

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/dlq"
)

// Completion asks the database, where it can be reached soon; otherwise there is nothing to offer, and nothing is said.

// completionPatience is how long a person who pressed a key waits.
const completionPatience = 2 * time.Second

// completing runs do with the services of the desk.
func (c *commands) completing(cmd *cobra.Command, do func(ctx context.Context, d *app.Services) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	var offered []string
	_ = c.withServices(ctx, acting{}, "", func(ctx context.Context, d *app.Services, _ string) error {
		offered = do(ctx, d)
		return nil
	})
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// newestPending asks for the newest pending investigations.
func newestPending(limit int) dlq.Search {
	return dlq.Search{Filter: dlq.Filter{Status: dlq.Pending, Limit: limit}, WithoutTotal: true}
}

// completeEntries offers the newest pending investigations that are not named yet.
func (c *commands) completeEntries(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.completing(cmd, func(ctx context.Context, d *app.Services) []string {
		page, err := d.Investigations.Find(ctx, newestPending(50))
		if err != nil {
			return nil
		}
		var offered []string
		for _, e := range page.Entries {
			if id := e.UUID.String(); !slices.Contains(args, id) {
				offered = append(offered, id+"\t"+visible(shorten(e.ErrorMessage, maxCell)))
			}
		}
		return offered
	})
}

// completeGroups offers the groups seen last, or the groups in a state.
func (c *commands) completeGroups(state dlq.GroupState) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.completing(cmd, func(ctx context.Context, d *app.Services) []string {
			page, err := d.Investigations.ListGroups(ctx, dlq.GroupSearch{State: state, Limit: 50})
			if err != nil {
				return nil
			}
			offered := make([]string, len(page.Groups))
			for i, g := range page.Groups {
				offered[i] = g.UUID.String() + "\t" + string(g.State) + " " + visible(shorten(g.Title, maxCell))
			}
			return offered
		})
	}
}

// completeOperations offers the operations that have not ended.
func (c *commands) completeOperations(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completing(cmd, func(ctx context.Context, d *app.Services) []string {
		ops, err := d.Redriver.ListOperations(ctx, true, uuid.Nil, 50)
		if err != nil {
			return nil
		}
		offered := make([]string, len(ops))
		for i, o := range ops {
			offered[i] = o.UUID.String() + "\t" + string(o.State) + " " + visible(o.Name)
		}
		return offered
	})
}

// completeTopics offers the topics of the newest pending investigations.
func (c *commands) completeTopics(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.completing(cmd, func(ctx context.Context, d *app.Services) []string {
		page, err := d.Investigations.Find(ctx, newestPending(200))
		if err != nil {
			return nil
		}
		var topics []string
		for _, e := range page.Entries {
			if e.Topic != "" {
				topics = append(topics, e.Topic)
			}
		}
		slices.Sort(topics)
		return slices.Compact(topics)
	})
}
