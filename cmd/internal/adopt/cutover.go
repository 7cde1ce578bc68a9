package adopt

import (
	"cmp"
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
	var out string
	err := a.look(ctx, table, c.fenced, func(tx pgx.Tx, t *Table, s step) error {
		now, err := known(ctx, tx, t)
		if err != nil {
			return err
		}
		switch now.Mode {
		case ModeForward:
			out = alreadyOurs(t, now)
			return nil
		case ModeHeld:
			out = fmt.Sprintf("A cutover of %s was begun at %s and has not ended. --run goes on with it: it waits until the slot %s\nhas confirmed %s, and moves the held events into postrider.outbox_event.\n",
				t.Name, now.Since.UTC().Format(time.RFC3339), now.Slot, now.Fence)
			if s.sql != "" {
				out += "Its trigger is gone or disabled. It is made again first:\n" + transaction(s.script(t))
			}
			return nil
		}
		found, err := c.ready(ctx, tx, t, now)
		if err != nil {
			return err
		}
		release, err := t.release(now)
		if err != nil {
			return err
		}
		out = fmt.Sprintf(`-- 1. One transaction hands %s from the publication %s to the trigger. Every row is on one side of it.
-- The lock is tried again until it can be had.
%s-- From here on events wait in postrider.outbox_held_event.
-- 2. Wait until the connector of the slot %s has sent what is before the fence.
-- 3. Move the held events into postrider.outbox_event: batch after batch, and the last in one transaction with
begin;
%scommit;
`, t.Name, found.Publication, transaction(s.script(t)), found.Slot, t.locking(releaseLock)+release)
		return nil
	})
	return out, err
}

func alreadyOurs(t *Table, now *Forward) string {
	return fmt.Sprintf("%s is forwarded by Postrider since %s: nothing is to be done\n", t.Name, now.Since.UTC().Format(time.RFC3339))
}

// known returns how a table is forwarded, and refuses one that is not.
func known(ctx context.Context, db querier, t *Table) (*Forward, error) {
	now, err := Read(ctx, db, t.Name)
	if err == nil && now == nil {
		err = fmt.Errorf("it is not known what the columns of %s are: postrider debezium shadow %s --run says it, and shows beside the connector that the events are right", t.Name, t.Name)
	}
	return now, err
}

// ready finds the connector, and refuses what cannot be cut over.
func (c Cutover) ready(ctx context.Context, db querier, t *Table, now *Forward) (Connector, error) {
	found := Connector{cmp.Or(c.Slot, now.Slot), cmp.Or(c.Publication, now.Publication)}
	found, err := found.fill(ctx, db, t)
	if err != nil {
		return found, err
	}
	p, err := found.published(ctx, db, t)
	switch {
	case err != nil:
		return found, err
	case !p.there:
		return found, fmt.Errorf("%s is not in the publication %s: its connector does not send its rows", t.Name, found.Publication)
	case !p.wide && !p.owned:
		return found, found.notOwned()
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

// fenced is the plan of a cutover's first transaction, which takes the table from the connector.
func (c Cutover) fenced(ctx context.Context, tx pgx.Tx, t *Table) (step, error) {
	s := step{lock: "share row exclusive"}
	now, err := known(ctx, tx, t)
	if err != nil {
		return s, err
	}
	switch now.Mode {
	case ModeForward:
		s.say("%s is forwarded by Postrider since %s: nothing was done", t.Name, now.Since.UTC().Format(time.RFC3339))
		return s, nil
	case ModeHeld:
		fires, err := t.fires(ctx, tx)
		if err == nil && !fires {
			s.sql, err = t.arm(now.Definition, ModeHeld, "")
			s.say("the trigger of %s was gone or disabled, and is made again: rows that were inserted meanwhile are in the table, and no events", t.Name)
		}
		return s, err
	}
	s.first = func(tx pgx.Tx) error { return CanFence(ctx, tx) }
	found, err := c.ready(ctx, tx, t, now)
	if err != nil {
		return s, err
	}
	p, err := found.published(ctx, tx, t)
	if err != nil {
		return s, err
	}
	s.say("%s left the connector (publication %s): later events are held until the connector has sent what is before", t.Name, found.Publication)
	if p.wide {
		s.lock = "access exclusive"
	}
	s.sql, err = t.fence(ctx, tx, now, found, p.wide)
	return s, err
}

// fence is the SQL that takes the table from the connector. A wide publication keeps the table, but not its rows: a view
// with its name takes them.
func (t *Table) fence(ctx context.Context, tx pgx.Tx, now *Forward, c Connector, wide bool) (string, error) {
	armed, err := t.arm(now.Definition, ModeHeld, "")
	if err != nil {
		return "", err
	}
	leave := fmt.Sprintf("alter publication %s drop table %s;\n", quote(c.Publication), t.Name)
	if wide {
		if leave, err = t.asView(ctx, tx, now, ModeHeld); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(`%s%supdate postrider.outbox_forward set mode = 'held', prefix = '', slot = %s, publication = %s, fence = pg_current_wal_insert_lsn(),
    changed_at = clock_timestamp() where source_table = %s;
`, armed, leave, literalSQL(c.Slot), literalSQL(c.Publication), literalSQL(t.Name)), nil
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

// releaseLock is the lock of a release.
const releaseLock = "share row exclusive"

// release is the SQL that gives the table to the trigger for good.
func (t *Table) release(now *Forward) (string, error) {
	armed, err := t.arm(now.Definition, ModeForward, "")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`select from postrider.outbox_forward where source_table = %s for update; -- waits for a batch that moves
with moved as (delete from postrider.outbox_held_event where source_table = %s returning id, %s)
    insert into postrider.outbox_event (%s) select %s from moved order by id;
%supdate postrider.outbox_forward set mode = 'forward', changed_at = clock_timestamp() where source_table = %s;
`, literalSQL(t.Name), literalSQL(t.Name), heldColumns, heldColumns, heldColumns, armed, literalSQL(t.Name)), nil
}

// released is the plan of a cutover's last transaction.
func released(ctx context.Context, tx pgx.Tx, t *Table) (step, error) {
	s := step{lock: releaseLock}
	now, err := Read(ctx, tx, t.Name)
	if err != nil {
		return s, err
	}
	if now == nil || now.Mode != ModeHeld {
		s.say("another call ended the cutover of %s", t.Name)
		return s, nil
	}
	s.say("%s is forwarded by Postrider; the connector has nothing more of it. postrider debezium rollback gives it back. "+
		"When you are sure, delete the connector and drop its slot %s, which keeps the write-ahead log", t.Name, now.Slot)
	s.sql, err = t.release(now)
	return s, err
}

// Cutover moves a table from its connector to Postrider, or goes on with a move that was begun. Whenever it ends before its
// end, no event is lost: what was written since waits until it is called again.
func (a *Adopter) Cutover(ctx context.Context, table string, c Cutover) error {
	if err := a.change(ctx, table, c.fenced); err != nil {
		return err
	}
	t, err := FindTable(ctx, a.Conn, table)
	if err != nil {
		return err
	}
	now, err := known(ctx, a.Conn, t)
	if err != nil || now.Mode != ModeHeld {
		return err
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
			moved = 0
			var mode Mode
			err := tx.QueryRow(ctx, `select mode from postrider.outbox_forward where source_table = $1 for update`, now.Table).Scan(&mode)
			if errors.Is(err, pgx.ErrNoRows) || err == nil && mode != ModeHeld {
				return nil // another call finished it
			} else if err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, moveHeld, now.Table, movedAtOnce)
			moved = tag.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("move the held events of %s: %w", now.Table, err)
		}
	}
	return a.change(ctx, table, released)
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
	var last, confirmed, counted string
	// A copy of the slot costs the server what the connector has not confirmed: it is made when the slot stands still, and
	// ever less often.
	copies, pause, nextCopy := true, poll, time.Now()
	for {
		s, err := connector.state(ctx, a.Conn, now.Fence)
		if err != nil {
			return err
		}
		if p, err := connector.published(ctx, a.Conn, t); err != nil {
			return err
		} else if p.there && !p.wide {
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
		still := s.confirmed == confirmed
		if confirmed = s.confirmed; !still {
			counted = ""
		}
		if copies && still && !time.Now().Before(nextCopy) {
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
				counted = fmt.Sprintf(": %d of its rows are not confirmed", n)
			}
			nextCopy, pause = time.Now().Add(pause), min(2*pause, 30*time.Second)
		}
		what += counted
		if what != last {
			a.Say("%s", what)
			last = what
		}
		if err := loop.Sleep(ctx, poll); err != nil {
			return errors.Join(err, fmt.Errorf("the events of %s stay held: run postrider debezium cutover again", t.Name))
		}
	}
}
