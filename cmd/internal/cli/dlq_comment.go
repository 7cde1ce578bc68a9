package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/dlq"
)

func (c *commands) dlqComment() *cobra.Command {
	cmd := c.comments("an investigation", listsEntries, noEntry, func(id uuid.UUID) dlq.Thread { return dlq.Thread{Entry: id} })
	cmd.ValidArgsFunction = c.completeEntries
	return cmd
}

func (c *commands) dlqGroupComment() *cobra.Command {
	cmd := c.comments("a group", listsGroups, noGroup, func(id uuid.UUID) dlq.Thread { return dlq.Thread{Group: id} })
	cmd.ValidArgsFunction = c.completeGroups("")
	return cmd
}

// comments makes the command about the comments of a kind of thing; list shows the ids of these, and missing says so when
// one is not there.
func (c *commands) comments(what, list string, missing func(error) error, thread func(uuid.UUID) dlq.Thread) *cobra.Command {
	var out output
	var at acting
	var deleted, after int64
	var limit int
	cmd := &cobra.Command{
		Use:   "comment ID [TEXT]",
		Short: "Comment on " + what + ", or list its comments",
		Long: `Comment on ` + what + `: the comment stands behind the ones before, with its author and its time. Without TEXT the
comments are listed, the oldest first. A comment does not change. Its author can delete it: its text goes, and
who wrote it and when stays.`,
		Args: takes("ID", "[TEXT]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			deletes := cmd.Flags().Changed("delete")
			switch {
			case deletes && deleted < 1:
				return usagef("--delete is %d; it must be the number of a comment", deleted)
			case deletes && len(args) == 2:
				return usagef("give either a TEXT or --delete")
			case limit < 1 || limit > dlq.MaxLimit:
				return usagef("--limit is %d; it must be from 1 to %d", limit, dlq.MaxLimit)
			case after < 0:
				return usagef("--after is %d; it must be the next of an earlier list", after)
			}
			ids, err := identities(what, list, args[:1])
			if err != nil {
				return err
			}
			t := thread(ids[0])
			if len(args) == 2 {
				if err := (dlq.NewComment{Thread: t, Text: args[1], Actor: unknownActor}).Check(); err != nil {
					return asked(err)
				}
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				if len(args) == 1 && !deletes {
					found, err := d.Investigations.Comments(ctx, t, after, limit+1)
					if err != nil {
						return missing(err)
					}
					page := api.NewCommentList(found, limit)
					return out.print(c.stdout, page, func(w io.Writer) error { return commentTable(w, page) })
				}
				var one dlq.Comment
				if deletes {
					one, err = d.Investigations.DeleteComment(ctx, t, deleted, actor, "")
				} else {
					one, err = d.Investigations.AddComment(ctx, dlq.NewComment{Thread: t, Text: args[1], Actor: actor})
				}
				if err != nil {
					return missing(err)
				}
				v := api.NewComment(one)
				return out.print(c.stdout, v, func(w io.Writer) error {
					return fields(w, [2]string{"Comment", strconv.FormatInt(v.ID, 10)}, [2]string{"Author", v.Author},
						[2]string{"Written", moment(v.CreatedAt)}, [2]string{"Deleted", moment(value(v.DeletedAt))}, [2]string{"Text", value(v.Text)})
				})
			})
		},
	}
	cmd.Flags().Int64Var(&deleted, "delete", 0, "delete the comment with this `number`, which you wrote")
	cmd.Flags().IntVar(&limit, "limit", 100, fmt.Sprintf("list at most so many, 1 to %d", dlq.MaxLimit))
	cmd.Flags().Int64Var(&after, "after", 0, "go on after the page whose `next` this is")
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

func commentTable(w io.Writer, page api.List[api.Comment]) error {
	if len(page.Items) == 0 {
		_, err := fmt.Fprintln(w, "There are no comments.")
		return err
	}
	rows := make([][]string, len(page.Items))
	for i, v := range page.Items {
		text := "(deleted)"
		if v.Text != nil {
			text = *v.Text
		}
		rows[i] = []string{strconv.FormatInt(v.ID, 10), moment(v.CreatedAt), v.Author, text}
	}
	if err := grid(w, []string{"COMMENT", "WRITTEN", "AUTHOR", "TEXT"}, rows); err != nil || page.Next == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "There are more: --after %s\n", *page.Next)
	return err
}
