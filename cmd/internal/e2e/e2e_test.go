package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) {
	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(buildtest.In(m)) }))
}

// written is what a user might type. Each line of expected is a record as kcat shows it: key length
// and key, value length and value, headers but the event id.
const written = `
select postrider.outbox_publish(:'topic', 'k1', '{"n": 1}', '[["h","one"],["h","two"],["empty",""],["nothing",null]]');
select postrider.outbox_publish(:'topic', 'k1', '{"n": 2}', '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}');
select postrider.outbox_publish(:'topic', 'k1', null);
select postrider.outbox_publish_bytes(:'topic', 'k1', ''::bytea, '[["bytes", {"base64": "//4="}]]');
begin;
select postrider.outbox_publish(:'topic', 'k1', '{"n": "rolled back"}');
rollback;
insert into postrider.outbox_event (topic, key, payload) values (:'topic', '\xc3bc'::bytea, '\xdeadbeef'::bytea);
insert into postrider.outbox_event (topic, key, payload) values (:'topic', null, 'no key'), (:'topic', '', 'empty key');
select postrider.outbox_publish(:'topic', 'k1', '{"n": 3}', idempotency_key => 'once');
select postrider.outbox_publish(:'topic', 'k1', '{"n": "again"}', idempotency_key => 'once');
select postrider.outbox_publish_bytes(:'topic', 'k1', decode(repeat('00', 1100000), 'hex'));
select postrider.outbox_publish(:'topic', 'k1', '{"n": 4}');
`

var expected = []string{
	`2 k1 8 {"n": 1} h=one,h=two,empty=,nothing=NULL`,
	`2 k1 8 {"n": 2} traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`,
	`2 k1 -1  `,
	"2 k1 0  bytes=\xff\xfe",
	"2 \xc3\xbc 4 \xde\xad\xbe\xef ",
	`-1  6 no key `,
	`0  9 empty key `,
	`2 k1 8 {"n": 3} `,
	`2 k1 8 {"n": 4} `,
}

func TestRowsToRecords(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		db := pgtest.New(t)
		// One partition, so that kcat shows everything in the order written.
		topic, dlq := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		program := buildtest.Program(t, "cmd/postrider")

		psql := exec.CommandContext(t.Context(), psqlPath(t), db.URL, "-qAt", "-v", "ON_ERROR_STOP=1", "-v", "topic="+topic)
		psql.Stdin = strings.NewReader(written)
		if out, err := psql.CombinedOutput(); err != nil {
			t.Fatalf("psql: %v\n%s", err, out)
		}
		serve := exec.Command(program, "serve", "--http", "127.0.0.1:0")
		var log bytes.Buffer
		serve.Stderr = &log
		serve.Env = append(os.Environ(), "DATABASE_URL="+db.URL, "KAFKA_BROKERS="+strings.Join(b.Addrs, ","), "DLQ_TOPIC="+dlq, "DLQ_GROUP="+dlq)
		if err := serve.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = serve.Process.Kill() })

		// The poison row becomes a pending investigation with its error.
		entry := investigation(t, program, db.URL)
		if entry["resolution_status"] != "pending" || entry["error_code"] != "MESSAGE_TOO_LARGE" || entry["dlq_reason"] != "undeliverable" || entry["topic"] != topic {
			t.Errorf("the investigation of the oversized row is %v", entry)
		}
		if shown := command(t, program, "dlq", "show", fmt.Sprint(entry["dlq_entry_uuid"]), "--database-url", db.URL); !strings.Contains(shown, "MESSAGE_TOO_LARGE") {
			t.Errorf("dlq show does not name the error:\n%s", shown)
		}

		// Order is promised per key, so the key's records are compared as a list and the others each alone.
		got := records(t, b, topic, len(expected))
		for _, begins := range []string{"2 k1 ", "2 \xc3\xbc ", "-1  ", "0  "} {
			if got, want := of(got, begins), of(expected, begins); !slices.Equal(got, want) {
				t.Errorf("of the key %q there are\n%q, want\n%q", begins, got, want)
			}
		}
		if len(got) != len(expected) {
			t.Errorf("%d records, want %d: %q", len(got), len(expected), got)
		}
		if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := serve.Wait(); err != nil {
			t.Errorf("serve did not stop cleanly: %v\n%s", err, &log)
		}
	})
}

// of picks the records whose line begins like that.
func of(lines []string, begins string) []string {
	var out []string
	for _, line := range lines {
		if strings.HasPrefix(line, begins) {
			out = append(out, line)
		}
	}
	return out
}

// psqlPath finds psql on PATH or beside the server's programs. A server that was fetched has none.
func psqlPath(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("psql"); err == nil {
		return path
	}
	found, err := pgserver.Find()
	if err == nil {
		found.Dir, err = exec.LookPath(filepath.Join(found.Dir, "psql"))
	}
	if err != nil {
		logtest.NotTested(t, "there is no psql; install the PostgreSQL client programs")
	}
	return found.Dir
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// investigation waits until `postrider dlq list` has one entry.
func investigation(t *testing.T, program, url string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		var list struct{ Items []map[string]any }
		out := command(t, program, "dlq", "list", "-o", "json", "--database-url", url)
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatalf("dlq list -o json: %v\n%s", err, out)
		}
		if len(list.Items) > 0 {
			return list.Items[0]
		}
		select {
		case <-ctx.Done():
			t.Fatal("no investigation was opened")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// kcatPath finds kcat. Where there is none our own client takes its place, and the test is noted.
func kcatPath(t *testing.T) (path string, found bool) {
	t.Helper()
	path, err := exec.LookPath("kcat")
	if err != nil {
		logtest.LeftOut(t, "there is no kcat, so no client but our own was tried; install it")
	}
	return path, err == nil
}

// records reads the topic with kcat. It waits until enough are there, and shows all.
func records(t *testing.T, b *kafkatest.Broker, topic string, enough int) []string {
	t.Helper()
	kcat, found := kcatPath(t)
	if !found {
		return ownRecords(t, b, topic, enough)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	const end = "\x01"
	for {
		cmd := exec.CommandContext(ctx, kcat, "-q", "-b", strings.Join(b.Addrs, ","), "-t", topic, "-C", "-o", "beginning", "-e", "-f", "%K %k %S %s %h"+end)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("kcat: %v", err)
		}
		lines := strings.Split(strings.TrimSuffix(string(out), end), end)
		if len(out) > 0 && len(lines) >= enough {
			for i, line := range lines {
				at := strings.LastIndex(line, "postrider-event-id=")
				if at < 0 || len(line)-at != len("postrider-event-id=")+36 {
					t.Fatalf("record %d has no event id: %q", i, line)
				}
				lines[i] = strings.TrimSuffix(line[:at], ",")
			}
			return lines
		}
		if ctx.Err() != nil {
			t.Fatalf("kcat sees %d records, want %d", len(lines), enough)
		}
	}
}

func ownRecords(t *testing.T, b *kafkatest.Broker, topic string, enough int) []string {
	t.Helper()
	length := func(v []byte) int {
		if v == nil {
			return -1
		}
		return len(v)
	}
	var lines []string
	for _, r := range b.ReadAll(t, topic, enough) {
		var hs []string
		for _, h := range r.Headers {
			if h.Key == "postrider-event-id" {
				continue
			}
			value := string(h.Value)
			if h.Value == nil {
				value = "NULL"
			}
			hs = append(hs, h.Key+"="+value)
		}
		lines = append(lines, fmt.Sprintf("%d %s %d %s %s", length(r.Key), r.Key, length(r.Value), r.Value, strings.Join(hs, ",")))
	}
	return lines
}
