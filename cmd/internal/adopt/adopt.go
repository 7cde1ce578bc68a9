package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/loop"
)

// Adopter changes tables on one connection.
type Adopter struct {
	// Conn is a connection whose login owns the table and the schema postrider, or is a superuser.
	Conn *pgx.Conn
	// Say is told each act and each wait. It must be set.
	Say func(format string, args ...any)
	// LockTimeout is how long a lock on the table is waited for in one attempt: as long wait the writers that come behind it.
	// Defaults to 2 s.
	LockTimeout time.Duration
	// Attempts is how often a lock is tried. Defaults to 30, with pauses of 0.2 s to 10 s between.
	Attempts int
}

// Wish is how a table is to be forwarded.
type Wish struct {
	Definition Definition
	Mode       Mode
	Prefix     string
	// Connector is the connector that sends the rows of a shadow, where it is known: a cutover takes it from there.
	Connector Connector
	// Replace allows that the table is forwarded in another way now.
	Replace bool
}

// step is SQL that changes a table, and what it needs.
type step struct {
	// lock is the mode of the lock on the table under which the SQL is planned and run.
	lock string
	// first runs before the lock is waited for; nil is nothing.
	first func(pgx.Tx) error
	// before runs under the lock, before the SQL; nil is nothing.
	before func(pgx.Tx) error
	// sql is the change; empty where nothing is to be done.
	sql string
	// says are sentences that are true when the step is committed.
	says []string
}

func (s *step) say(format string, args ...any) { s.says = append(s.says, fmt.Sprintf(format, args...)) }

// script is the SQL of a step, its lock included.
func (s step) script(t *Table) string { return t.locking(s.lock) + s.sql }

func (t *Table) locking(mode string) string {
	return fmt.Sprintf("lock table %s in %s mode; -- waits for the transactions that are under way\n", t.Name, mode)
}

// plan reads how a table is, and returns the step that changes it.
type plan func(ctx context.Context, tx pgx.Tx, t *Table) (step, error)

// adoption is the plan that adopts a table as wished.
func adoption(w Wish) plan {
	return func(ctx context.Context, tx pgx.Tx, t *Table) (step, error) {
		s := step{lock: "share row exclusive"}
		sql, err := t.adoption(ctx, tx, w)
		if err != nil {
			return s, err
		}
		if s.sql = sql; sql == "" {
			s.say("%s is forwarded so already: nothing was done", t.Name)
			return s, nil
		}
		if w.Mode == ModeShadow {
			s.say("rows that are inserted into %s become events of topics that begin with %s, beside the connector", t.Name, w.Prefix)
			return s, nil
		}
		s.say("rows that are inserted into %s become events; rows that were there before do not", t.Name)
		published, err := t.publications(ctx, tx)
		if len(published) > 0 {
			s.say("%s", alsoPublished(t, published))
		}
		return s, err
	}
}

// adoption is the SQL that adopts a table as wished, without its lock; empty where the table is forwarded so already.
func (t *Table) adoption(ctx context.Context, tx pgx.Tx, w Wish) (string, error) {
	if err := t.noView(); err != nil {
		return "", err
	}
	if err := t.prove(ctx, tx, w.Definition); err != nil {
		return "", err
	}
	body, err := t.body(w.Definition, w.Mode, w.Prefix)
	if err != nil {
		return "", err
	}
	there, err := t.currentTrigger(ctx, tx)
	if err != nil {
		return "", err
	}
	now, err := Read(ctx, tx, t.Name)
	if err != nil {
		return "", err
	}
	if now != nil {
		same := sameJSON(now.Definition, w.Definition) && now.Mode == w.Mode && now.Prefix == w.Prefix &&
			(w.Connector == Connector{} || w.Connector == Connector{now.Slot, now.Publication})
		switch {
		case now.Mode == ModeHeld:
			return "", fmt.Errorf("a cutover of %s runs since %s: postrider debezium cutover or rollback ends it", t.Name, now.Since.UTC().Format(time.RFC3339))
		case now.Mode != w.Mode && now.Mode == ModeForward:
			return "", fmt.Errorf("%s is forwarded already, and a shadow would take its events away: postrider adopt --remove ends the forwarding first", t.Name)
		case now.Mode != w.Mode && w.Mode == ModeForward:
			return "", fmt.Errorf("%s is a connector's, with Postrider beside it (%s): postrider debezium cutover moves it", t.Name, now.Mode)
		case same && there != nil && there.enabled && there.body == body:
			return "", nil
		case !sameJSON(now.Definition, w.Definition) && !w.Replace:
			was, _ := json.Marshal(now.Definition)
			is, _ := json.Marshal(w.Definition)
			return "", fmt.Errorf("%s is forwarded by another definition; --replace puts the new one in its place\n  now %s\n  new %s", t.Name, was, is)
		}
	}
	if w.Mode == ModeShadow {
		var other *string
		if err := tx.QueryRow(ctx, `select min(source_table) from postrider.outbox_forward where mode = 'shadow' and prefix = $1 and source_table <> $2`, w.Prefix, t.Name).Scan(&other); err != nil {
			return "", fmt.Errorf("read postrider.outbox_forward: %w", err)
		}
		if other != nil {
			return "", fmt.Errorf("the topics of the shadow of %s begin with %s already: give this one another --prefix, so that each is compared with its own connector's topics", *other, w.Prefix)
		}
	}
	armed, err := t.arm(w.Definition, w.Mode, w.Prefix)
	if err != nil {
		return "", err
	}
	definition, err := json.Marshal(w.Definition)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`%sinsert into postrider.outbox_forward as f (source_table, function_name, definition, mode, prefix, slot, publication)
    values (%s, %s, %s, %s, %s, nullif(%s, ''), nullif(%s, ''))
    on conflict (source_table) do update set definition = excluded.definition, mode = excluded.mode, prefix = excluded.prefix,
        slot = coalesce(excluded.slot, f.slot), publication = coalesce(excluded.publication, f.publication),
        changed_at = case when f.mode = excluded.mode then f.changed_at else clock_timestamp() end;
`, armed, literalSQL(t.Name), literalSQL(t.functionName()), literalSQL(string(definition)),
		literalSQL(string(w.Mode)), literalSQL(w.Prefix), literalSQL(w.Connector.Slot), literalSQL(w.Connector.Publication)), nil
}

func sameJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// Show returns what Adopt would do, as a script. With tool it has no begin and commit: a migration tool has its own.
func (a *Adopter) Show(ctx context.Context, table string, w Wish, tool bool) (string, error) {
	script := ""
	err := a.look(ctx, table, adoption(w), func(tx pgx.Tx, t *Table, s step) error {
		if s.sql == "" {
			script = "-- " + t.Name + " is forwarded so already: nothing is to be done.\n"
			return nil
		}
		published, err := t.publications(ctx, tx)
		if err != nil {
			return err
		}
		head := "-- Forwards the rows that are inserted into " + t.Name + " into postrider.outbox_event.\n"
		if w.Mode == ModeForward && len(published) > 0 {
			head += "-- " + alsoPublished(t, published) + "\n"
		}
		if script = head + s.script(t); !tool {
			script = head + transaction(s.script(t))
		}
		return nil
	})
	return script, err
}

func transaction(script string) string {
	return "begin;\nset local lock_timeout = '2s';\n" + script + "commit;\n"
}

func alsoPublished(t *Table, names []string) string {
	return fmt.Sprintf("%s is in the publication %s too: if Debezium sends its rows, they are sent twice; postrider debezium shadow and cutover move such a table.",
		t.Name, strings.Join(names, ", "))
}

// Adopt forwards a table as wished.
func (a *Adopter) Adopt(ctx context.Context, table string, w Wish) error {
	return a.change(ctx, table, adoption(w))
}

// ShowRemoval returns what Remove would do, as a script.
func (a *Adopter) ShowRemoval(ctx context.Context, table string) (string, error) {
	return a.show(ctx, table, removal)
}

// Remove ends the forwarding of a table. Events that were made stay.
func (a *Adopter) Remove(ctx context.Context, table string) error {
	return a.change(ctx, table, removal)
}

// removal is the plan that ends the forwarding.
func removal(ctx context.Context, tx pgx.Tx, t *Table) (step, error) {
	s := step{lock: "access exclusive"}
	if err := t.noView(); err != nil {
		return s, err
	}
	now, err := Read(ctx, tx, t.Name)
	if err != nil {
		return s, err
	}
	there, err := t.currentTrigger(ctx, tx)
	switch {
	case err != nil:
		return s, err
	case now == nil && there == nil:
		s.say("%s is not forwarded: nothing was done", t.Name)
		return s, nil
	case now != nil && now.Mode == ModeHeld:
		return s, fmt.Errorf("a cutover of %s runs, and its events are held: postrider debezium cutover or rollback ends it first", t.Name)
	}
	s.sql = fmt.Sprintf(`drop trigger if exists %s on %s;
drop function if exists postrider.%s();
delete from postrider.outbox_forward where source_table = %s;
`, TriggerName, t.Name, quote(t.functionName()), literalSQL(t.Name))
	s.say("rows that are inserted into %s are not forwarded any more", t.Name)
	return s, nil
}

// look plans a step in a transaction that is rolled back, and lets do read more in it.
func (a *Adopter) look(ctx context.Context, table string, p plan, do func(pgx.Tx, *Table, step) error) error {
	tx, err := a.Conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	t, s, err := planned(ctx, tx, table, p)
	if err != nil {
		return err
	}
	return do(tx, t, s)
}

// show returns the step of a plan as a script.
func (a *Adopter) show(ctx context.Context, table string, p plan) (string, error) {
	script := "-- It is so already: nothing is to be done.\n"
	err := a.look(ctx, table, p, func(_ pgx.Tx, t *Table, s step) error {
		if s.sql != "" {
			script = transaction(s.script(t))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return script, nil
}

// planned plans a step without its lock. What cannot change while the lock is waited for is asked here alone.
func planned(ctx context.Context, tx pgx.Tx, table string, p plan) (*Table, step, error) {
	t, err := FindTable(ctx, tx, table)
	if err != nil {
		return nil, step{}, err
	}
	s, err := p(ctx, tx, t)
	if err == nil && s.first != nil {
		err = s.first(tx)
	}
	return t, s, err
}

// change plans a step and does it in a transaction, again while a lock cannot be had or a deadlock was met. A change that
// succeeded says so once.
func (a *Adopter) change(ctx context.Context, table string, p plan) error {
	return a.locked(ctx, table, func(tx pgx.Tx) error {
		// The first plan has no lock: a refusal keeps no writer waiting.
		t, s, err := planned(ctx, tx, table, p)
		if err == nil && s.sql != "" {
			if _, err = tx.Exec(ctx, t.locking(s.lock)); err != nil {
				return err
			}
			// Another command may have changed the table while the lock was waited for.
			if t, err = readTable(ctx, tx, table); err == nil {
				s, err = p(ctx, tx, t)
			}
		}
		if err != nil {
			return err
		}
		if s.sql != "" {
			if s.before != nil {
				if err := s.before(tx); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(ctx, s.script(t)); err != nil {
				return err
			}
		}
		for _, sentence := range s.says {
			a.Say("%s", sentence)
		}
		return nil
	})
}

// locked runs do in a transaction, again while a lock cannot be had.
func (a *Adopter) locked(ctx context.Context, table string, do func(pgx.Tx) error) error {
	attempts := a.Attempts
	if attempts == 0 {
		attempts = 30
	}
	pause := 200 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := a.once(ctx, do)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "55P03" && refused.Code != "40P01" {
			return err
		}
		blocked := a.blockers(ctx, table)
		if attempt == attempts {
			return fmt.Errorf("the lock on %s was not to be had in %d attempts, and nothing was changed: %s; let them finish or end them, and run it again", table, attempts, blocked)
		}
		a.Say("the lock on %s is not to be had yet (%s); trying again in %v", table, blocked, pause)
		if err := loop.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 10*time.Second)
	}
}

func (a *Adopter) once(ctx context.Context, do func(pgx.Tx) error) error {
	// A word counts only when its act is committed.
	var said []func()
	say := a.Say
	a.Say = func(format string, args ...any) { said = append(said, func() { say(format, args...) }) }
	defer func() { a.Say = say }()
	tx, err := a.Conn.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	timeout := a.LockTimeout
	if timeout == 0 {
		timeout = 2 * time.Second
	}
	if _, err := tx.Exec(ctx, "select set_config('lock_timeout', $1, true)", fmt.Sprintf("%dms", max(1, timeout.Milliseconds()))); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit the change: %w; whether it counts is not known: run it again", err)
	}
	for _, one := range said {
		one()
	}
	return nil
}

// blockers names the sessions that keep the table from being locked.
func (a *Adopter) blockers(ctx context.Context, table string) string {
	rows, err := a.Conn.Query(ctx, `select format('session %s, %s, transaction open for %s s', s.pid, coalesce(s.state, 'unknown'), round(extract(epoch from clock_timestamp() - s.xact_start)))
		from pg_catalog.pg_locks l join pg_catalog.pg_stat_activity s using (pid)
		where l.relation = to_regclass($1) and l.granted and l.mode in ('RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') and l.pid <> pg_backend_pid()
		order by s.xact_start limit 3`, table)
	var names []string
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil || len(names) == 0 {
		return "other transactions write to it"
	}
	return strings.Join(names, "; ")
}
