package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestAdopt: the flags become the definition, nothing is changed without --run, and each command says what it did.
func TestAdopt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	pgtest.Exec(t, conn, `create table public.outbox (id uuid primary key, aggregatetype text, aggregateid text, type text, payload jsonb, trace text)`)
	definition := func() string {
		return ask(t, conn, `select coalesce(string_agg(concat_ws(' ', source_table, mode, prefix, slot, publication, definition), '; '), '') from postrider.outbox_forward`)
	}
	contains(t, succeed(t, db, "adopt", "public.outbox", "--preset", "debezium", "--dry-run"), "create or replace trigger postrider_forward", "\nbegin;")
	if got := succeed(t, db, "adopt", "public.outbox", "--preset", "debezium", "--tool"); strings.Contains(got, "\nbegin;") {
		t.Errorf("the script for a tool has a begin:\n%s", got)
	}
	if definition() != "" {
		t.Fatalf("without --run there is %s", definition())
	}
	contains(t, succeed(t, db, "adopt", "public.outbox", "--preset", "debezium", "--key", "type", "--additional", "type:header:eventType", "--header", "trace:t", "--run"), "become events")
	if got, want := definition(), `public.outbox forward  {"id": "id", "key": "type", "route": {"field": "aggregatetype", "regex": "(?<routedByValue>.*)", "replacement": "outbox.event.${routedByValue}"}, `+
		`"headers": [{"name": "t", "column": "trace"}, {"name": "eventType", "column": "type"}], "payload": "payload", "id_header": "id"}`; got != want {
		t.Errorf("the definition is\n%s, and should be\n%s", got, want)
	}
	if r := postrider(t, []string{"DATABASE_URL=" + db.URL}, "debezium", "shadow", "outbox", "--follow", "--kafka-brokers", "127.0.0.1:1"); r.code != ExitFailure || !strings.Contains(r.stderr, "public.outbox has no shadow any more (forward since") {
		t.Errorf("a comparison without a shadow: %+v", r)
	}
	contains(t, succeed(t, db, "adopt", "public.outbox", "--as-view"), "create view public.outbox")
	contains(t, succeed(t, db, "adopt", "public.outbox", "--as-view", "--run"), "is a view now")
	contains(t, succeed(t, db, "adopt", "public.outbox", "--as-table"), "drop view public.outbox")
	contains(t, succeed(t, db, "adopt", "public.outbox", "--as-table", "--run"), "is the table again")
	contains(t, succeed(t, db, "adopt", "public.outbox", "--remove"), "drop trigger")
	contains(t, succeed(t, db, "adopt", "public.outbox", "--remove", "--run"), "not forwarded any more")
	if definition() != "" {
		t.Errorf("after --remove there is %s", definition())
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"adopt public.outbox --preset other", ExitUsage, "debezium, watermill, masstransit, modulith"},
		{"adopt public.outbox --preset debezium --run --tool", ExitUsage, "leave one out"},
		{"adopt public.outbox --as-view --remove", ExitUsage, "each by itself"},
		{"adopt public.outbox --preset debezium --header x", ExitUsage, "COLUMN:NAME"},
		{"adopt public.outbox --preset debezium --additional x:where", ExitUsage, "placement"},
		{"adopt public.none --preset debezium", ExitFailure, "there is no table public.none"},
		{"debezium shadow public.outbox --prefix=", ExitUsage, "--prefix is empty"},
		{"debezium shadow public.outbox --follow", ExitUsage, "kafka.brokers"},
		{"debezium shadow public.outbox --follow --key type", ExitUsage, "go with --run"},
		{"debezium shadow public.outbox --wait-seconds 5", ExitUsage, "go with --follow"},
		{"debezium shadow public.outbox --follow --wait-seconds 0", ExitUsage, "--wait-seconds 0; they must be 1 or more"},
		{"debezium shadow public.outbox --follow --kafka-brokers 127.0.0.1:1", ExitFailure, "postrider debezium shadow public.outbox --run makes one"},
		{"debezium shadow public.none --follow --kafka-brokers 127.0.0.1:1", ExitFailure, "there is no table public.none"},
		{"debezium cutover public.outbox --run --plan", ExitUsage, "leave one out"},
		{"debezium rollback public.outbox --block-ms 0", ExitUsage, "1 or more"},
		{"debezium cutover public.outbox", ExitFailure, "postrider debezium shadow"},
	} {
		r := postrider(t, []string{"DATABASE_URL=" + db.URL}, strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", c.args, r.code, r.stderr, c.code, c.want)
		}
	}
}

// TestShadowOfAConnector: the connector's own configuration says what the columns are, and who sends them.
func TestShadowOfAConnector(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	pgtest.Exec(t, conn, `create table public.outbox (uid uuid primary key, aggregatetype text, aggregateid text, type text, payload jsonb, tracingspancontext text, part integer)`)
	file := filepath.Join(t.TempDir(), "connector.properties")
	write := func(mode string) {
		if err := os.WriteFile(file, []byte(`name=o
connector.class=io.debezium.connector.postgresql.PostgresConnector
plugin.name=pgoutput
slot.name=theirs
publication.name=pub
publication.autocreate.mode=`+mode+`
database.password=s3ntinel
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
transforms.outbox.table.field.event.id=uid
transforms.outbox.table.fields.additional.placement=type:header:eventType,part:partition,type:envelope
transforms.outbox.route.topic.replacement=ev.${routedByValue}
`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) result {
		t.Helper()
		r := postrider(t, []string{"DATABASE_URL=" + db.URL}, args...)
		if strings.Contains(r.stdout+r.stderr, "s3ntinel") {
			t.Errorf("%v shows the password:\n%s%s", args, r.stdout, r.stderr)
		}
		return r
	}
	write("filtered")
	if r := run("debezium", "shadow", "public.outbox", "--connector", file, "--run"); r.code != ExitFailure || !strings.Contains(r.stderr, "publication.autocreate.mode=filtered") {
		t.Errorf("filtered: %+v", r)
	}
	write("disabled")
	if r := run("debezium", "shadow", "public.outbox", "--connector", file, "--key", "uid"); r.code != ExitUsage {
		t.Errorf("with flags: %+v", r)
	}
	r := run("debezium", "shadow", "public.outbox", "--connector", file, "--run")
	if r.code != ExitOK || !strings.Contains(r.stderr, "heartbeat.interval.ms") {
		t.Fatalf("%+v", r)
	}
	if got, want := ask(t, conn, `select concat_ws(' ', mode, prefix, slot, publication, definition) from postrider.outbox_forward`),
		`shadow shadow. theirs pub {"id": "uid", "key": "aggregateid", "route": {"field": "aggregatetype", "regex": "(?<routedByValue>.*)", "replacement": "ev.${routedByValue}"}, `+
			`"headers": [{"name": "eventType", "column": "type"}], "payload": "payload", "tracing": "tracingspancontext", "envelope": [{"name": "type", "column": "type"}], "id_header": "id", "partition": "part"}`; got != want {
		t.Errorf("the shadow is\n%s, and should be\n%s", got, want)
	}
}
