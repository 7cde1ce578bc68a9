package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/dlq"
)

func (c *commands) dlqGroup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Write about a group of investigations: a note, comments, its assignee, that it is known; merge and split groups",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.dlqGroupNote(), c.dlqGroupAssign(), c.dlqGroupMute(), c.dlqGroupUnmute(), c.dlqGroupMerge(), c.dlqGroupComment(), c.dlqGroupSplit())
	return cmd
}

func (c *commands) dlqGroupNote() *cobra.Command {
	return c.changesGroup(&cobra.Command{
		Use:   "note ID TEXT",
		Short: "Write a note about a group",
		Long: `Write a note about a group, for the person who looks at it next. It takes the place of the one before; an empty one ("")
takes that away.`,
		Args: exactly("ID", "TEXT"),
	}, "", func(args []string) (dlq.GroupChange, error) { return dlq.GroupChange{Note: &args[1]}, nil })
}

func (c *commands) dlqGroupAssign() *cobra.Command {
	return c.changesGroup(&cobra.Command{
		Use:   "assign ID PERSON",
		Short: "Say who looks at a group",
		Long:  `Say who looks at a group: a name, which is shown and gives no rights. An empty name ("") unassigns the group.`,
		Args:  exactly("ID", "PERSON"),
	}, "", func(args []string) (dlq.GroupChange, error) { return dlq.GroupChange{Assignee: &args[1]}, nil })
}

func (c *commands) dlqGroupMute() *cobra.Command {
	muted, until := true, ""
	cmd := c.changesGroup(&cobra.Command{
		Use:   "mute ID",
		Short: "Say that the cause of a group is known",
		Long: `Say that the cause of a group is known: new investigations are opened in it and counted as before, and its state stays
muted, until the time given, or until a person ends it (unmute).`,
		Args: exactly("ID"),
	}, "", func([]string) (dlq.GroupChange, error) {
		end, err := parseFutureTime("until", until)
		return dlq.GroupChange{Muted: &muted, MutedUntil: end}, err
	})
	cmd.Flags().StringVar(&until, "until", "", "end it at this `time`, or so long from now: 2026-01-31T12:00:00Z, 36h, 30d; by default when a person does")
	return cmd
}

func (c *commands) dlqGroupUnmute() *cobra.Command {
	muted := false
	return c.changesGroup(&cobra.Command{
		Use:   "unmute ID",
		Short: "End that a group is muted",
		Args:  exactly("ID"),
	}, dlq.GroupMuted, func([]string) (dlq.GroupChange, error) { return dlq.GroupChange{Muted: &muted}, nil })
}

// changesGroup makes a command of one that changes the group which its first argument names, and shows it. The shell is
// offered groups in the state, or in any.
func (c *commands) changesGroup(cmd *cobra.Command, offered dlq.GroupState, change func(args []string) (dlq.GroupChange, error)) *cobra.Command {
	var out output
	var at acting
	cmd.ValidArgsFunction = c.completeGroups(offered)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		ids, err := identities("a group", listsGroups, args[:1])
		if err != nil {
			return err
		}
		asked, err := change(args)
		if err != nil {
			return err
		}
		return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
			asked.Actor = actor
			changed, err := d.Investigations.ChangeGroup(ctx, ids[0], asked)
			if err != nil {
				return noGroup(err)
			}
			g := api.NewGroup(changed)
			return out.print(c.stdout, g, func(w io.Writer) error { return fields(w, groupFields(g)...) })
		})
	}
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

// noGroup says where to look when a group is not there.
func noGroup(err error) error {
	if errors.Is(err, dlq.ErrNotFound) {
		return fmt.Errorf("%w; %s shows them", err, listsGroups)
	}
	return err
}

// parseFutureTime reads a time to come, or how long from now it is; empty is none.
func parseFutureTime(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		var d time.Duration
		if d, err = parseAge(flag, s); err != nil {
			return time.Time{}, usagef("--%s is %q; it must be a time such as 2026-01-31T12:00:00Z, or how long from now, such as 36h or 30d", flag, shorten(s, 60))
		}
		t = time.Now().Add(d)
	}
	if !t.After(time.Now()) {
		return time.Time{}, usagef("--%s is %q, which is over; it must be a time to come", flag, shorten(s, 60))
	}
	return t, nil
}
