package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/dlq"
)

func (c *commands) dlqGroupMerge() *cobra.Command {
	var out output
	var at acting
	cmd := &cobra.Command{
		Use:   "merge ID INTO",
		Short: "Merge a group into another, because both have one cause",
		Long: `Merge a group into another, because both have one cause. The investigations of the first go into the second, and
investigations that would be opened in the first are opened in the second from now on. The first one is not listed
any more. dlq group split takes investigations out again.`,
		Args: exactly("ID", "INTO"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return c.completeGroups("")(cmd, nil, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			from, err := identities("a group", listsGroups, args[:1])
			if err != nil {
				return err
			}
			into, err := identities("a group", listsGroups, args[1:])
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				merged := api.MergedGroup{UUID: from[0], Into: into[0]}
				for left := int64(1); left > 0; {
					done, err := d.Investigations.MergeGroups(ctx, dlq.GroupMerge{Group: from[0], Into: into[0], Actor: actor})
					if err != nil {
						return noGroup(err)
					}
					merged.Moved, merged.Left = merged.Moved+done.Moved, done.Left
					if left = done.Left; done.Moved == 0 {
						left = 0 // other sessions open some as fast
					}
				}
				return out.print(c.stdout, merged, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "Merged %s into %s: %s went there, and new ones will.\n", merged.UUID, merged.Into, plural.Of(merged.Moved, "investigation", "investigations"))
					return err
				})
			})
		},
	}
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

func (c *commands) dlqGroupSplit() *cobra.Command {
	var out output
	var at acting
	cmd := &cobra.Command{
		Use:   "split ID INVESTIGATION...",
		Short: "Take investigations out of a group, because they have another cause",
		Long: `Take investigations out of a group, because they have another cause. They go into a group of their own, and so do new
ones whose messages have the same quoted names. Investigations of a group that was merged into this one go back there,
and so do new ones.`,
		Args: takes("ID", "INVESTIGATION..."),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return c.completeGroups("")(cmd, args, typed)
			}
			return c.completeEntries(cmd, args[1:], typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			entries, err := out.entries(args[1:])
			if err != nil {
				return err
			}
			ids, err := identities("a group", listsGroups, args[:1])
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				groups, err := d.Investigations.SplitGroup(ctx, dlq.GroupSplit{Group: ids[0], Entries: entries, Actor: actor})
				if errors.Is(err, dlq.ErrAlike) {
					return fmt.Errorf("%w; they are in a group of quoted names already", err)
				} else if err != nil {
					return noGroup(err)
				}
				list := api.All(api.NewSplitGroup, groups)
				return out.print(c.stdout, list, func(w io.Writer) error {
					for _, v := range list.Items {
						if _, err := fmt.Fprintf(w, "%s  %s\n", v.UUID, visible(v.Title)); err != nil {
							return err
						}
					}
					return nil
				})
			})
		},
	}
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}
