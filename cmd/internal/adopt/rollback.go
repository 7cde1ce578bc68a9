package adopt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loop"
)

// Rollback says how a table goes back to its connector.
type Rollback struct {
	// Cutover is how a cutover that has not ended is ended first.
	Cutover
	// Block is how long writers are kept waiting at most, in one attempt, while the relay sends their last events. Defaults
	// to 5 s.
	Block time.Duration
}

var errNotDrained = errors.New("the relay has not sent every event")

// ShowRollback returns what Rollback would do.
func (a *Adopter) ShowRollback(ctx context.Context, table string, r Rollback) (string, error) {
	var out string
	err := a.look(ctx, table, func(ctx context.Context, tx pgx.Tx, t *Table) (s step, err error) {
		now, err := known(ctx, tx, t)
		switch {
		case err != nil:
			return s, err
		case now.Mode == ModeShadow || now.Mode == ModeOff:
			out = fmt.Sprintf("%s is its connector's: nothing is to be done\n", t.Name)
			return s, nil
		case now.Slot == "":
			return s, noConnector(t)
		}
		s.lock = t.lockBack()
		s.sql, err = t.backToConnector(ctx, tx, now)
		if now.Mode == ModeHeld {
			out = "-- 0. The cutover has not ended. It is ended first: the connector sends what is before the fence, then Postrider what was held.\n"
		}
		return s, err
	}, func(_ pgx.Tx, t *Table, s step) error {
		if s.sql != "" {
			out += fmt.Sprintf(`-- 1. Wait until the relay has sent the events that are there.
-- 2. In one transaction, in which writers wait for the few events that came meanwhile:
begin;
%s-- wait until the relay has sent them; otherwise all stays as it is, and it is tried again
%scommit;
`, t.locking(s.lock), s.sql)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return out, nil
}

func noConnector(t *Table) error {
	return fmt.Errorf("%s was never a connector's: there is nothing to go back to; postrider adopt --remove ends its forwarding", t.Name)
}

// lockBack is the lock of a rollback: a view is dropped, which takes more than to disable a trigger.
func (t *Table) lockBack() string {
	if t.kept != "" {
		return "access exclusive"
	}
	return "share row exclusive"
}

// backToConnector is the SQL that gives the table to its connector. The trigger may be gone, and is made before it is disabled.
func (t *Table) backToConnector(ctx context.Context, tx pgx.Tx, now *Forward) (string, error) {
	c := Connector{now.Slot, now.Publication}
	p, err := c.published(ctx, tx, t)
	if err != nil {
		return "", err
	}
	join, table := "", *t
	table.kept = ""
	armed, err := table.arm(now.Definition, ModeForward, "")
	if err != nil {
		return "", err
	}
	if !p.there {
		if !p.owned {
			return "", c.notOwned()
		}
		join = fmt.Sprintf("alter publication %s add table %s;\n", quote(now.Publication), t.Name)
	}
	first := ""
	if t.kept != "" {
		first = t.back()
	}
	return fmt.Sprintf(`%s%salter table %s disable trigger %s;
%supdate postrider.outbox_forward set mode = 'off', fence = null, changed_at = clock_timestamp() where source_table = %s;
`, first, armed, t.Name, TriggerName, join, literalSQL(t.Name)), nil
}

// Rollback gives a table back to its connector. The connector may run: until the last event is sent, it has no later row.
func (a *Adopter) Rollback(ctx context.Context, table string, r Rollback) error {
	t, err := FindTable(ctx, a.Conn, table)
	if err != nil {
		return err
	}
	now, err := known(ctx, a.Conn, t)
	switch {
	case err != nil:
		return err
	case now.Mode == ModeShadow || now.Mode == ModeOff:
		a.Say("%s is its connector's: nothing was done", t.Name)
		return nil
	case now.Slot == "":
		return noConnector(t)
	case now.Mode == ModeHeld:
		if err := a.Cutover(ctx, table, r.Cutover); err != nil {
			return err
		}
	}
	if _, err := (Connector{now.Slot, now.Publication}).state(ctx, a.Conn, ""); err != nil {
		return fmt.Errorf("the table cannot go back to its connector: %w", err)
	}
	block := r.Block
	if block == 0 {
		block = 5 * time.Second
	}
	for {
		if err := a.drained(ctx, a.Conn, 0); err != nil {
			return err
		}
		err := a.change(ctx, table, func(ctx context.Context, tx pgx.Tx, t *Table) (step, error) {
			s := step{lock: t.lockBack(), before: func(tx pgx.Tx) error { return a.drained(ctx, tx, block) }}
			current, err := Read(ctx, tx, t.Name)
			if err != nil {
				return s, err
			}
			if current == nil || current.Mode != ModeForward {
				s.say("another call changed %s meanwhile: nothing was done", t.Name)
				return s, nil
			}
			s.say("%s is in the publication %s again, and Postrider has sent everything before; its connector sends the rows from here on: see that it is RUNNING and that its slot moves", t.Name, current.Publication)
			s.sql, err = t.backToConnector(ctx, tx, current)
			return s, err
		})
		if !errors.Is(err, errNotDrained) {
			return err
		}
		a.Say("%v in %v; the writers go on, and it is tried again", err, block)
	}
}

// undelivered says which topics have events that the relay has to send still, up to the event with the id $1, and which of
// these events wait for a retry or a person.
const undelivered = `select distinct topic from (
	select e.topic::text from postrider.outbox_event e, postrider.outbox_progress p where e.id > p.position and e.id <= $1
	union all
	select e.topic from postrider.outbox_progress p, unnest(p.gaps) gap join postrider.outbox_event e on e.id >= lower(gap) and e.id < upper(gap) where e.id <= $1
	union all
	select format('%s (event %s is %s)', x.topic, x.id, x.state) from postrider.outbox_exception x left join postrider.outbox_event e on e.id = x.id
	where x.id <= $1 and (x.state = 'parked' or x.state = 'scheduled' and e.available_at is null)) waiting
order by topic limit 5`

// drained returns when the relay has sent the events that there are at its beginning, and fails with errNotDrained after
// limit; 0 is none.
func (a *Adopter) drained(ctx context.Context, db querier, limit time.Duration) error {
	var last int64
	if err := db.QueryRow(ctx, `select coalesce(max(id), 0) from postrider.outbox_event`).Scan(&last); err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	began, said := time.Now(), time.Time{}
	for {
		rows, err := db.Query(ctx, undelivered, last)
		var topics []string
		if err == nil {
			topics, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		switch {
		case err != nil:
			return fmt.Errorf("ask what the relay has sent: %w", err)
		case len(topics) == 0:
			return nil
		case limit > 0 && time.Since(began) > limit:
			return fmt.Errorf("%w (of the topics %s)", errNotDrained, strings.Join(topics, ", "))
		}
		if limit == 0 && time.Since(said) > 5*time.Second {
			said = time.Now()
			a.Say("the relay has events to send of the topics %s; postrider doctor says whether a relay leads, and outbox holds and outbox status what they wait for. A parked event waits until its hold is released or given up, and with commit_order events wait for transactions that are open", strings.Join(topics, ", "))
		}
		if err := loop.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
