package adopt_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// outbox is the table of Debezium's convention.
const outbox = `create table public.outbox (id uuid primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null,
	type varchar(255) not null, payload jsonb)`

// debezium is the definition of that table, with its type as a header.
func debezium(t *testing.T) adopt.Definition {
	t.Helper()
	d, err := adopt.Preset("debezium", "outbox")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Place("type:header:eventType"); err != nil {
		t.Fatal(err)
	}
	return d
}

// adopter notes each word.
func adopter(conn *pgx.Conn) (*adopt.Adopter, *[]string) {
	var said []string
	return &adopt.Adopter{Conn: conn, Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}, &said
}

// fresh is a database with the schema, and a connection whose tables are made in the schema public.
func fresh(t *testing.T) (*pgtest.DB, *pgx.Conn) {
	t.Helper()
	db := pgtest.New(t)
	conn := db.Conn(t)
	pgtest.Exec(t, conn, "set search_path = public")
	return db, conn
}

// role makes a role without rights for a test.
func role(t *testing.T, db *pgtest.DB) string {
	t.Helper()
	name := db.Name
	pgtest.Exec(t, db.Conn(t), `create role `+name+` nologin`)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), db.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), `reassign owned by `+name+` to current_user; drop owned by `+name+`; drop role `+name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// take adopts a table of a fresh database.
func take(t *testing.T, create, table string, d adopt.Definition) (*pgtest.DB, *pgx.Conn, *adopt.Adopter) {
	t.Helper()
	db, conn := fresh(t)
	pgtest.Exec(t, conn, create)
	a, _ := adopter(conn)
	if err := a.Adopt(t.Context(), table, adopt.Wish{Definition: d, Mode: adopt.ModeForward}); err != nil {
		t.Fatal(err)
	}
	return db, conn, a
}

// events are the events as text, in the order of the log.
func events(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	return pgtest.Column[string](t, conn, `select concat_ws(' ', topic, coalesce(convert_from(key, 'UTF8'), 'null'), coalesce(convert_from(payload, 'UTF8'), 'null'), headers,
		partition, extract(epoch from timestamp)::float8) from postrider.outbox_event order by id`)
}

func wantEvents(t *testing.T, conn *pgx.Conn, want ...string) {
	t.Helper()
	if got := events(t, conn); !slices.Equal(got, want) {
		t.Errorf("the events are\n%s\nand should be\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	pgtest.Exec(t, conn, "delete from postrider.outbox_event")
}

func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// event is the event of a row of the convention's table.
func event(n int, kind, key string) string {
	return fmt.Sprintf(`outbox.event.%s %s {"n": %d} [["id", "%s"], ["eventType", "Made"]]`, kind, key, n, id(n))
}

func row(n int, kind, key string) string {
	return fmt.Sprintf(`('%s', '%s', '%s', 'Made', '{"n":%d}')`, id(n), kind, key, n)
}

// TestEveryWayOfWriting: whatever a writer with no rights but to insert does, each row that is committed is an event, in the
// order in which the rows were inserted.
func TestEveryWayOfWriting(t *testing.T) {
	t.Parallel()
	db, conn, _ := take(t, outbox, "outbox", debezium(t))
	pgtest.Exec(t, conn, `grant insert, select, delete, update on public.outbox to `+role(t, db))
	writer, err := pgx.Connect(t.Context(), db.As(db.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close(context.Background())
	write := func(sql string) { pgtest.Exec(t, writer, sql) }
	write("set search_path = public")

	write(`insert into outbox values ` + row(1, "Order", "o-1"))
	wantEvents(t, conn, event(1, "Order", "o-1"))

	write(`insert into outbox values ` + row(5, "Order", "b") + `,` + row(3, "User", "a") + `,` + row(4, "Order", "b"))
	wantEvents(t, conn, event(5, "Order", "b"), event(3, "User", "a"), event(4, "Order", "b"))

	var back string
	if err := writer.QueryRow(t.Context(), `insert into outbox values `+row(6, "Order", "c")+` returning id::text`).Scan(&back); err != nil || back != id(6) {
		t.Errorf("returning gives %s, %v", back, err)
	}
	wantEvents(t, conn, event(6, "Order", "c"))

	// Of rows that are there already only the new ones are events; an update is none.
	write(`insert into outbox values ` + row(6, "Order", "c") + `,` + row(7, "Order", "c") + ` on conflict do nothing`)
	write(`insert into outbox values ` + row(7, "Order", "c") + `,` + row(8, "Order", "c") + ` on conflict (id) do update set aggregateid = 'other'`)
	write(`update outbox set aggregateid = 'other'`)
	wantEvents(t, conn, event(7, "Order", "c"), event(8, "Order", "c"))

	// Debezium's extension for Quarkus deletes the row at once.
	write(`begin; insert into outbox values ` + row(9, "Order", "d") + `; delete from outbox where id = '` + id(9) + `'; commit`)
	write(`with gone as (insert into outbox values ` + row(10, "Order", "d") + ` returning *) delete from outbox where id in (select id from gone)`)
	wantEvents(t, conn, event(9, "Order", "d"), event(10, "Order", "d"))

	write(`begin; insert into outbox values ` + row(11, "Order", "e") + `; savepoint s; insert into outbox values ` + row(12, "Order", "e") +
		`; rollback to s; insert into outbox values ` + row(13, "Order", "e") + `; commit`)
	write(`begin; insert into outbox values ` + row(14, "Order", "e") + `; rollback`)
	wantEvents(t, conn, event(11, "Order", "e"), event(13, "Order", "e"))

	var rows [][]any
	var want []string
	for n := 1000; n > 900; n-- {
		rows = append(rows, []any{id(n), "Order", "f", "Made", fmt.Sprintf(`{"n":%d}`, n)})
		want = append(want, event(n, "Order", "f"))
	}
	if _, err := writer.CopyFrom(t.Context(), pgx.Identifier{"outbox"}, []string{"id", "aggregatetype", "aggregateid", "type", "payload"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, conn, want...)

	write(`insert into outbox select gen_random_uuid(), 'Order', 'none', 'Made', '{}' where false`)
	write(`prepare many as insert into outbox values ($1, 'Order', 'g', 'Made', $2); execute many('` + id(21) + `', '{"n":21}'); execute many('` + id(22) + `', '{"n":22}')`)
	wantEvents(t, conn, event(21, "Order", "g"), event(22, "Order", "g"))
	if n := pgtest.Value[int](t, conn, `select count(*) from postrider.outbox_event`); n != 0 {
		t.Errorf("%d events are left", n)
	}
}

// TestWritersCannotChangeWhatTheTriggerDoes: the function runs with the rights of the outbox's owner, so what a writer puts
// into its search_path must not be called by it.
func TestWritersCannotChangeWhatTheTriggerDoes(t *testing.T) {
	t.Parallel()
	_, conn, _ := take(t, outbox, "outbox", debezium(t))
	pgtest.Exec(t, conn, `create schema evil; set search_path = evil, public, pg_catalog;
		create function evil.convert_to(text, text) returns bytea language sql as $$select '\x00'::bytea$$;
		create function evil.convert_to(text, name) returns bytea language sql as $$select '\x00'::bytea$$;
		create function evil.jsonb_build_array(variadic text[]) returns jsonb language sql as $$select '[]'::jsonb$$;
		create temp table new_rows (id uuid, aggregatetype text, aggregateid text, type text, payload text);
		insert into public.outbox values `+row(1, "Order", "o"))
	wantEvents(t, conn, event(1, "Order", "o"))
	owner := pgtest.Value[string](t, conn, `select concat_ws(' ', prosecdef, proconfig, proowner = (select relowner from pg_class where oid = 'postrider.outbox_event'::regclass),
		has_function_privilege('public', oid, 'execute')) from pg_proc where proname like 'outbox\_forward\_%'`)
	if owner != `t {"search_path=pg_catalog, pg_temp"} t f` {
		t.Errorf("the function is %s", owner)
	}
}

// TestColumnsOfEachKind: identities that are no UUIDs, bytes, numbers, JSON, partition and time.
func TestColumnsOfEachKind(t *testing.T) {
	t.Parallel()
	_, conn, _ := take(t, `create table public.mine (n bigint generated always as identity, k bytea, body text, extra jsonb, flag boolean, raw bytea, part smallint, at timestamp, topic name)`,
		"public.mine", adopt.Definition{ID: "n", TopicSQL: "r.topic", Key: "k", Payload: "body", HeadersJSON: "extra",
			Headers: []adopt.Header{{Column: "flag", Name: "flag"}, {Column: "raw", Name: "raw"}}, Partition: "part", Timestamp: "at", Where: "r.body is distinct from 'no'"})
	pgtest.Exec(t, conn, `insert into mine (k, body, extra, flag, raw, part, at, topic) values
		('a', 'é ''x''', '{"z": 1, "y": "two", "x": null, "o": {"p": []}}', true, '\x0102', 7, '2020-01-01', 't1'),
		(null, null, null, null, null, null, null, 't2'), ('a', 'no', null, null, null, null, null, 't3')`)
	first := pgtest.Value[string](t, conn, `select string_agg(event_id::text, ' ' order by id) from postrider.outbox_event`)
	wantEvents(t, conn,
		`t1 a é 'x' [["id", "1"], ["flag", "true"], ["raw", "AQI="], ["o", "{\"p\": []}"], ["x", null], ["y", "two"], ["z", "1"]] 7 1577836800`,
		`t2 null null [["id", "2"], ["flag", null], ["raw", null]]`)
	// The same row of the same table has the same event id, wherever it is: here after a restore.
	pgtest.Exec(t, conn, `truncate mine restart identity; insert into mine (body, topic) values ('x', 't'), ('y', 't')`)
	if again := pgtest.Value[string](t, conn, `select string_agg(event_id::text, ' ' order by id) from postrider.outbox_event`); again != first || strings.Count(first, "-8") < 4 {
		t.Errorf("the event ids were %s and are %s", first, again)
	}
}

// TestHostileNames: quotes, capitals, dollars and backslashes in every name.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	const schema, table, column = `Sch"ema.$forward$`, `Out'bo"x \ $forward$ ; drop`, `pay"lo'ad $forward$ \`
	_, conn := fresh(t)
	name := pgx.Identifier{schema, table}.Sanitize()
	quoted := pgx.Identifier{column}.Sanitize()
	pgtest.Exec(t, conn, `create schema `+pgx.Identifier{schema}.Sanitize())
	pgtest.Exec(t, conn, `create table `+name+` ("ID" uuid, `+quoted+` text, "K'ey" text)`)
	a, said := adopter(conn)
	w := adopt.Wish{Mode: adopt.ModeForward, Definition: adopt.Definition{ID: "ID", Topic: "t", Key: "K'ey", Payload: column, Headers: []adopt.Header{{Column: column, Name: `he'ad"er\ $forward$`}}}}
	for range 2 {
		if err := a.Adopt(t.Context(), name, w); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains((*said)[1], "nothing was done") {
		t.Errorf("the second time it said %q", *said)
	}
	pgtest.Exec(t, conn, `insert into `+name+` values ($1, 'p', 'k')`, id(1))
	wantEvents(t, conn, `t k p [["he'ad\"er\\ $forward$", "p"]]`)
	if err := a.Remove(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, `insert into `+name+` values ($1, 'p', 'k')`, id(2))
	wantEvents(t, conn)
}

// TestPartitionedTables: a row that is inserted into a partition, also into one that was made later, is an event.
func TestPartitionedTables(t *testing.T) {
	t.Parallel()
	_, conn, a := take(t, `create table outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb) partition by list (aggregateid);
		create table outbox_a partition of outbox for values in ('a')`, "outbox", debezium(t))
	pgtest.Exec(t, conn, `create table outbox_b partition of outbox for values in ('b')`)
	pgtest.Exec(t, conn, `insert into outbox values `+row(1, "Order", "a")+`,`+row(2, "Order", "b")+`,`+row(3, "Order", "a"))
	pgtest.Exec(t, conn, `insert into outbox_b values `+row(4, "Order", "b"))
	pgtest.Exec(t, conn, `create table outbox_c (like outbox); insert into outbox_c values `+row(9, "Order", "c"))
	pgtest.Exec(t, conn, `alter table outbox attach partition outbox_c for values in ('c'); insert into outbox_c values `+row(5, "Order", "c"))
	wantEvents(t, conn, event(1, "Order", "a"), event(2, "Order", "b"), event(3, "Order", "a"), event(4, "Order", "b"), event(5, "Order", "c"))
	if err := a.Adopt(t.Context(), "outbox_a", adopt.Wish{Definition: debezium(t), Mode: adopt.ModeForward}); err == nil || !strings.Contains(err.Error(), "is a partition") {
		t.Errorf("a partition: %v", err)
	}
	if err := a.Remove(t.Context(), "outbox"); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, `insert into outbox values `+row(6, "Order", "a"))
	wantEvents(t, conn)
}

// TestTopicsAreThoseOfTheRouter: PostgreSQL makes of the column what Java's replaceFirst makes of it when all of it matches.
func TestTopicsAreThoseOfTheRouter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ regex, replacement, field, want string }{
		{debezium(t).Route.Regex, debezium(t).Route.Replacement, "Order", "outbox.event.Order"},
		{"(.)(.*)", "x$12", "ab", "xa2"}, // there is no group 12
		{"Ord", "x", "Order", "Order"},
		{"(.*)", "events.$0", "a", "events.a"},
		{`([a-z]*)`, `a\\b$1`, "c", `a\bc`},
		{`(?<a>[a-z]+)-(\d+)`, "${a}.$2", "order-17", "order.17"},
		{`(?<a>[a-z]+)-(\d+)`, "${a}.$2", "xorder-17y", "xorder-17y"},
		{`(.*)\.(.*)`, "$2_$1", "a.b.c", "c_a.b"},
		{`it's(\\?)`, `$0&\$`, "it's", "it's&$"},
		{`(a)(b)?`, "x$1$2", "a", "xa"},
		{`[^-]+-(\w+)`, "t.$1", "x-y_Z9", "t.y_Z9"},
	} {
		t.Run(c.regex, func(t *testing.T) {
			d := debezium(t)
			d.Route = &adopt.Route{Field: "aggregatetype", Regex: c.regex, Replacement: c.replacement}
			d.Headers, d.TopicSQL = nil, ""
			_, conn := fresh(t)
			pgtest.Exec(t, conn, `create table routed (id uuid, aggregatetype text, aggregateid text, payload text);
				alter domain postrider.outbox_topic drop constraint outbox_event_topic_valid`)
			a, _ := adopter(conn)
			if err := a.Adopt(t.Context(), "routed", adopt.Wish{Definition: d, Mode: adopt.ModeForward}); err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, conn, `insert into routed values (gen_random_uuid(), $1, 'k', 'p')`, c.field)
			if got := pgtest.Value[string](t, conn, `select topic from postrider.outbox_event`); got != c.want {
				t.Errorf("the topic is %q and should be %q", got, c.want)
			}
		})
	}
}

// TestPresets: the tables as their outboxes make them.
func TestPresets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ preset, table, create, insert, topic, want string }{
		{"watermill", `watermill_orders`,
			`create table watermill_orders ("offset" bigserial, uuid varchar(36) not null, created_at timestamp not null default current_timestamp, payload json default null,
				metadata json default null, transaction_id xid8 not null, primary key (transaction_id, "offset"))`,
			`insert into watermill_orders (uuid, payload, metadata, transaction_id) values ('w-1', '{"a":  1}', '{"trace": "x"}', pg_current_xact_id())`, "",
			`orders null {"a":  1} [["_watermill_message_uuid", "w-1"], ["trace", "x"]]`},
		{"masstransit", `"OutboxMessage"`,
			`create table "OutboxMessage" ("SequenceNumber" bigint generated by default as identity primary key, "EnqueueTime" timestamptz, "SentTime" timestamptz not null, "Headers" text, "Properties" text,
				"InboxMessageId" uuid, "InboxConsumerId" uuid, "OutboxId" uuid, "MessageId" uuid not null, "ContentType" varchar(256) not null, "MessageType" text not null, "Body" text not null,
				"ConversationId" uuid, "CorrelationId" uuid, "InitiatorId" uuid, "RequestId" uuid, "SourceAddress" varchar(256), "DestinationAddress" varchar(256), "ResponseAddress" varchar(256),
				"FaultAddress" varchar(256), "ExpirationTime" timestamptz)`,
			`insert into "OutboxMessage" ("SentTime", "Headers", "MessageId", "ContentType", "MessageType", "Body") values (now(), '{"h": "v"}', '` + id(1) + `', 'application/vnd.masstransit+json', 'urn:message:A', '{}')`, "bus",
			`bus null {} [["MessageId", "` + id(1) + `"], ["Content-Type", "application/vnd.masstransit+json"], ["MessageType", "urn:message:A"], ["h", "v"]]`},
		{"modulith", `event_publication`,
			`create table event_publication (id uuid not null, listener_id text not null, event_type text not null, serialized_event text not null, publication_date timestamptz not null, completion_date timestamptz, primary key (id))`,
			`insert into event_publication values ('` + id(1) + `', 'org.springframework.modulith.events.support.DelegatingEventExternalizer.externalize(java.lang.Object)', 'app.Made', '{"n":1}', now()),
				('` + id(2) + `', 'app.Mailer.on(app.Made)', 'app.Made', '{"n":1}', now())`, "made",
			`made null {"n":1} [["id", "` + id(1) + `"], ["event_type", "app.Made"]]`},
	} {
		t.Run(c.preset, func(t *testing.T) {
			t.Parallel()
			d, err := adopt.Preset(c.preset, strings.Trim(c.table, `"`))
			if err != nil {
				t.Fatal(err)
			}
			if c.topic != "" {
				d.Topic = c.topic
			}
			_, conn, _ := take(t, c.create, c.table, d)
			pgtest.Exec(t, conn, c.insert)
			wantEvents(t, conn, c.want)
		})
	}
}

// TestHeadersOfTimes: as docs/design/wire.md says it of each type.
func TestHeadersOfTimes(t *testing.T) {
	t.Parallel()
	d := debezium(t)
	d.Headers = nil
	if err := d.Place("ts:header,ts3:header,tz:header,d:header,i:header:number,type:envelope:eventType,raw:envelope,i:envelope"); err != nil {
		t.Fatal(err)
	}
	d.Tracing = "tracingspancontext"
	_, conn, _ := take(t, `create table outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb,
		ts timestamp, ts3 timestamp(3), tz timestamptz, d date, i integer, raw bytea, tracingspancontext text)`, "outbox", d)
	pgtest.Exec(t, conn, `set timezone = 'America/Caracas'; insert into outbox values ('`+id(1)+`', 'O', 'k', 'Made', '1', '2020-01-01 00:00:00.120', '2020-01-01 00:00:00.120',
		'2020-01-01 10:00:20.120Z', '2020-01-01', 7, '\x0102', E'#x\ntraceparent=00'), ('`+id(2)+`', 'O', 'k', 'Made', '1', null, null, '2020-01-01 10:00:20Z', null, null, null, null)`)
	wantEvents(t, conn,
		`outbox.event.O k 1 [["id", "`+id(1)+`"], ["ts", "1577836800120000"], ["ts3", "1577836800120"], ["tz", "2020-01-01T10:00:20.12Z"], ["d", "18262"], ["number", "7"], `+
			`["wire-envelope", "{\"i\": 7, \"raw\": \"AQI=\", \"eventType\": \"Made\"}"], ["wire-tracing", "#x\ntraceparent=00"]]`,
		`outbox.event.O k 1 [["id", "`+id(2)+`"], ["ts", null], ["ts3", null], ["tz", "2020-01-01T10:00:20Z"], ["d", null], ["number", null], `+
			`["wire-envelope", "{\"i\": null, \"raw\": null, \"eventType\": \"Made\"}"], ["wire-tracing", null]]`)
}

// TestBytesOfTheConvention: any text and any bytes arrive as they are.
func TestBytesOfTheConvention(t *testing.T) {
	t.Parallel()
	d := debezium(t)
	_, conn, _ := take(t, `create table outbox (id text, aggregatetype text, aggregateid bytea, type text, payload bytea)`, "outbox", d)
	pgtest.Exec(t, conn, `insert into outbox values ('x', 'T', '\x00ff5c27', 'a', '\xdeadbeef'), ('y', 'T', '', null, ''), ('z', 'T', null, E'\u0001\\"é', null)`)
	got := pgtest.Column[string](t, conn, `select concat_ws(' ', coalesce(encode(key, 'hex'), 'null'), coalesce(encode(payload, 'hex'), 'null'), encode(convert_to(headers->1->>1, 'UTF8'), 'hex')) from postrider.outbox_event order by id`)
	want := []string{"00ff5c27 deadbeef 61", "  ", "null null " + hex.EncodeToString([]byte("\x01\\\"é"))}
	if !slices.Equal(slices.Collect(trimmed(got)), slices.Collect(trimmed(want))) {
		t.Errorf("%q, want %q", got, want)
	}
}

func trimmed(in []string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, s := range in {
			if !yield(strings.TrimSpace(s)) {
				return
			}
		}
	}
}
