package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/adopt"
)

// outboxTable is where a side's events are written, and how.
type outboxTable struct {
	name     string
	migrated bool     // Postrider's schema is there
	ddl      []string // what else makes the table
	from     pgx.Identifier
	columns  []string // topic, key and payload, for COPY
	insert   string   // of one event: $1 topic, $2 key, $3 payload
	text     bool     // key and payload are texts
	many     int      // events that one statement inserts; 0 is one
	adopted  bool     // its rows are forwarded into outbox_event by the trigger of postrider adopt
	remove   bool     // the writer's transaction deletes the row again: insert and remove take the id as $4
	headers  string   // a column for headers, with the headers of one event in tracedOneIn; none where it is empty
}

// bare is a table that has what an event is, and a primary key.
var bare = outboxTable{
	name:    "bare table",
	ddl:     []string{"create table outbox (id bigint generated always as identity primary key, topic text not null, key bytea, payload bytea)"},
	from:    pgx.Identifier{"outbox"},
	columns: []string{"topic", "key", "payload"},
	insert:  "insert into outbox (topic, key, payload) values ($1, $2, $3)",
}

// polled is what a team adds to it for a poller that keeps what it sent apart.
var polled = outboxTable{
	name: "poller's table",
	ddl: []string{
		`create table outbox (id bigint generated always as identity primary key, topic text not null, key bytea, payload bytea,
			created_at timestamptz not null default now(), sent_at timestamptz)`,
		"create index outbox_unsent on outbox (id) where sent_at is null",
	},
	from: bare.from, columns: bare.columns, insert: bare.insert,
}

// captured is the table of Debezium's outbox event router, as its documentation has it, but with a payload that goes
// through as it is: with jsonb the writers' backends would parse it and the connector would print it.
var captured = outboxTable{
	name: "Debezium's table",
	ddl: []string{`create table outbox (id uuid primary key default gen_random_uuid(), aggregatetype varchar(255) not null,
		aggregateid varchar(255) not null, type varchar(255) not null default 'event', payload text)`},
	from: pgx.Identifier{"outbox"}, columns: []string{"aggregatetype", "aggregateid", "payload"},
	insert: "insert into outbox (aggregatetype, aggregateid, payload) values ($1, $2, $3)", text: true,
}

// capturedMany is the same with a hundred rows in a statement, each with its topic, key and payload.
var capturedMany = outboxTable{
	name: captured.name + ", 100 rows a statement", ddl: captured.ddl, from: captured.from, many: 100, text: true,
	insert: "insert into outbox (aggregatetype, aggregateid, payload) select * from unnest($1::text[], $2::text[], $3::text[])",
}

// forwarded is Debezium's table with the trigger of postrider adopt, and forwardedMany with a hundred rows in a statement.
var (
	forwarded     = captured.forwarded()
	forwardedMany = capturedMany.forwarded()
)

// forwarded is a table in the schema public whose rows are forwarded.
func (t outboxTable) forwarded() outboxTable {
	t.name += ", forwarded"
	t.migrated, t.adopted = true, true
	t.ddl = []string{strings.Replace(t.ddl[0], "create table outbox", "create table public.outbox", 1)}
	t.from = pgx.Identifier{"public", "outbox"}
	t.insert = strings.Replace(t.insert, "into outbox", "into public.outbox", 1)
	return t
}

// removed is the same with rows that exist in the write-ahead log alone, as many write them for Debezium.
var removed = outboxTable{
	name: captured.name + ", row deleted again", ddl: captured.ddl, from: captured.from, columns: captured.columns,
	insert: "insert into outbox (aggregatetype, aggregateid, payload, id) values ($1, $2, $3, $4)", text: true, remove: true,
}

// ours is Postrider's table as its writers use it.
var ours = outboxTable{
	name: "outbox_event, INSERT", migrated: true, from: pgx.Identifier{"postrider", "outbox_event"}, columns: bare.columns,
	insert: "insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)",
}

// published is Postrider's table by its function.
var published = outboxTable{
	name: "outbox_publish_bytes", migrated: true, from: ours.from, columns: ours.columns,
	insert: "select postrider.outbox_publish_bytes($1::text, $2::bytea, $3::bytea)",
}

// create makes the table in a fresh database.
func (t *outboxTable) create(ctx context.Context, d *database) error {
	if err := d.exec(ctx, t.ddl...); err != nil || !t.adopted {
		return err
	}
	definition, err := adopt.Preset("debezium", "outbox")
	if err != nil {
		return err
	}
	a := &adopt.Adopter{Conn: d.conn, Say: func(string, ...any) {}}
	return a.Adopt(ctx, t.from.Sanitize(), adopt.Wish{Definition: definition, Mode: adopt.ModeForward})
}

// args are the values of an event, in the order of the columns.
func (t *outboxTable) args(e event) []any {
	if t.text {
		return []any{e.topic, string(e.key), string(e.payload)}
	}
	return []any{e.topic, e.key, e.payload}
}

// write inserts events in one transaction, in one round trip. A table whose rows are removed takes one event.
func (t *outboxTable) write(ctx context.Context, conn *pgx.Conn, events ...event) error {
	if t.many > 0 {
		topics, keys, payloads := make([]string, len(events)), make([]string, len(events)), make([]string, len(events))
		for i, e := range events {
			topics[i], keys[i], payloads[i] = e.topic, string(e.key), string(e.payload)
		}
		_, err := conn.Exec(ctx, t.insert, topics, keys, payloads)
		return err
	}
	if len(events) > 1 {
		b := &pgx.Batch{}
		for _, e := range events {
			b.Queue(t.insert, t.args(e)...)
		}
		return conn.SendBatch(ctx, b).Close()
	}
	e := events[0]
	if !t.remove {
		_, err := conn.Exec(ctx, t.insert, t.args(e)...)
		return err
	}
	id := uuid.New()
	b := &pgx.Batch{}
	b.Queue(t.insert, append(t.args(e), id)...)
	b.Queue("delete from "+t.from.Sanitize()+" where id = $1", id)
	return conn.SendBatch(ctx, b).Close()
}

// parse has a connection parse the statement and undo it, so that no event pays for it.
func (t *outboxTable) parse(ctx context.Context, conn *pgx.Conn, e event) error {
	for _, step := range []func() error{
		func() error { _, err := conn.Exec(ctx, "begin"); return err },
		func() error { return t.write(ctx, conn, e) },
		func() error { _, err := conn.Exec(ctx, "rollback"); return err },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("prepare a writer of the %s: %w", t.name, err)
		}
	}
	return nil
}

// copyAtOnce is how many events are copied in one transaction.
const copyAtOnce = 20_000

// tracedOneIn is of how many events one has a writer whose trace is recorded.
const tracedOneIn = 100

// load copies events first to first+n-1, in transactions of so many.
func (t *outboxTable) load(ctx context.Context, conn *pgx.Conn, first, n, atOnce int, of func(seq int) event) error {
	columns := t.columns
	if t.headers != "" {
		columns = append(columns[:len(columns):len(columns)], t.headers)
	}
	for from := first; from < first+n; from += atOnce {
		end, seq := min(from+atOnce, first+n), from-1
		if _, err := conn.CopyFrom(ctx, t.from, columns, pgx.CopyFromFunc(func() ([]any, error) {
			if seq++; seq >= end {
				return nil, nil
			}
			row := t.args(of(seq))
			if t.headers != "" {
				row = append(row, traced(seq))
			}
			return row, nil
		})); err != nil {
			return fmt.Errorf("load events %d to %d: %w", from, end-1, err)
		}
	}
	return nil
}

// traced are the headers of an event.
func traced(seq int) string {
	if seq%tracedOneIn != 0 {
		return "{}"
	}
	return fmt.Sprintf(`{"traceparent": "00-%032x-%016x-01"}`, seq+1, seq+1)
}
