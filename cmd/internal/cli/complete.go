package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// completeRest gives every command below cmd that has no completion of its own the ids that its argument can be, and flags
// that take an id likewise. A command whose argument is no id gets nothing: the shell would offer the names of files.
func (c *commands) completeRest(cmd *cobra.Command) {
	path := strings.TrimPrefix(cmd.CommandPath(), "postrider ")
	if cmd.ValidArgsFunction == nil && !takesFiles(cmd) {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if !strings.Contains(cmd.Use, " ID") {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return c.offerIDs(cmd, kindOf(path, len(args)), typed)
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if kind := kindOfFlag(path, f.Name); kind != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return c.offerIDs(cmd, kind, typed)
			})
		}
	})
	for _, sub := range cmd.Commands() {
		c.completeRest(sub)
	}
}

// takesFiles reports whether arguments of a command name files.
func takesFiles(cmd *cobra.Command) bool { return strings.Contains(cmd.Use, "FILE") }

// typedID is what can be the beginning of an id, of any length.
var typedID = regexp.MustCompile(`^[0-9a-f]{0,8}$|` + beginning.String())

// offerIDs offers ids of a kind that begin as typed, the first by their order; none for no kind.
func (c *commands) offerIDs(cmd *cobra.Command, kind *idKind, typed string) ([]string, cobra.ShellCompDirective) {
	typed = strings.ToLower(typed)
	if kind == nil || !typedID.MatchString(typed) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	var offered []string
	_ = c.withPool(ctx, func(pool *pgxpool.Pool) error {
		found, err := kind.find(ctx, pool, uuid.MustParse(padID(typed, '0')), uuid.MustParse(padID(typed, 'f')), 50)
		for _, id := range found {
			offered = append(offered, id.String())
		}
		return err
	})
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// completeRoles offers the roles that a list does not name yet, behind what is typed of it.
func completeRoles(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	var offered []string
	for _, role := range app.Roles() {
		if !slices.Contains(strings.Split(before, ","), string(role)) {
			offered = append(offered, before+string(role))
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
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
		ops, err := d.Redriver.ListOperations(ctx, dlq.OperationFilter{Open: true}, uuid.Nil, 50)
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
