package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/cli"
	"github.com/postrider/postrider/cmd/internal/debezium"
	connectorcheck "github.com/postrider/postrider/cmd/internal/debezium/check"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

const outboxTable = `create table outbox (id uuid primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null,
	type varchar(255) not null, payload jsonb, tenant text, made timestamp(6) not null default '2026-11-24 10:00:00.123456', urgent boolean, place integer);
	create publication orders for table outbox`

// payloads are values of the column payload that Debezium can expand.
var payloads = []string{`{"a": 2.50, "b": null, "c": [], "d": "é\"/<\u0001", "i": 3, "l": 5000000000, "o": {"x": []}}`, `{"e": 1e3, "f": 100.0, "n": -0, "g": 12345678.9012345678901}`,
	`{"objs": [{"a": 1}, {"a": 2}], "s": ["1", "2"], "t": true}`, `{}`}

// TestDebeziumCheck: a real connector in a real worker of Connect. With its own settings the check finds all records the same, byte
// by byte; with a wrong one it says which bytes differ.
func TestDebeziumCheck(t *testing.T) {
	t.Parallel()
	b := kafkatest.OnlyReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cp := classpath(ctx, t, "../../bench/debezium")
	server, err := pgserver.Start(ctx, pgserver.Options{Database: "shop", Settings: map[string]string{"wal_level": "logical", "fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(ctx)) })
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(outboxTable)

	prefix := b.Topic(t, 1, nil)
	connectors := map[string]map[string]string{
		"texts": {"key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "org.apache.kafka.connect.storage.StringConverter",
			"transforms.outbox.table.fields.additional.placement": "type:header:eventType,tenant:header,made:header,urgent:header,place:partition",
			"transforms.outbox.table.field.event.timestamp":       "made"},
		"schemas": {"key.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
			"key.converter.schemas.enable":                        "false",
			"transforms.outbox.table.expand.json.payload":         "true",
			"transforms.outbox.table.fields.additional.placement": "type:envelope:eventType,tenant:envelope"},
	}
	address, worker := startConnect(ctx, t, b, cp, server.URL(), prefix, connectors)
	const rows = 40
	for i := range rows {
		exec(`insert into outbox (id, aggregatetype, aggregateid, type, payload, tenant, urgent, place) values (gen_random_uuid(), 'Order', $1, 'OrderPlaced', $2, $3, $4, $5)`,
			fmt.Sprintf("o-%d", i%7), payloads[i%len(payloads)], []any{"acmé", nil}[i%2], []any{true, false, nil}[i%3], i%3)
	}
	for name := range connectors {
		if read := b.ReadAll(t, prefix+"."+name+".Order", rows); len(read) != rows {
			t.Fatalf("%s: %d records, want %d; the worker wrote\n%s", name, len(read), rows, worker.Output())
		}
	}

	settings := []string{"DATABASE_URL=" + server.URL(), "KAFKA_BROKERS=" + strings.Join(b.Addrs, ",")}
	run := func(connector string, more ...string) (connectorcheck.Report, int) {
		t.Helper()
		var out, errors bytes.Buffer
		code := cli.Run(ctx, append([]string{"debezium", "check", "--connector", connector, "-o", "json"}, more...), settings, &out, &errors)
		var report connectorcheck.Report
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			t.Fatalf("exit code %d, %v: %s%s", code, err, out.String(), errors.String())
		}
		return report, code
	}
	// The settings that the check prints are the settings with which it finds nothing that differs.
	for name := range connectors {
		report, code := run(address + "/connectors/" + name)
		if code != cli.ExitFailure || report.Records.Verdict != debezium.Same {
			t.Errorf("%s, without rules: exit code %d, %+v", name, code, report.Records)
		}
		rules := filepath.Join(t.TempDir(), "postrider.yaml")
		if err := os.WriteFile(rules, []byte(report.Rules), 0o600); err != nil {
			t.Fatal(err)
		}
		report, code = run(address+"/connectors/"+name, "--config", rules)
		if code != cli.ExitOK || report.Verdict != debezium.Same || report.Records.Same != rows || report.Records.Different != 0 {
			text, _ := json.MarshalIndent(notSame(report), "", " ")
			t.Errorf("%s: exit code %d, %s", name, code, text)
		}
		if !strings.Contains(report.Rules, "wire:") || !strings.Contains(report.Next, "postrider debezium shadow public.outbox") {
			t.Errorf("%s: rules %s, next %s", name, report.Rules, report.Next)
		}
	}
	// The same records, and a configuration with one knob of another connector.
	wrong := func(name string, pairs ...string) connectorcheck.Report {
		t.Helper()
		p, err := debezium.Load(ctx, address+"/connectors/"+name, "", "")
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(pairs); i += 2 {
			p[pairs[i]] = pairs[i+1]
		}
		text, _ := json.Marshal(p)
		file := filepath.Join(t.TempDir(), "connector.json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		report, code := run(file)
		if code != cli.ExitFailure || report.Records.Verdict != debezium.Differs || report.Records.Different == 0 || len(report.Records.Differences) == 0 {
			t.Fatalf("%s with %v: exit code %d, %+v", name, pairs, code, report.Records)
		}
		return report
	}
	wantPart := func(r connectorcheck.Report, part, theirs, ours string, at int) {
		t.Helper()
		for _, d := range r.Records.Differences {
			for _, p := range d.Parts {
				if p.Part == part && strings.Contains(p.Theirs, theirs) && strings.Contains(p.Ours, ours) && (at < 0 || p.At != nil && *p.At == at) {
					return
				}
			}
		}
		text, _ := json.MarshalIndent(r.Records, "", " ")
		t.Errorf("no difference of %s at %d between %q and %q: %s", part, at, theirs, ours, text)
	}
	wantPart(wrong("texts", "value.converter", "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable", "false"), "value", `{"a": 2.50`, `"{\"a\": 2.50`, 0)
	wantPart(wrong("texts", "transforms.outbox.table.fields.additional.placement", "type:header:type,tenant:header,made:header,urgent:header"), "headers", `"eventType"`, `"type"`, -1)
	wantPart(wrong("schemas", "transforms.outbox.table.json.payload.empty.array.behavior", "optional_string"), "value", `{"type":"string","optional":true,"field":"d"}`, `{"type":"array"`, -1)
	wantPart(wrong("schemas", "key.converter", "org.apache.kafka.connect.storage.StringConverter"), "key", `"o-0"`, "o-0", 0)

	// Rows that are gone cannot be compared, and are said to be.
	exec("delete from outbox where aggregateid = 'o-0'")
	gone, code := run(address + "/connectors/texts")
	if code != cli.ExitFailure || gone.Records.Verdict != debezium.Same || gone.Records.RowGone != 6 || gone.Records.Same != rows-6 || !strings.Contains(gone.Records.Says, "6 records have no row any more") {
		t.Errorf("exit code %d, %+v", code, gone.Records)
	}
}

// notSame is the part of a report that differs.
func notSame(r connectorcheck.Report) any {
	var knobs []debezium.Knob
	for _, k := range append(append([]debezium.Knob{}, r.Settings...), r.Database...) {
		if k.Verdict != debezium.Same {
			knobs = append(knobs, k)
		}
	}
	return []any{knobs, r.Records}
}

// startConnect runs a worker with connectors that send to PREFIX.NAME.AGGREGATETYPE, and waits until their slots are read.
func startConnect(ctx context.Context, t *testing.T, b *kafkatest.Broker, cp, database, prefix string, connectors map[string]map[string]string) (address string, worker *kafkajars.Program) {
	t.Helper()
	cfg, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	port, err := kafkajars.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, settings map[string]string) string {
		var text strings.Builder
		for key, value := range settings {
			fmt.Fprintf(&text, "%s=%s\n", key, strings.ReplaceAll(value, `\`, `\\`))
		}
		file := filepath.Join(dir, name+".properties")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	address = "http://127.0.0.1:" + strconv.Itoa(port)
	args := []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "org.apache.kafka.connect.cli.ConnectStandalone", write("worker", map[string]string{
		"bootstrap.servers": strings.Join(b.Addrs, ","), "listeners": address, "plugin.discovery": "only_scan",
		"key.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
		"offset.storage.file.filename": filepath.Join(dir, "offsets"), "offset.flush.interval.ms": "1000"})}
	for name, more := range connectors {
		settings := map[string]string{
			"name": name, "connector.class": debezium.Class, "tasks.max": "1", "database.hostname": cfg.Host, "database.port": strconv.Itoa(int(cfg.Port)),
			"database.user": cfg.User, "database.password": cfg.Password, "database.dbname": cfg.Database, "topic.prefix": prefix + "-" + name,
			"plugin.name": "pgoutput", "slot.name": "slot_" + name, "publication.name": "orders", "publication.autocreate.mode": "disabled",
			"table.include.list": "public.outbox", "snapshot.mode": "no_data", "heartbeat.interval.ms": "1000", "extended.headers.enabled": "false",
			"transforms": "outbox", "transforms.outbox.type": debezium.RouterClass,
			"transforms.outbox.route.topic.replacement": prefix + "." + name + ".${routedByValue}",
		}
		for key, value := range more {
			settings[key] = value
		}
		b.CreateTopic(t, prefix+"."+name+".Order", 3, nil)
		b.CreateTopic(t, "__debezium-heartbeat."+prefix+"-"+name, 1, nil)
		args = append(args, write(name, settings))
	}
	worker = start(ctx, t, cp, args...)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		var active int
		if err := conn.QueryRow(ctx, "select count(*) from pg_replication_slots where active").Scan(&active); err != nil {
			t.Fatal(err)
		}
		if resp, err := http.Get(address + "/connectors"); err == nil {
			_ = resp.Body.Close()
			if active == len(connectors) {
				return address, worker
			}
		}
		select {
		case <-worker.Done():
			t.Fatal("Connect ended")
		default:
		}
		if loop.Sleep(ctx, 200*time.Millisecond) != nil {
			t.Fatalf("%d of %d slots are read", active, len(connectors))
		}
	}
}
