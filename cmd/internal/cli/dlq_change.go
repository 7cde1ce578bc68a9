package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/dlq"
)

const listsEntries = "postrider dlq list"

func (c *commands) dlqResolve() *cobra.Command {
	var out output
	var at acting
	var status, notes, by string
	cmd := &cobra.Command{
		Use:   "resolve ID...",
		Short: "Close investigations, and say why",
		Long: `Close investigations. A closed one is never opened again; when the same comes back, a new one names it as its
predecessor. One that was closed as the same before stays as it is, but for --notes and --resolved-by; as something
else it is refused. Each is closed in a transaction of its own, with its row in the audit log; the first that
cannot be ends the command. One with a redrive on its way is skipped; then the exit code is 3.

Nothing is sent. If its event halts its key, the key goes on without it, and this cannot be undone; dlq show says
whether it does, and so does the output. An event of another source lets its key go when the source is told.`,
		Args:              takes("ID..."),
		ValidArgsFunction: c.completeEntries,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := out.entries(args)
			if err != nil {
				return err
			}
			if closing := dlq.Statuses()[1:]; !slices.Contains(closing, dlq.Status(status)) {
				return usagef("--status is %q; it must be one of %s", status, join(closing))
			}
			to := dlq.Status(status)
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				change := dlq.Change{Status: &to, Actor: actor}
				if cmd.Flags().Changed("notes") {
					change.Notes = &notes
				}
				if cmd.Flags().Changed("resolved-by") {
					change.ResolvedBy = &by
				}
				views, before, err, skipped := make([]api.Entry, 0, len(ids)), map[uuid.UUID]dlq.Entry{}, error(nil), error(nil)
				for _, id := range ids {
					var was dlq.Detail
					if was, err = d.Investigations.Show(ctx, id); err != nil {
						break
					}
					var e dlq.Entry
					if e, err = d.Investigations.Change(ctx, id, change); errors.Is(err, dlq.ErrUnderWay) {
						fmt.Fprintf(c.stderr, "skipped: %v\n", err)
						err, skipped = nil, &spokenError{errPartly}
						continue
					} else if err != nil {
						break
					}
					views, before[id] = append(views, api.NewEntry(e)), was.Entry
				}
				if len(views) > 0 { // what was done counts, also when the rest failed
					if printErr := out.print(c.stdout, api.ListOf(views, ""), func(w io.Writer) error { return resolvedTable(w, views, before) }); err == nil {
						err = printErr
					}
				}
				if err == nil {
					return skipped
				}
				return noEntry(err)
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", string(dlq.ManuallyResolved), "what it came to: "+join(dlq.Statuses()[1:]))
	cmd.Flags().StringVar(&notes, "notes", "", "what was found and done")
	cmd.Flags().StringVar(&by, "resolved-by", "", "`who` resolved it, if not who runs this")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(texts(dlq.Statuses()[1:]), cobra.ShellCompDirectiveNoFileComp))
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

// resolvedTable lists closed investigations, with what became of their keys; before is how they were before the command.
func resolvedTable(w io.Writer, views []api.Entry, before map[uuid.UUID]dlq.Entry) error {
	rows := make([][]string, len(views))
	for i, v := range views {
		what := "closed now"
		switch was := before[v.UUID]; {
		case was.Status != dlq.Pending:
			what = "was closed already"
		case was.KeyHeld == nil:
			what += "; if its event halts its key in " + v.Source + ", the key goes on without it"
		case *was.KeyHeld && v.Source != dlq.MainSource:
			what += "; its key goes on without it when " + v.Source + " is told"
		case *was.KeyHeld:
			what += "; its key goes on without it"
		}
		rows[i] = []string{v.ID, string(v.Status), value(v.ResolvedBy), moment(value(v.ResolvedAt)), what}
	}
	return grid(w, []string{"ID", "STATUS", "RESOLVED BY", "SINCE", ""}, rows)
}

// noEntry says where to look when an investigation is not there.
func noEntry(err error) error {
	if errors.Is(err, dlq.ErrNotFound) {
		return fmt.Errorf("%w; %s shows them", err, listsEntries)
	}
	return err
}

// edited are the flags that change a message before it is sent again.
type edited struct {
	payload   string
	tombstone bool
	headers   givenHeaders
}

func (e *edited) edit(cmd *cobra.Command) (*dlq.Edit, error) {
	var edit dlq.Edit
	given := false
	if cmd.Flags().Changed("payload") {
		given = true
		edit.Payload = []byte(e.payload)
		if name, file := strings.CutPrefix(e.payload, "@"); file {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, usagef("--payload: %w", err)
			}
			edit.Payload = text
		}
		if edit.Payload == nil {
			edit.Payload = []byte{}
		}
	}
	if e.tombstone {
		given, edit.Tombstone = true, true
	}
	var err error
	if edit.Headers, err = e.headers.read(); err != nil {
		return nil, err
	}
	given = given || edit.Headers != nil
	if !given {
		return nil, nil
	}
	return &edit, nil
}

func (c *commands) dlqRequeue() *cobra.Command {
	var out output
	var at acting
	var target string
	var hops int
	var dry bool
	var wait time.Duration
	var change edited
	cmd := &cobra.Command{
		Use:   "requeue ID...",
		Short: "Send the messages of investigations again",
		Long: `Send the messages of investigations again, in their order per key, all in one transaction. Each goes to the retry
topic of the consumer group that failed, where its letter names one, and otherwise to where it was bound for or came
from; --target says another place. The output names the consumer groups that read the topic, and --dry-run names them
before anything is sent. A message keeps the id by which an inbox knows it: groups that have handled it pass over it.

postrider-hops counts: past --max-hops a message is skipped. One that halts its key goes back to its place instead.
A record that a letter only points to is fetched first (see dlq fetch). Investigations that cannot be sent again are
skipped, and the output says why; then the exit code is 3. An id that does not exist fails the whole command, and
nothing is sent. dlq.requeue_limit is for the API alone.

With one id the message can be changed first: --payload TEXT or @FILE, --tombstone, --header NAME=VALUE (which
replace all headers), --header-none. The dead letter keeps the original. A message with an unreadable header is
skipped, unless --header, --header-none or --header-text says what to send; dlq show prints its headers as they are.
--header-text sends each unreadable header as the text of its own value. It works for many messages at once.`,
		Args:              takes("ID..."),
		ValidArgsFunction: c.completeEntries,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := out.entries(args)
			if err != nil {
				return err
			}
			edit, err := change.edit(cmd)
			if err != nil {
				return err
			}
			if hops < 1 || hops > dlq.MaxMaxHops {
				return usagef("--max-hops is %d; it must be 1 to %d", hops, dlq.MaxMaxHops)
			}
			if err := checkWait(cmd, wait); err != nil {
				return err
			}
			var repair *dlq.Repair
			if change.headers.asText {
				if edit != nil && edit.Headers != nil {
					return usagef("--header-text sends the headers that a message has, and --header or --header-none is given")
				}
				repair = &dlq.Repair{AsText: true}
			}
			return c.withTracedServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				if done, err := c.askBrokers(d); err == nil {
					defer done()
				} // otherwise the records that letters point to are not asked for, and the output names the missing ones
				req, send := dlq.RedriveRequest{Entries: ids, Target: target, MaxHops: hops, Edit: edit, Repair: repair, Wait: wait, Actor: actor}, d.Sender().Redrive
				if dry {
					send = d.Sender().Preview
				}
				done, err := send(ctx, req)
				if err != nil {
					return noEntry(err)
				}
				view := api.NewRequeued(ids, done)
				view.DryRun = dry
				if err := out.print(c.stdout, view, func(w io.Writer) error { return requeuedTable(w, view) }); err != nil {
					return err
				}
				if len(view.Skipped) > 0 {
					return &spokenError{errPartly}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&target, "target", "", targetHelp)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "send nothing: say what would be sent where, and which consumer groups read that")
	waitFlag(cmd, &wait)
	cmd.Flags().IntVar(&hops, "max-hops", dlq.DefaultMaxHops, "how often a message is sent again in all, 1 to 1000")
	cmd.Flags().StringVar(&change.payload, "payload", "", "send this instead: `TEXT` or @FILE")
	cmd.Flags().BoolVar(&change.tombstone, "tombstone", false, "send Kafka's null instead")
	change.headers.bind(cmd.Flags(), "send these headers instead: `NAME=VALUE`, once for each", "send it without headers")
	change.headers.bindText(cmd.Flags())
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

// checkWait reports why --wait is wrong.
func checkWait(cmd *cobra.Command, wait time.Duration) error {
	if wait < 0 || wait > dlq.MaxWait || cmd.Flags().Changed("wait") && wait == 0 {
		return usagef("--wait is %s; it must be more than nothing, and %s at most", wait, dlq.MaxWait)
	}
	return nil
}

// waitFlag binds --wait.
func waitFlag(cmd *cobra.Command, wait *time.Duration) {
	cmd.Flags().DurationVar(wait, "wait", 0, "wait so long for what the databases of other sources answer, and ask one that is away, too: it obeys when it is back. Without it two seconds, and one that is away is not asked; 1m without a value")
	cmd.Flags().Lookup("wait").NoOptDefVal = "1m"
}

// targetHelp is the help of --target.
const targetHelp = "send to this `topic`; or to group, the retry topic of the consumer group that failed; or to origin, where each message was bound for or came from. By default to group where the letter names a retry topic, otherwise to origin"

func requeuedTable(w io.Writer, v api.Requeued) error {
	what := "on their way"
	if v.DryRun {
		what = "would be sent"
	}
	fmt.Fprintf(w, "%d %s, %d skipped.\n", len(v.Requeued), what, len(v.Skipped))
	if len(v.Asked) > 0 && !v.DryRun {
		fmt.Fprintf(w, "The sources of %d of them were asked, and have not answered yet; they are asked until they do.\n", len(v.Asked))
	}
	showReaches(w, v.Reaches)
	for _, t := range v.StoppedTasks {
		fmt.Fprintf(w, "Note: %s.\n", t.Explanation)
	}
	return skippedEntries(w, v.Skipped)
}

// skippedEntries lists investigations with which nothing was done, and why.
func skippedEntries(w io.Writer, skipped []api.Skipped) error {
	if len(skipped) == 0 {
		return nil
	}
	rows := make([][]string, len(skipped))
	for i, s := range skipped {
		rows[i] = []string{s.ID.String(), string(s.Reason), s.Explanation}
	}
	return wideGrid(w, []string{"SKIPPED", "REASON", ""}, rows)
}

// showReaches says whom messages reach, a line for each topic.
func showReaches(w io.Writer, all []api.Reach) {
	for _, r := range all {
		fmt.Fprintf(w, "%d to %s: %s.\n", r.Messages, visible(r.Topic), visible(r.Explanation))
	}
}

func (c *commands) dlqPurge() *cobra.Command {
	var out output
	var at acting
	var sure confirmation
	var p dlq.Purge
	var older string
	var which filterFlags
	cmd := &cobra.Command{
		Use:   "purge ID... | --older-than AGE",
		Short: "Remove investigations for good",
		Long: `Remove investigations with the messages of their dead letters: the named ones, or the oldest that are older than
--older-than and that all filters given select. A --reason that no investigation has removes nothing; --text looks
into error messages. The ids of the dead letters stay, so that a late copy of one opens
nothing. Of the ones that are not named, the output says how many more there are. One whose event halts its key is
refused, or passed over, unless --release-keys lets its key go; the other events of the key then go on
without it.`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.completeEntries,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if p.Entries, err = out.entries(args); err != nil {
				return err
			}
			if older != "" {
				d, err := parseAge("older-than", older)
				if err != nil {
					return err
				}
				p.OlderThan = time.Now().Add(-d)
			}
			if p.Filter, err = which.read(); err != nil {
				return err
			}
			if which.To != "" {
				return usagef("give --older-than and not --to: a purge is about what is older")
			}
			p.Actor = unknownActor
			switch {
			case (len(p.Entries) > 0) == (older != ""):
				return usagef("give either ids or --older-than AGE")
			case len(p.Entries) > 0 && p.Filter != (dlq.Filter{}):
				return usagef("filters such as --topic go with --older-than, not with ids")
			}
			if err := p.Check(); err != nil {
				return &usageError{err}
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				p.Actor = actor
				if !sure.yes {
					what, err := whatIsPurged(ctx, d.Investigations, p)
					if err != nil {
						return err
					}
					if what == "" {
						view := api.NewPurged(p, dlq.Purged{LeftExact: true})
						return out.print(c.stdout, view, func(w io.Writer) error { return purgeText(w, view, p) })
					}
					if err := sure.ask(cmd, what); err != nil {
						return err
					}
				}
				done, err := d.Investigations.Purge(ctx, p)
				if err != nil {
					return noEntry(err)
				}
				view := api.NewPurged(p, done)
				if err := out.print(c.stdout, view, func(w io.Writer) error { return purgeText(w, view, p) }); err != nil {
					return err
				}
				if view.Holding > 0 {
					return &spokenError{errPartly}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&older, "older-than", "", "only investigations opened longer `AGO` than this, such as 36h or 90d")
	which.bind(c, cmd, "with --older-than: only investigations", "status")
	cmd.Flags().StringVar(&which.Status, "status", "", "with --older-than: only investigations with this `status`: "+join(dlq.Statuses()))
	cmd.Flags().IntVar(&p.Limit, "limit", 1000, "remove so many at most, the oldest first, 1 to 10000, whatever dlq.purge_limit allows the API; op plan --kind purge removes more")
	cmd.Flags().BoolVar(&p.ReleaseKeys, "release-keys", false, "let the keys go that they hold")
	sure.bind(cmd)
	c.actor(cmd, &at)
	out.bind(cmd)
	return cmd
}

// purgeText says what a purge removed, passed over and left.
func purgeText(w io.Writer, view api.Purged, p dlq.Purge) error {
	if view.Purged == 0 && view.Holding == 0 && value(view.Left) == 0 {
		fmt.Fprintln(w, "There is nothing to remove: no investigation is as old and fits.")
	} else {
		fmt.Fprintf(w, "%s removed.\n", plural.Of(view.Purged, "investigation is", "investigations are"))
	}
	if view.Purged == 0 && p.Filter.Word != "" {
		fmt.Fprintf(w, "No investigation that is selected has the reason %q; --text looks for a text in error messages.\n", p.Filter.Word)
	}
	if view.Holding > 0 {
		fmt.Fprintf(w, "%s passed over; --release-keys lets the keys go.\n", plural.Of(view.Holding, "holds a key and was", "hold a key and were"))
	}
	if left := value(view.Left); left > 0 {
		fmt.Fprintf(w, "%s%d more are as old and fit; run it again, or plan an operation: postrider op plan --kind purge.\n",
			about(value(view.LeftExact)), left)
	}
	return nil
}

// whatIsPurged says how much a purge removes now, and what stays; empty if nothing is selected.
func whatIsPurged(ctx context.Context, d dlq.Investigations, p dlq.Purge) (string, error) {
	const others = ". The ids of the dead letters are kept, so that a late copy opens nothing, and so is the audit log."
	with := func(n int64) string {
		if n == 1 {
			return " with the messages of its dead letters" + others
		}
		return " with the messages of their dead letters" + others
	}
	if n := int64(len(p.Entries)); n > 0 {
		what := plural.Of(n, "investigation", "investigations") + " will be removed," + with(n)
		open := 0
		for _, id := range p.Entries {
			e, err := d.Show(ctx, id)
			if err != nil {
				return "", noEntry(err)
			}
			if e.Status == dlq.Pending {
				open++
			}
		}
		if open > 0 {
			what += " " + plural.Of(open, "of these is", "of these are") + " still pending."
		}
		return what, nil
	}
	total, exact, err := d.Purgeable(ctx, p)
	if err != nil {
		return "", err
	}
	if total == 0 && exact {
		return "", nil
	}
	most := ""
	if total > int64(p.Limit) {
		most = fmt.Sprintf("The oldest %d of ", p.Limit)
	}
	what := fmt.Sprintf("%s%s%s opened before %s will be removed,%s",
		most, about(exact), plural.Of(total, "investigation", "investigations"), moment(p.OlderThan), with(total))
	if p.Filter.Status != "" {
		return what, nil
	}
	p.Filter.Status = dlq.Pending
	open, exact, err := d.Purgeable(ctx, p)
	if err != nil {
		return "", err
	}
	if open > 0 {
		what += fmt.Sprintf(" %s%d of all these are still pending.", about(exact), open)
	}
	return what, nil
}

// about is what stands before a number that may be an estimate.
func about(exact bool) string {
	if exact {
		return ""
	}
	return "about "
}

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
