package adopt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loop"
)

// Cutover says how a table moves from its connector to Postrider.
type Cutover struct {
	Connector
	// Confirmed says that the connector has sent all rows that are before the fence: the slot is not asked.
	Confirmed bool
	// Poll is the pause between two looks at the slot. Defaults to 0.5 s.
	Poll time.Duration
}

// ShowCutover returns what Cutover would do, in sentences and SQL.
func (a *Adopter) ShowCutover(ctx context.Context, table string, c Cutover) (string, error) {
	tx, err := a.Conn.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	t, now, err := a.known(ctx, tx, table)
	if err != nil {
		return "", err
	}
	switch now.Mode {
	case ModeForward:
		return alreadyOurs(t, now), nil
	case ModeHeld:
		return fmt.Sprintf("A cutover of %s was begun at %s and has not ended. --run goes on with it: it waits until the slot %s\nhas confirmed %s, and moves the held events into postrider.outbox_event.\n",
			t.Name, now.Since.UTC().Format(time.RFC3339), now.Slot, now.Fence), nil
	}
	found, err := a.ready(ctx, tx, t, now, c)
	if err != nil {
		return "", err
	}
	fence, err := t.fence(ctx, tx, now, found)
	if err != nil {
		return "", err
	}
	release, err := t.release(now)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`-- 1. One transaction hands %s from the publication %s to the trigger. Every row is on one side of it.
begin;
set local lock_timeout = '2s'; -- and again, until the lock can be had
%scommit;
-- From here on events wait in postrider.outbox_held_event.
-- 2. Wait until the connector of the slot %s has sent what is before the fence.
-- 3. Move the held events into postrider.outbox_event: batch after batch, and the last in one transaction with
begin;
%scommit;
`, t.Name, found.Publication, fence, found.Slot, release), nil
}

func alreadyOurs(t *Table, now *Forward) string {
	return fmt.Sprintf("%s is forwarded by Postrider since %s: nothing is to be done\n", t.Name, now.Since.UTC().Format(time.RFC3339))
}

// known returns the table and how it is forwarded, and refuses one that is not.
func (a *Adopter) known(ctx context.Context, db querier, table string) (*Table, *Forward, error) {
	t, err := FindTable(ctx, db, table)
	if err != nil {
		return nil, nil, err
	}
	now, err := Read(ctx, db, t.Name)
	if err == nil && now == nil {
		err = fmt.Errorf("it is not known what the columns of %s are: postrider debezium shadow %s --run says it, and shows beside the connector that the events are right", t.Name, t.Name)
	}
	return t, now, err
}

// ready finds the connector, and refuses what cannot be cut over.
func (a *Adopter) ready(ctx context.Context, db querier, t *Table, now *Forward, c Cutover) (Connector, error) {
	found := c.Connector
	if found.Slot == "" {
		found.Slot = now.Slot
	}
	if found.Publication == "" {
		found.Publication = now.Publication
	}
	found, err := found.fill(ctx, db, t)
	if err != nil {
		return found, err
	}
	there, _, err := found.published(ctx, db, t)
	if err != nil {
		return found, err
	}
	if !there {
		return found, fmt.Errorf("%s is not in the publication %s: its connector does not send its rows", t.Name, found.Publication)
	}
	var database string
	if err := db.QueryRow(ctx, "select current_database()").Scan(&database); err != nil {
		return found, err
	}
	s, err := found.state(ctx, db, "")
	if err != nil {
		return found, err
	}
	if s.database != database {
		return found, fmt.Errorf("the replication slot %s is of the database %s, and this is %s", found.Slot, s.database, database)
	}
	return found, nil
}

// fence is the transaction that takes the table from the connector. A publication of all tables keeps the table, but not its
// rows: a view with its name takes them.
func (t *Table) fence(ctx context.Context, tx pgx.Tx, now *Forward, c Connector) (string, error) {
	_, wide, err := c.published(ctx, tx, t)
	if err != nil {
		return "", err
	}
	function, err := t.function(now.Definition, ModeHeld, "")
	if err != nil {
		return "", err
	}
	leave := fmt.Sprintf("alter publication %s drop table %s;\n", quote(c.Publication), t.Name)
	lock := fmt.Sprintf("lock table %s in share row exclusive mode; -- waits for the writers that are under way\n", t.Name)
	if wide {
		lock = fmt.Sprintf("lock table %s in access exclusive mode; -- waits for the transactions that are under way\n", t.Name)
		if leave, err = t.asView(ctx, tx, now, ModeHeld); err != nil {
			return "", err
		}
	}
	return lock + fmt.Sprintf(`%s%salter table %s enable trigger %s;
%supdate postrider.outbox_forward set mode = 'held', prefix = '', slot = %s, publication = %s, fence = pg_current_wal_insert_lsn(),
    changed_at = clock_timestamp() where source_table = %s;
`, function, t.trigger(), t.Name, TriggerName, leave, literalSQL(c.Slot), literalSQL(c.Publication), literalSQL(t.Name)), nil
}

const (
	heldColumns = `event_id, topic, key, payload, headers, partition, timestamp`
	// moveHeld moves the oldest held events into the log; their ids there are in the order of their ids here.
	moveHeld = `with moved as (delete from postrider.outbox_held_event where id in
	(select h.id from postrider.outbox_held_event h where h.source_table = $1 order by h.id limit $2) returning id, ` + heldColumns + `)
insert into postrider.outbox_event (` + heldColumns + `) select ` + heldColumns + ` from moved order by id`
	// movedAtOnce is how many go in a transaction while writers write.
	movedAtOnce = 5000
)

// release is the end of the transaction that gives the table to the trigger for good.
func (t *Table) release(now *Forward) (string, error) {
	function, err := t.function(now.Definition, ModeForward, "")
	if err != nil {
		return "", err
	}
	if t.kept != "" {
		ofView, err := t.functionOfView(now.Definition, ModeForward)
		if err != nil {
			return "", err
		}
		function += ofView
	}
	return fmt.Sprintf(`lock table %s in share row exclusive mode;
with moved as (delete from postrider.outbox_held_event where source_table = %s returning id, %s)
    insert into postrider.outbox_event (%s) select %s from moved order by id;
%supdate postrider.outbox_forward set mode = 'forward', changed_at = clock_timestamp() where source_table = %s;
`, t.Name, literalSQL(t.Name), heldColumns, heldColumns, heldColumns, function, literalSQL(t.Name)), nil
}

// Cutover moves a table from its connector to Postrider, or goes on with a move that was begun. Whenever it ends before its
// end, no event is lost: what was written since waits until it is called again.
func (a *Adopter) Cutover(ctx context.Context, table string, c Cutover) error {
	var now *Forward
	err := a.change(ctx, table, func(tx pgx.Tx, t *Table) (err error) {
		if _, now, err = a.known(ctx, tx, table); err != nil || now.Mode == ModeHeld || now.Mode == ModeForward {
			return err
		}
		found, err := a.ready(ctx, tx, t, now, c)
		if err != nil {
			return err
		}
		sql, err := t.fence(ctx, tx, now, found)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
		if now, err = Read(ctx, tx, t.Name); err == nil {
			a.Say("%s left the connector (publication %s) at %s: later events are held until the connector has sent what is before", t.Name, now.Publication, now.Fence)
		}
		return err
	})
	if err != nil {
		return err
	}
	if now.Mode == ModeForward {
		a.Say("%s is forwarded by Postrider since %s: nothing was done", now.Table, now.Since.UTC().Format(time.RFC3339))
		return nil
	}
	return a.finish(ctx, table, now, c)
}

// finish waits for the connector, and gives the held events to the log.
func (a *Adopter) finish(ctx context.Context, table string, now *Forward, c Cutover) error {
	if !c.Confirmed {
		if err := a.waitForConnector(ctx, table, now, c); err != nil {
			return err
		}
	}
	for moved := int64(movedAtOnce); moved == movedAtOnce; {
		err := pgx.BeginFunc(ctx, a.Conn, func(tx pgx.Tx) error {
			var mode Mode
			if err := tx.QueryRow(ctx, `select mode from postrider.outbox_forward where source_table = $1 for update`, now.Table).Scan(&mode); err != nil || mode != ModeHeld {
				return err // another call finished it
			}
			tag, err := tx.Exec(ctx, moveHeld, now.Table, movedAtOnce)
			moved = tag.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("move the held events of %s: %w", now.Table, err)
		}
	}
	return a.change(ctx, table, func(tx pgx.Tx, t *Table) error {
		// The lock on the table comes first, as everywhere.
		if _, err := tx.Exec(ctx, "lock table "+t.Name+" in share row exclusive mode"); err != nil {
			return err
		}
		current, err := read(ctx, tx, t.Name, readForward+" for update")
		if err != nil {
			return err
		}
		if current == nil || current.Mode != ModeHeld {
			a.Say("another call ended the cutover of %s", t.Name)
			return nil
		}
		sql, err := t.release(current)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
		a.Say("%s is forwarded by Postrider; the connector has nothing more of it. postrider debezium rollback gives it back. "+
			"When you are sure, delete the connector and drop its slot %s, which keeps the write-ahead log", t.Name, current.Slot)
		return nil
	})
}

// waitForConnector returns when all rows before the fence were sent.
func (a *Adopter) waitForConnector(ctx context.Context, table string, now *Forward, c Cutover) error {
	connector := Connector{now.Slot, now.Publication}
	poll := c.Poll
	if poll == 0 {
		poll = 500 * time.Millisecond
	}
	t, err := FindTable(ctx, a.Conn, table)
	if err != nil {
		return err
	}
	var last string
	copies := true
	for {
		s, err := connector.state(ctx, a.Conn, now.Fence)
		if err != nil {
			return err
		}
		if there, wide, err := connector.published(ctx, a.Conn, t); err != nil {
			return err
		} else if there && !wide {
			return fmt.Errorf("%s is in the publication %s again: its connector sends rows that are held here as well. A connector with publication.autocreate.mode=filtered puts it back when it starts; "+
				"set disabled there, run alter publication %s drop table %s, and run this again", t.Name, now.Publication, quote(now.Publication), t.Name)
		}
		if s.done {
			return nil
		}
		what := fmt.Sprintf("the slot %s has confirmed %s of %s", now.Slot, s.confirmed, now.Fence)
		if !s.active {
			what += "; no connector reads it: start it"
		}
		if copies {
			n, err := connector.inserts(ctx, a.Conn, t, now.Fence)
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil:
				// The slot alone tells, then.
				copies = false
				a.Say("what the connector has not confirmed cannot be counted (%v): waiting until the slot has confirmed the fence", err)
			case n == 0:
				return nil
			default:
				what += fmt.Sprintf(": %d of its rows are not confirmed", n)
			}
		}
		if what != last {
			a.Say("%s", what)
			last = what
		}
		if err := loop.Sleep(ctx, poll); err != nil {
			return errors.Join(err, fmt.Errorf("the events of %s stay held: run postrider debezium cutover again", t.Name))
		}
	}
}
