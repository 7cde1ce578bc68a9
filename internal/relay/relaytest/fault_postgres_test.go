package relaytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
)

// TestFault18CutAnywhere cuts the connection at every statement that the relay sends, once each. Nothing
// may come of it, and no second copy: the process remembers what was acknowledged. A relay whose terms end soon waits
// longer each time, so no relay is cut more than a few times.
func TestFault18CutAnywhere(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"the log": {
			"as about",                             // reading the log
			"insert into postrider.outbox_receipt", // settling
			"l.virtualtransaction",                 // looking at transactions
			"for update of s skip locked",          // skips
		},
		"exceptions and holds": {
			"insert into postrider.outbox_exception",
			"insert into postrider.outbox_hold",
			"delete from postrider.outbox_hold",
			"from generate_series(1, $1::int)", // ids for holds
		},
		"what comes back": {
			"h.asked is not null",    // looking for due events
			"for update skip locked", // taking
			"delete from postrider.outbox_exception",
			"where e.state = 'exhausted'", // claiming letters
			"set state = 'dead_lettered'",
		},
		"a term": {
			"select 1", // the ping of the session that leads
			"pg_try_advisory_xact_lock($1, $2)",
			"'worker', r.worker",   // where a term begins
			"h.probes, h.draining", // reading holds
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
			l := r.newLedger(topic)
			r.start(dlq)
			for _, statement := range statements {
				l.cutAt(topic, statement)
			}
			l.wantOnce(dlq)
		})
	}
}

// cutAt writes events of every kind, and has the connection cut that sends the statement.
func (l *ledger) cutAt(topic, statement string) {
	l.Helper()
	before := l.proxy.Cuts()
	l.proxy.CutAtQuery(1, pgproxy.Containing(statement))
	if strings.Contains(statement, "of s skip locked") { // the leader looks no further without a skip to make
		l.exec(`insert into postrider.outbox_skip_request (id, reason) values (1, 'it has gone') on conflict do nothing`)
	}
	if strings.Contains(statement, "pg_try") || strings.Contains(statement, "r.worker") || strings.Contains(statement, "h.probes") {
		l.endTerm()
	}
	l.rolledBack(topic, 3)
	l.write(topic, 3, 2)
	l.poison(topic, "k0", maxMessageBytes)
	l.write(topic, 3, 2)
	l.until(drained)
	for deadline := time.Now().Add(3 * time.Minute); l.proxy.Cuts() == before; {
		if time.Now().After(deadline) {
			l.Fatalf("no connection was cut at %q", statement)
		}
		l.write(topic, 3, 1)
		l.poison(topic, "k1", maxMessageBytes)
		l.write(topic, 3, 1)
		l.rolledBack(topic, 3)
		l.until(drained)
	}
}

// endTerm ends the sessions of all relays, and with them the term.
func (r *rig) endTerm() {
	r.Helper()
	r.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'postrider'`)
}

// rolledBack writes n events that never come.
func (r *rig) rolledBack(topic string, n int) {
	r.Helper()
	err := pgx.BeginFunc(r.Context(), r.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(r.Context(), `insert into postrider.outbox_event (topic, key, payload) select $1, 'k0', 'never|' from generate_series(1, $2)`, topic, n); err != nil {
			return err
		}
		return errRollback
	})
	if !errors.Is(err, errRollback) {
		r.Fatal(err)
	}
}

// TestFault19Timeouts: the server ends statements, waits and sessions of the relay, one kind after the other, while it
// works. Each costs a cycle, and the log says which it was. That it ends a leader that is silent is
// TestFault02StoppedAndContinued.
func TestFault19Timeouts(t *testing.T) {
	t.Parallel()
	const slow = `create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(30); return new; end $$;
		create trigger slow before insert on postrider.outbox_receipt for each statement execute function slow()`
	for name, c := range map[string]struct {
		session       map[string]string
		begin, end    string
		locked        string // by another transaction meanwhile
		code          string
		alsoWithClass string
	}{
		"statement_timeout": {session: map[string]string{"statement_timeout": "100ms"}, begin: slow, end: `drop function slow cascade`, code: "57014", alsoWithClass: "transient"},
		"lock_timeout": {session: map[string]string{"lock_timeout": "100ms"}, locked: `lock table postrider.outbox_hold in access exclusive mode`,
			code: "55P03", alsoWithClass: "transient"},
		"terminated by an administrator": {begin: `create function slow() returns trigger language plpgsql as $$ begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;
			create trigger slow before insert on postrider.outbox_receipt for each row when (new.note is null) execute function slow()`, end: `drop function slow cascade`,
			code: "57P01", alsoWithClass: "unknown_outcome"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
			l := r.newLedger(topic)
			l.write(topic, 5, 4)
			if c.begin != "" {
				r.exec(c.begin)
			}
			unlock := func() {}
			if c.locked != "" {
				tx, err := r.pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := tx.Exec(t.Context(), c.locked); err != nil {
					t.Fatal(err)
				}
				unlock = func() { _ = tx.Rollback(context.Background()) }
				t.Cleanup(unlock)
			}
			e := r.startWith(dlq, options{session: c.session})
			r.untilSome(e, "postrider_outbox_database_errors_total", "class", c.alsoWithClass, "code", c.code)
			if c.end != "" {
				r.exec(c.end)
			}
			unlock()
			l.write(topic, 5, 4)
			r.until(drained)
			l.wantOnce(dlq)
		})
	}
}

// TestFault20Deadlock: another session takes the relay's locks in the wrong order. Whichever of the two transactions the
// server ends, nothing is lost, and nothing is sent twice.
func TestFault20Deadlock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	late := topic + "-late"
	l.topics = append(l.topics, late)
	l.write(late, 1, 1)
	hesitate := &hesitation{} // so that the event is in hand for a while
	hesitate.pause.Store(int64(300 * time.Millisecond))
	// The server looks for a deadlock once, so long after a wait began.
	e := r.startWith(dlq, options{session: map[string]string{"deadlock_timeout": "1s"}, engine: func(c *relay.Config) {
		hesitate.Publisher = c.Publisher
		c.Publisher = hesitate
	}})
	r.until(`exists (select from postrider.outbox_hold where topic = $1)`, late)
	collisions := 0
	for round := 0; round < 40 && collisions == 0; round++ {
		// The exception first and then its hold; the relay changes the hold first, and then the exception.
		r.exec(`update postrider.outbox_hold set next_probe_at = now()`)
		r.until(`exists (select from postrider.outbox_exception where sending_since is not null)`)
		err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
			for _, sql := range []string{
				`set local deadlock_timeout = '10s'`, // the other one notices
				`select from postrider.outbox_exception for update`,
			} {
				if _, err := tx.Exec(t.Context(), sql); err != nil {
					return err
				}
			}
			// The relay waits for the exception, unless it was faster than this session.
			r.until(`exists (select from pg_stat_activity where datname = current_database() and application_name = 'postrider' and wait_event_type = 'Lock')
				or not exists (select from postrider.outbox_exception where sending_since is not null)`)
			_, err := tx.Exec(t.Context(), `select from postrider.outbox_hold for update`)
			return err
		})
		if err != nil && !strings.Contains(err.Error(), "40P01") {
			t.Fatal(err)
		}
		if err != nil || e.metric(t, "postrider_outbox_database_errors_total", "code", "40P01") > 0 {
			collisions++
		}
	}
	if collisions == 0 {
		t.Error("there was no deadlock")
	}
	r.broker.CreateTopic(t, late, 1, nil)
	l.write(late, 3, 3)
	l.write(topic, 3, 3)
	r.exec(`update postrider.outbox_hold set next_probe_at = now()`)
	r.until(drained)
	l.wantOnce(dlq)
}

// TestFault20Maintenance rebuilds and locks the outbox's tables and indexes beside writers and relays, as
// administrators do.
func TestFault20Maintenance(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 3, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	r.start(dlq)
	r.start(dlq)
	for _, sql := range []string{
		`vacuum full postrider.outbox_event`,
		`reindex table postrider.outbox_event`,
		`reindex table concurrently postrider.outbox_event`,
		`alter table postrider.outbox_event add column noted text`,
		`alter table postrider.outbox_event alter column noted type varchar(10)`,
		`alter table postrider.outbox_event drop column noted`,
		`analyze postrider.outbox_event`,
		`vacuum full postrider.outbox_receipt`,
		`create index on postrider.outbox_event (created_at)`,
		`cluster postrider.outbox_event using outbox_event_pkey`,
		`vacuum freeze postrider.outbox_event`,
	} {
		written := make(chan error, 1)
		go func() {
			for range 5 {
				if err := l.insert(t.Context(), topic, 6, 2, 50); err != nil {
					written <- err
					return
				}
			}
			written <- nil
		}()
		var err error
		for range 10 { // the statement locks one thing after the other, and may be the one that gives way
			if _, err = r.pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "40P01") {
				break
			}
		}
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
		if err := <-written; err != nil {
			t.Errorf("beside %s: %v", sql, err)
		}
	}
	r.until(drained)
	l.wantAll(dlq) // a settlement that gave way to DDL costs copies, from the other relay
}

// TestFault21NoConnections: the server has too few connections for the relay, and then enough. The relay
// runs as a login that is no superuser, which limits do not hold for.
func TestFault21NoConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.write(topic, 5, 4)
	role, url := r.login()
	r.exec(`alter role ` + role + ` connection limit 0`)
	e := r.startWith(dlq, options{url: url})
	r.untilSome(e, "postrider_outbox_database_errors_total", "class", "transient", "code", "53300")
	r.exec(`alter role ` + role + ` connection limit 3`) // less than it would like to have
	r.until(drained)
	l.wantOnce(dlq)
}

// login makes a login that may read and write the tables and owns nothing.
func (r *rig) login() (role, url string) {
	r.Helper()
	var db string
	if err := r.pool.QueryRow(r.Context(), `select current_database()`).Scan(&db); err != nil {
		r.Fatal(err)
	}
	role = pgx.Identifier{db}.Sanitize()
	r.exec(fmt.Sprintf(`create role %[1]s login password 'secret'; grant usage on schema postrider to %[1]s;
		grant select, insert, update, delete on all tables in schema postrider to %[1]s; grant select, usage, update on all sequences in schema postrider to %[1]s;
		grant execute on all functions in schema postrider to %[1]s`, role))
	r.Cleanup(func() {
		_, _ = r.pool.Exec(context.Background(), fmt.Sprintf(`drop owned by %[1]s; drop role %[1]s`, role))
	})
	cfg, err := pgx.ParseConfig(r.proxy.URL())
	if err != nil {
		r.Fatal(err)
	}
	return role, fmt.Sprintf("postgres://%s:secret@%s:%d/%s?sslmode=disable", db, cfg.Host, cfg.Port, db)
}

// TestFault21DiskFull: the database can write nothing more. What goes out meanwhile goes out once: it is
// remembered, and no term goes far ahead of its receipts.
func TestFault21DiskFull(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"53100", "53200"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
			l := r.newLedger(topic)
			r.exec(fmt.Sprintf(`create function full_disk() returns trigger language plpgsql as $$
				begin raise exception 'could not extend file: No space left on device' using errcode = '%s'; end $$;
				create trigger full_disk before insert on postrider.outbox_receipt for each row when (new.note is null) execute function full_disk()`, code))
			const batch = 20
			l.write(topic, 10, 400)
			e := r.startWith(dlq, options{engine: func(c *relay.Config) { c.BatchSize = batch }})
			r.untilSome(e, "postrider_outbox_database_errors_total", "class", "transient", "code", code)
			for e.metric(t, "postrider_outbox_cycle_errors_total", "loop", "lead") < 6 {
				r.until(`true`)
			}
			// Unsettled, the log is read again from where it was: each term can be ahead by a few batches and no more.
			if n := len(r.broker.ReadAll(t, topic, 0)); n >= 4000 {
				t.Errorf("all %d events went out unsettled", n)
			}
			r.exec(`drop function full_disk cascade`)
			r.until(drained)
			l.wantOnce(dlq)
		})
	}
}
