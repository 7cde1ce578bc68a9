package check

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/debezium"
	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

const outbox = `create table outbox (id uuid primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null,
	type varchar(255) not null, payload jsonb, made timestamp, made_at timestamptz, place integer, large bigint, cost numeric, secret bytea, tags text[]);
	create publication dbz_publication for table outbox`

// properties are those of a connector that Postrider follows in everything, changed by pairs.
func properties(pairs ...string) debezium.Properties {
	p := debezium.Properties{"name": "orders", "connector.class": debezium.Class, "topic.prefix": "shop", "plugin.name": "pgoutput", "publication.autocreate.mode": "disabled",
		"table.include.list": "public.outbox", "heartbeat.interval.ms": "10000", "extended.headers.enabled": "false", "snapshot.mode": "no_data",
		"key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "org.apache.kafka.connect.storage.StringConverter",
		"transforms": "outbox", "transforms.outbox.type": debezium.RouterClass}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = pairs[i+1]
	}
	return p
}

// run compares on a database.
func run(t *testing.T, url string, change func(*Config), pairs ...string) Report {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	cfg := Config{Properties: properties(pairs...), Database: pool}
	if change != nil {
		change(&cfg)
	}
	report, err := Check(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// want demands the words about one thing.
func (r Report) want(t *testing.T, name string, verdict debezium.Verdict, says string) {
	t.Helper()
	var found []debezium.Knob
	for _, k := range r.Database {
		if k.Name == name {
			if found = append(found, k); k.Verdict == verdict && strings.Contains(k.Says+" "+k.Do, says) {
				if k.Do == "" && verdict == debezium.Refused {
					t.Errorf("%s is refused without a way out: %+v", name, k)
				}
				return
			}
		}
	}
	t.Errorf("%s: want %s with %q; found %+v in %+v", name, verdict, says, found, r.Database)
}

// TestTable: which table is meant, and what its columns are.
func TestTable(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	conn := db.Conn(t)
	pgtest.Exec(t, conn, outbox)
	r := run(t, db.URL, nil)
	r.want(t, "table", debezium.Same, "public.outbox")
	r.want(t, "replica identity", debezium.Same, "inserts need none")
	r.want(t, "rights on the table", debezium.Same, "owns")
	r.want(t, "publication", debezium.Same, "has public.outbox alone")
	r.want(t, "slot", debezium.Differs, "there is no slot debezium")
	r.want(t, "order", debezium.Differs, "--keys-locked")
	if r.Table != "public.outbox" || r.Verdict != debezium.Differs || r.Records.Verdict != debezium.NotLookedAt {
		t.Errorf("%+v", r)
	}
	const rest = "    commit_order: true\n    wire:\n      key: string\n      value: string\n"
	const rules = "topics:\n  - match: \"outbox.event.*\"\n" + rest + "  - match: \"shadow.outbox.event.*\"\n" + rest
	if r.Rules != rules || r.Next != "postrider debezium shadow public.outbox --connector FILE" {
		t.Errorf("rules %s\nnext %s", r.Rules, r.Next)
	}
	run(t, db.URL, func(c *Config) { c.KeysLocked = true }).want(t, "order", debezium.Same, "you say")
	run(t, db.URL, func(c *Config) { c.Settings.Outbox.CommitOrder = true }).want(t, "order", debezium.Same, "commit_order is set")

	// The table is found by Debezium's expressions, and by name.
	for list, says := range map[string]string{`PUBLIC\.out.*`: "public.outbox", "": "public.outbox", "public.nothing": "no table of this database fits", "public.outbo": "no table", "(": "--table"} {
		verdict := debezium.Refused
		if says == "public.outbox" {
			verdict = debezium.Same
		}
		run(t, db.URL, nil, "table.include.list", list).want(t, "table", verdict, says)
	}
	pgtest.Exec(t, conn, `create schema other; create table other.outbox (like outbox including all); create table public.orders (id int)`)
	run(t, db.URL, nil, "table.include.list", `.*\.outbox`).want(t, "table", debezium.Refused, "other.outbox, public.outbox")
	run(t, db.URL, func(c *Config) { c.Table = "other.outbox" }, "table.include.list", `.*\.outbox`).want(t, "table", debezium.Same, "other.outbox")
	run(t, db.URL, func(c *Config) { c.Table = "outbox" }).want(t, "table", debezium.Same, "public.outbox")
	run(t, db.URL, nil, "table.include.list", "public.orders").want(t, "table", debezium.Refused, "has not the columns")
	run(t, db.URL, nil, "database.dbname", "elsewhere").want(t, "database", debezium.Differs, "elsewhere")
	run(t, db.URL, nil, "database.dbname", "${file:/secrets:db}").want(t, "database", debezium.Same, db.Name)
	run(t, db.URL, func(c *Config) { c.Database, c.DatabaseError = nil, context.DeadlineExceeded }).want(t, "database", debezium.Differs, "deadline exceeded")
	pgtest.Exec(t, conn, `drop publication dbz_publication; alter table outbox set unlogged`)
	run(t, db.URL, nil).want(t, "table", debezium.Refused, "unlogged")
}

// TestColumns: each column that is missing, or of a type whose bytes depend on Debezium's settings.
func TestColumns(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	pgtest.Exec(t, db.Conn(t), outbox)
	const r, bytes = "transforms.outbox.", "org.apache.kafka.connect.converters.ByteArrayConverter"
	for _, c := range []struct {
		pairs   []string
		name    string
		verdict debezium.Verdict
		says    string
	}{
		{[]string{r + "table.field.event.key", "none"}, "column of the key", debezium.Refused, "no column none"},
		{[]string{r + "table.field.event.key", "large"}, "column of the key", debezium.Same, "bigint"},
		{[]string{r + "table.field.event.key", "cost"}, "column of the key", debezium.Refused, "numeric"},
		{[]string{r + "table.field.event.key", "secret"}, "column of the key", debezium.Refused, "ByteArrayConverter"},
		{[]string{r + "table.field.event.id", "cost"}, "column of the id", debezium.Refused, "numeric"},
		{[]string{r + "table.field.event.payload", "secret"}, "column of the payload", debezium.Refused, "Java"},
		{[]string{r + "table.field.event.payload", "secret", "value.converter", bytes}, "column of the payload", debezium.Same, "bytea"},
		{[]string{"value.converter", bytes}, "column of the payload", debezium.Refused, "would stop"},
		{[]string{r + "table.field.event.payload", "tags"}, "column of the payload", debezium.Refused, "text[]"},
		{[]string{r + "route.by.field", "place"}, "column of the topic", debezium.Refused, "takes a text"},
		{[]string{r + "table.field.event.timestamp", "made"}, "column of the timestamp", debezium.Same, "timestamp without"},
		{[]string{r + "table.field.event.timestamp", "made_at"}, "column of the timestamp", debezium.Refused, "stops"},
		{[]string{r + "table.fields.additional.placement", "place:partition"}, "column of the additional partition place", debezium.Same, "integer"},
		{[]string{r + "table.fields.additional.placement", "large:partition"}, "column of the additional partition large", debezium.Refused, "takes an integer"},
		{[]string{r + "table.fields.additional.placement", "made_at:header:at"}, "column of the additional header at", debezium.Same, "time zone"},
		{[]string{r + "table.fields.additional.placement", "cost:header"}, "column of the additional header cost", debezium.Refused, "settings"},
		{[]string{r + "table.fields.additional.placement", "none:header"}, "column of the additional header none", debezium.Refused, "no column none"},
		{[]string{r + "table.fields.additional.placement", "none:header", r + "table.field.additional.missing", "ignore"}, "column of the additional header none", debezium.Same, "left out"},
		{[]string{r + "table.fields.additional.placement", "cost:envelope", "value.converter", "org.apache.kafka.connect.json.JsonConverter"}, "column of the additional envelope cost", debezium.Refused, "settings"},
	} {
		run(t, db.URL, nil, c.pairs...).want(t, c.name, c.verdict, c.says)
	}
	// The rules of a connector with everything, and the command.
	got := run(t, db.URL, func(c *Config) { c.KeysLocked, c.From = true, "it's.json" }, "value.converter", "org.apache.kafka.connect.json.JsonConverter", "key.converter", "org.apache.kafka.connect.json.JsonConverter",
		"key.converter.schemas.enable", "false", r+"table.expand.json.payload", "true", r+"table.json.payload.null.behavior", "optional_bytes", r+"route.tombstone.on.empty.payload", "true",
		r+"table.fields.additional.placement", "type:envelope:eventType,place:partition", r+"table.field.event.timestamp", "made", r+"route.topic.replacement", "it's.${routedByValue}")
	const rest = "    wire:\n      key: json\n      value: json_with_schemas\n" +
		"      expand: true\n      null_fields: optional_bytes\n      tombstones: true\n      envelope: [{name: \"eventType\", type: string}]\n      schema_name: \"shop.public.outbox.AGGREGATETYPE.Value\"\n"
	const note = " # write a rule for each topic; the table has no rows that say which there are\n"
	const rules = "topics:\n  - match: \"TOPIC\"" + note + rest + "  - match: \"shadow.TOPIC\"" + note + rest
	if got.Rules != rules || got.Next != `postrider debezium shadow public.outbox --connector 'it'\''s.json'` {
		t.Errorf("rules %s\nnext %s", got.Rules, got.Next)
	}
}

// TestRules: the rules that are printed are settings, and with them nothing differs for these topics.
func TestRules(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	conn := db.Conn(t)
	pgtest.Exec(t, conn, outbox)
	pgtest.Exec(t, conn, `insert into outbox (id, aggregatetype, aggregateid, type) values (gen_random_uuid(), 'Order', '1', 'x'), (gen_random_uuid(), 'Customer', '1', 'x')`)
	const r, json = "transforms.outbox.", "org.apache.kafka.connect.json.JsonConverter"
	for name, pairs := range map[string][]string{
		"texts":   nil,
		"json":    {"value.converter", json, "key.converter", json, "value.converter.schemas.enable", "false", r + "table.expand.json.payload", "true", r + "table.json.payload.empty.array.behavior", "optional_string"},
		"schemas": {"value.converter", json, r + "table.fields.additional.placement", "type:envelope:a'\"b,large:envelope", r + "route.tombstone.on.empty.payload", "true"},
		"topics":  {r + "route.topic.replacement", "${routedByValue}"},
		"behind":  {r + "route.topic.replacement", "${routedByValue}.events"}, // a glob that begins with a star
	} {
		first := run(t, db.URL, nil, pairs...)
		first.want(t, "wire", debezium.Differs, "at the end of this report")
		file := filepath.Join(t.TempDir(), "postrider.yaml")
		if err := os.WriteFile(file, []byte(first.Rules), 0o600); err != nil {
			t.Fatal(err)
		}
		settings, err := config.Load(config.From{File: file})
		if err != nil {
			t.Errorf("%s: %v in\n%s", name, err, first.Rules)
			continue
		}
		second := run(t, db.URL, func(c *Config) { c.Settings = settings }, pairs...)
		second.want(t, "wire", debezium.Same, "have the rules")
		second.want(t, "order", debezium.Same, "commit_order is set")
		for _, topic := range []string{"outbox.event.Order", "Order", "Order.events"} { // the shadow has the bytes of its topic
			real, beside := settings.TopicSettings(topic), settings.TopicSettings("shadow."+topic)
			if (real.Wire == nil) != (beside.Wire == nil) || real.Wire != nil && real.Wire.String() != beside.Wire.String() {
				t.Errorf("%s: %s has %v, and its shadow %v", name, topic, real.Wire, beside.Wire)
			}
		}
	}
}

// TestPublication: each kind of publication, and what a login may do.
func TestPublication(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	conn := db.Conn(t)
	pgtest.Exec(t, conn, outbox)
	pgtest.Exec(t, conn, `create table orders (id int primary key)`)
	for _, c := range []struct {
		sql     string
		verdict debezium.Verdict
		says    string
	}{
		{`for table outbox, orders`, debezium.Same, "has 2 tables"},
		{`for all tables`, debezium.Same, "puts a view in its place"},
		{`for tables in schema public`, debezium.Same, "puts a view in its place"},
		{`for table orders`, debezium.Differs, "does not have public.outbox"},
		{`for table outbox with (publish = 'update, delete')`, debezium.Refused, "no inserts"},
	} {
		pgtest.Exec(t, conn, `drop publication dbz_publication`)
		if _, err := conn.Exec(t.Context(), `create publication dbz_publication `+c.sql); err != nil {
			if !strings.Contains(c.sql, "schema") { // PostgreSQL 14 does not know it
				t.Fatal(err)
			}
			pgtest.Exec(t, conn, `create publication dbz_publication`)
			continue
		}
		run(t, db.URL, nil).want(t, "publication", c.verdict, c.says)
	}
	if conn.PgConn().ParameterStatus("server_version") >= "15" {
		for sql, says := range map[string]string{`outbox where (aggregatetype <> 'x')`: "row filter", `outbox (id, aggregatetype, aggregateid, payload)`: "column list"} {
			pgtest.Exec(t, conn, `drop publication dbz_publication; create publication dbz_publication for table `+sql)
			verdict := debezium.Differs
			if says == "row filter" {
				verdict = debezium.Refused
			}
			run(t, db.URL, nil).want(t, says, verdict, "public.outbox alone")
		}
	}
	pgtest.Exec(t, conn, `drop publication dbz_publication`)
	run(t, db.URL, nil).want(t, "publication", debezium.Refused, "no publication dbz_publication")
	run(t, db.URL, nil, "plugin.name", "decoderbufs").want(t, "publication", debezium.NotLookedAt, "reads none")

	// A login that may read, and one that may nothing.
	pgtest.Exec(t, conn, `create publication dbz_publication for table outbox`)
	reader := db.Name + "_reader" // roles are the server's, and not the database's
	pgtest.Exec(t, conn, `create role `+reader)
	t.Cleanup(func() {
		if _, err := conn.Exec(context.Background(), `drop owned by `+reader+`; drop role `+reader); err != nil {
			t.Error(err)
		}
	})
	as := func(role string) string {
		u, err := url.Parse(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("role", role)
		u.RawQuery = q.Encode()
		return u.String()
	}
	r := run(t, as(reader), nil)
	r.want(t, "rights on the table", debezium.Differs, "may not read it")
	r.want(t, "rights on the publication", debezium.Differs, "does not own dbz_publication")
	pgtest.Exec(t, conn, `grant select on outbox to `+reader)
	run(t, as(reader), nil).want(t, "rights on the table", debezium.Differs, "does not own it")
}

// TestSlot: a slot that is there, on a server that says how far it is behind, and on one that refuses the functions of the
// write-ahead log, as Aurora does (55000).
func TestSlot(t *testing.T) {
	t.Parallel()
	server, err := pgserver.Start(t.Context(), pgserver.Options{Settings: map[string]string{"wal_level": "logical", "fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(outbox)
	exec(`select pg_create_logical_replication_slot('debezium', 'pgoutput')`)
	run(t, server.URL(), nil).want(t, "slot", debezium.Differs, "bytes of the write-ahead log behind")
	exec(`create schema refusing; create function refusing.pg_current_wal_lsn() returns pg_lsn language plpgsql as
		$$ begin raise exception 'not supported on this server' using errcode = 'object_not_in_prerequisite_state'; end $$`)
	refusing, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	q := refusing.Query()
	q.Set("search_path", "refusing,pg_catalog,public")
	refusing.RawQuery = q.Encode()
	r := run(t, refusing.String(), nil)
	r.want(t, "slot", debezium.Differs, "the server does not say how far it is behind")
	r.want(t, "fence", debezium.Same, "position in the write-ahead log")
	exec(`create function refusing.pg_current_wal_insert_lsn() returns pg_lsn language plpgsql as
		$$ begin raise exception 'not supported on this server' using errcode = 'object_not_in_prerequisite_state'; end $$`)
	run(t, refusing.String(), nil).want(t, "fence", debezium.Refused, "(SQLSTATE 55000: not supported on this server)")
	exec(`create or replace function refusing.pg_current_wal_insert_lsn() returns pg_lsn language plpgsql as
		$$ begin raise exception 'too slow' using errcode = 'query_canceled'; end $$`)
	run(t, refusing.String(), nil).want(t, "fence", debezium.Differs, "this cannot be found out: ask for the position in the write-ahead log")
	r.want(t, "table", debezium.Same, "public.outbox")
	exec(`create database elsewhere`)
	exec(`select pg_drop_replication_slot('debezium')`)
	other, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	other.Path = "/elsewhere"
	elsewhere, err := pgxpool.New(t.Context(), other.String())
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	if _, err := elsewhere.Exec(t.Context(), `select pg_create_logical_replication_slot('debezium', 'pgoutput')`); err != nil {
		t.Fatal(err)
	}
	run(t, server.URL(), nil).want(t, "slot", debezium.Differs, "of the database elsewhere")
}

// TestRecords: records that are the same, that differ, that have no row and that are others', on kfake and on a real broker. The
// connector's records are written here as it writes them; TestDebeziumCheck has a real one.
func TestRecords(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		db := pgtest.NewEmpty(t)
		conn := db.Conn(t)
		pgtest.Exec(t, conn, outbox)
		topic := b.Topic(t, 2, nil)
		const id, other, gone = "0198c0de-0000-7000-8000-000000000001", "0198c0de-0000-7000-8000-000000000002", "0198c0de-0000-7000-8000-000000000003"
		pgtest.Exec(t, conn, `insert into outbox (id, aggregatetype, aggregateid, type, payload) values ($1, $3, 'o-1', 'x', '{"a": 2.50}'), ($2, $3, 'o-2', 'x', null)`, id, other, topic)
		record := func(id, key string, value []byte, headers ...kgo.RecordHeader) *kgo.Record {
			return &kgo.Record{Topic: topic, Key: []byte(key), Value: value, Headers: append(append([]kgo.RecordHeader{{Key: debezium.ContextHeader + "taskId", Value: []byte("0")}}, headers...),
				kgo.RecordHeader{Key: "id", Value: []byte(id)}, kgo.RecordHeader{Key: "traceparent", Value: []byte("00-1")})}
		}
		records := []*kgo.Record{record(id, "o-1", []byte(`{"a": 2.50}`)), record(other, "o-2", nil), record(gone, "o-3", nil), {Topic: topic, Value: []byte("other")}, record("no-uuid", "o-4", nil)}
		produce := func(records ...*kgo.Record) {
			t.Helper()
			if err := b.Client(t).ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		produce(records...)
		look := func(topics ...string) Records {
			t.Helper()
			return run(t, db.URL, func(c *Config) {
				c.Kafka = func(opts ...kgo.Opt) (*kgo.Client, error) {
					return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addrs...)}, opts...)...)
				}
				c.Topics = topics
			}, "transforms.outbox.route.topic.replacement", "${routedByValue}").Records
		}
		r := look(topic + "-missing")
		if r.Verdict != debezium.Same || r.Read != 5 || r.Same != 2 || r.RowGone != 1 || r.WithoutID != 2 || !strings.Contains(r.Says, topic+"-missing") {
			t.Errorf("%+v", r)
		}
		produce(record(id, "o-9", []byte(`{"a": 2.5}`), kgo.RecordHeader{Key: "extra"}), record(other, "o-2", []byte{}))
		r = look()
		if r.Verdict != debezium.Differs || r.Different != 2 || r.Same != 2 {
			t.Fatalf("%+v", r)
		}
		parts := map[string]Part{}
		for _, d := range r.Differences {
			for _, p := range d.Parts {
				parts[d.ID[len(d.ID)-1:]+" "+p.Part] = p
			}
		}
		if p := parts["1 value"]; len(parts) != 4 || p.At == nil || *p.At != 9 || p.Theirs != `{"a": 2.5}` || p.Ours != `{"a": 2.50}` {
			t.Errorf("%+v", parts)
		}
		if p := parts["1 key"]; p.Theirs != "o-9" || p.Ours != "o-1" {
			t.Errorf("%+v", p)
		}
		if p := parts["1 headers"]; p.Theirs != `"extra" "id" ` || p.Ours != `"id" ` {
			t.Errorf("%+v", p)
		}
		if p := parts["2 value"]; p.Theirs != "" || p.Ours != "null" { // empty is not null
			t.Errorf("%+v", p)
		}
	})
}

// TestWrongProperties are no report.
func TestWrongProperties(t *testing.T) {
	t.Parallel()
	if _, err := Check(t.Context(), Config{Properties: debezium.Properties{}, Settings: config.Config{}}); err == nil || !strings.Contains(err.Error(), "connector.class is missing") {
		t.Errorf("%v", err)
	}
}
