package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
)

func (c *commands) outboxHolds() *cobra.Command {
	var out output
	var filter postgres.HoldFilter
	var after string
	cmd := &cobra.Command{
		Use:   "holds",
		Short: "List what is held, why, and until when",
		Long: `List what is held, oldest first: keys, partitions and topics whose events cannot go now, circuit breakers,
and dead-letter topics that take nothing. Events met under a hold are parked and come back in order when it
ends; most holds end by themselves when their cause is gone. A halted key waits for an operator: put its event
back in its place with "outbox redrive", or let the others go without it with "outbox release". A circuit
breaker (scope failure) keeps the events of a topic that fail with one code, and nothing else of the topic:
have them tried once more with "outbox release", or make dead letters of them with "outbox give-up".

Where there are more than --limit, --after goes on behind the last one. What to give it stands below the table, and as
next in the JSON.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			switch {
			case filter.Limit < 1 || filter.Limit > maxHolds:
				return usagef("--limit is %d; it must be from 1 to %d", filter.Limit, maxHolds)
			case filter.Cause != "" && !slices.Contains(relay.Causes(), filter.Cause):
				return usagef("--cause is %q; it must be one of %s", filter.Cause, join(relay.Causes()))
			}
			if after != "" {
				place, err := postgres.ParseHoldPlace(after)
				if err != nil {
					return usagef("--after: %v", err)
				}
				filter.After = &place
			}
			return c.withOutbox(cmd.Context(), func(store *postgres.Store) error {
				limit := filter.Limit
				filter.Limit++ // to see whether there are more
				holds, err := store.Holds(cmd.Context(), filter)
				if err != nil {
					return err
				}
				list := api.NewHoldList(holds, limit)
				return out.print(c.stdout, list, func(w io.Writer) error {
					if len(holds) == 0 && after == "" {
						fmt.Fprintln(w, "Nothing is held.")
						return nil
					}
					if err := holdTable(w, holds[:len(list.Items)]); err != nil {
						return err
					}
					return goOn(w, list.Next)
				})
			})
		},
	}
	cmd.Flags().StringVar(&filter.Topic, "topic", "", "only holds of this `topic`")
	cmd.Flags().StringVar((*string)(&filter.Cause), "cause", "", "only holds of this `cause`, such as halted, route or infrastructure")
	cmd.Flags().IntVar(&filter.Limit, "limit", 100, "list at most so `many`")
	cmd.Flags().StringVar(&after, "after", "", "go on with a list: the `next` of the one before")
	out.bind(cmd)
	return cmd
}

// maxHolds bounds a list, because each hold counts the events behind it.
const maxHolds = 10_000

// holdTable lists holds for people.
func holdTable(w io.Writer, holds []relay.HoldStatus) error {
	rows := make([][]string, len(holds))
	for i, h := range holds {
		on := h.Topic
		switch {
		case h.Partition != nil && h.Partitions != nil:
			on = fmt.Sprintf("%s, partition %d of %d", h.Topic, *h.Partition, *h.Partitions)
		case h.Scope == relay.ScopeKey:
			on = fmt.Sprintf("%s, key %s", h.Topic, h.Key)
		case h.Scope == relay.ScopeFailure:
			on = fmt.Sprintf("%s, events that fail with %s", h.Topic, h.FailureCode)
		}
		parked := strconv.FormatInt(h.Parked, 10)
		if h.Parked > 100000 {
			parked = "over 100000"
		}
		event := ""
		if h.OutboxID > 0 {
			event = strconv.FormatInt(h.OutboxID, 10)
		}
		rows[i] = []string{strconv.FormatInt(h.ID, 10), string(h.Scope), on, string(h.Cause), h.ErrorCode, parked, moment(h.HeldAt), next(h), event, h.Error}
	}
	return grid(w, []string{"HOLD", "SCOPE", "ON", "CAUSE", "CODE", "PARKED", "SINCE", "NEXT", "EVENT", "ERROR"}, rows)
}

// next says what a hold waits for.
func next(h relay.HoldStatus) string {
	switch {
	case h.Asked == relay.AskedGiveUp:
		return "is given up"
	case h.Draining || h.Asked == relay.AskedRelease:
		return "comes back"
	case h.Cause == relay.CauseRedrive:
		return "its event"
	case h.NextProbeAt == nil:
		return "an operator"
	}
	return "probe " + moment(*h.NextProbeAt)
}

func (c *commands) outboxRelease() *cobra.Command {
	var at acting
	cmd := &cobra.Command{
		Use:   "release HOLD",
		Short: "End the wait of a hold, by its number",
		Long: `End the wait of a hold. Behind a halted key everything comes back, in order; the event that halted the key
stays dead-lettered. A circuit breaker has all that it keeps tried once more. Any other hold is probed at
once instead of at its time. The relay that leads does it, within a second.`,
		Args: exactly("HOLD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := number("HOLD", args[0], holdsAreIn)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				r, err := d.Outbox.Release(ctx, actor, id)
				if err != nil {
					return unknown(err, holdsAreIn)
				}
				_, err = fmt.Fprintf(c.stdout, "Hold %d (%s of %s, %s) %s.\n", id, r.Scope, visible(r.Topic), r.Cause, released(r))
				return err
			})
		},
	}
	c.actor(cmd, &at)
	return cmd
}

// released says what came of releasing a hold.
func released(r postgres.Released) string {
	switch {
	case r.Cause == relay.CauseBreaker:
		return "is released: all events that it keeps are tried once more; events that fail again stay with it"
	case r.Draining:
		return "is released: its events come back in order"
	}
	return "is probed now"
}

func (c *commands) outboxGiveUp() *cobra.Command {
	var at acting
	cmd := &cobra.Command{
		Use:   "give-up HOLD",
		Short: "Make dead letters of all that a circuit breaker keeps, or that waits for a topic",
		Long: `Give up all events behind a hold, by its number: the events that a circuit breaker keeps, or that wait for a
whole topic. Each becomes a dead letter. The relay that leads does it, in batches. Further events that fail in that
way are given up too until there are more than outbox.storm_events again.`,
		Args: exactly("HOLD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := number("HOLD", args[0], holdsAreIn)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				g, err := d.Outbox.GiveUp(ctx, actor, id)
				if err != nil {
					return unknown(err, holdsAreIn)
				}
				_, err = fmt.Fprintf(c.stdout, "Hold %d (%s of %s, %s): the %d events behind it become dead letters.\n", id, g.Scope, visible(g.Topic), g.Cause, g.Events)
				return err
			})
		},
	}
	c.actor(cmd, &at)
	return cmd
}

func (c *commands) outboxSkip() *cobra.Command {
	var reason string
	var at acting
	cmd := &cobra.Command{
		Use:   "skip EVENT --reason TEXT",
		Short: "Give up a waiting event, by its outbox id: it becomes a dead letter",
		Long: `Give up an event that waits (pending, parked or scheduled), by its outbox id. It goes to the dead-letter
topic with the reason, and the later events of its key go on.`,
		Args: exactly("EVENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := number("EVENT", args[0], eventsAreIn)
			if err != nil {
				return err
			}
			if reason == "" {
				return usagef("say why, with --reason: it goes into the dead letter")
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				if err := d.Outbox.Skip(ctx, actor, id, reason); err != nil {
					return unknown(err, eventsAreIn)
				}
				fmt.Fprintf(c.stdout, "Event %d is given up; its dead letter is on its way.\n", id)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the person who investigates")
	c.actor(cmd, &at)
	return cmd
}

func (c *commands) outboxRedrive() *cobra.Command {
	var at acting
	cmd := &cobra.Command{
		Use:   "redrive EVENT",
		Short: "Put a dead-lettered event that halts its key back in its place, by its outbox id",
		Long: `Put a dead-lettered event that halts its key (after_last_attempt: halt_key) back in its place. It is sent
next, and the key goes on when it is acknowledged; if it is given up again, the key stays halted.`,
		Args: exactly("EVENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := number("EVENT", args[0], eventsAreIn)
			if err != nil {
				return err
			}
			return c.withServices(cmd.Context(), at, grant("postrider_operator"), func(ctx context.Context, d *app.Services, actor string) error {
				if err := d.Outbox.Redrive(ctx, actor, id); err != nil {
					return unknown(err, eventsAreIn)
				}
				fmt.Fprintf(c.stdout, "Event %d is back in its place and goes next; its key goes on when it is acknowledged.\n", id)
				return nil
			})
		},
	}
	c.actor(cmd, &at)
	return cmd
}

const (
	holdsAreIn  = "postrider outbox holds lists what is held"
	eventsAreIn = "EVENT is the id of a row of postrider.outbox_event; outbox holds and dlq show say it, too"
)

// unknown adds where to look to the error about an id that does not exist.
func unknown(err error, look string) error {
	if errors.Is(err, postgres.ErrNotFound) {
		return fmt.Errorf("%w; %s", err, look)
	}
	return err
}

// number reads an id; look says where these ids are shown.
func number(name, s, look string) (int64, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 1 {
		return 0, usagef("%s is %q; it must be a whole number from 1 to %d; %s", name, visible(shorten(s, 60)), int64(math.MaxInt64), look)
	}
	return id, nil
}
