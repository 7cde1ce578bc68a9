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
func (a *Adopter) ShowRollback(ctx context.Context, table string, _ Rollback) (string, error) {
	tx, err := a.Conn.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	t, now, err := a.known(ctx, tx, table)
	if err != nil {
		return "", err
	}
	if now.Mode == ModeShadow || now.Mode == ModeOff {
		return fmt.Sprintf("%s is its connector's: nothing is to be done\n", t.Name), nil
	}
	if now.Slot == "" {
		return "", noConnector(t)
	}
	back, err := a.back(ctx, tx, t, now)
	if err != nil {
		return "", err
	}
	first := ""
	if now.Mode == ModeHeld {
		first = "-- 0. The cutover has not ended. It is ended first: the connector sends what is before the fence, then Postrider what was held.\n"
	}
	return first + fmt.Sprintf(`-- 1. Wait until the relay has sent the events that are there.
-- 2. In one transaction, in which writers wait for the few events that came meanwhile:
begin;
lock table %s in %s mode;
-- wait until the relay has sent them; otherwise all stays as it is, and it is tried again
%scommit;
`, t.Name, t.lockBack(), back), nil
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

// back is the SQL that gives the table to its connector.
func (a *Adopter) back(ctx context.Context, tx pgx.Tx, t *Table, now *Forward) (string, error) {
	var first string
	if t.kept != "" {
		var err error
		if first, err = a.tableBack(ctx, tx, t.Name, t.kept); err != nil {
			return "", err
		}
	}
	there, _, err := Connector{now.Slot, now.Publication}.kept(ctx, tx, t)
	if err != nil {
		return "", err
	}
	join := ""
	if !there {
		join = fmt.Sprintf("alter publication %s add table %s;\n", quote(now.Publication), t.Name)
	}
	return first + fmt.Sprintf(`alter table %s disable trigger %s;
%supdate postrider.outbox_forward set mode = 'off', fence = null, changed_at = clock_timestamp() where source_table = %s;
`, t.Name, TriggerName, join, literalSQL(t.Name)), nil
}

// kept is published, of the table behind a view.
func (c Connector) kept(ctx context.Context, db querier, t *Table) (there, wide bool, err error) {
	if t.kept == "" {
		return c.published(ctx, db, t)
	}
	behind := *t
	behind.Name = t.kept
	return c.published(ctx, db, &behind)
}

// Rollback gives a table back to its connector. The connector may run: until the last event is sent, it has no later row.
func (a *Adopter) Rollback(ctx context.Context, table string, r Rollback) error {
	t, now, err := a.known(ctx, a.Conn, table)
	if err != nil {
		return err
	}
	switch {
	case now.Mode == ModeShadow || now.Mode == ModeOff:
		a.Say("%s is its connector's: nothing was done", t.Name)
		return nil
	case now.Slot == "":
		return noConnector(t)
	case now.Mode == ModeHeld:
		if err := a.finish(ctx, table, now, r.Cutover); err != nil {
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
		err := a.change(ctx, table, func(tx pgx.Tx, t *Table) error {
			if _, err := tx.Exec(ctx, "lock table "+t.Name+" in "+t.lockBack()+" mode"); err != nil {
				return err
			}
			current, err := read(ctx, tx, t.Name, readForward+" for update")
			if err != nil {
				return err
			}
			if current == nil || current.Mode != ModeForward {
				a.Say("another call changed %s meanwhile: nothing was done", t.Name)
				return nil
			}
			if err := a.drained(ctx, tx, block); err != nil {
				return err
			}
			sql, err := a.back(ctx, tx, t, current)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
			a.Say("%s is in the publication %s again, and its connector sends its rows; Postrider has sent everything before", t.Name, current.Publication)
			return nil
		})
		if !errors.Is(err, errNotDrained) {
			return err
		}
		a.Say("%v in %v; the writers go on, and it is tried again", err, block)
	}
}

// undelivered says which topics have events that the relay has to send still, up to the event with the id $1.
const undelivered = `select distinct topic from (
	select e.topic::text from postrider.outbox_event e, postrider.outbox_progress p where e.id > p.position and e.id <= $1
	union all
	select e.topic from postrider.outbox_progress p, unnest(p.gaps) gap join postrider.outbox_event e on e.id >= lower(gap) and e.id < upper(gap) where e.id <= $1
	union all
	select x.topic from postrider.outbox_exception x left join postrider.outbox_event e on e.id = x.id
	where x.id <= $1 and (x.state = 'parked' or x.state = 'scheduled' and e.available_at is null)) waiting
order by topic limit 5`

// drained returns when the relay has sent the events that there are at its beginning, and fails with errNotDrained after
// limit; 0 is none.
func (a *Adopter) drained(ctx context.Context, db querier, limit time.Duration) error {
	var last int64
	if err := db.QueryRow(ctx, `select coalesce(max(id), 0) from postrider.outbox_event`).Scan(&last); err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	began, said := time.Now(), time.Now()
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
			a.Say("the relay has events to send of the topics %s: postrider outbox holds and outbox status say what they wait for", strings.Join(topics, ", "))
		}
		if err := loop.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
