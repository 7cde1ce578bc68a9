package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

func TestOutboxStatus(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	contains(t, succeed(t, db, "outbox", "status"), "pending", "No event is overdue.", "Nothing is held.")
	if _, err := db.Conn(t).Exec(t.Context(), `
		insert into postrider.outbox_event (topic, key, payload, available_at) values ('t', 'k', 'v', now() - interval '5 minutes'), ('t', 'k', 'v', now() + interval '1 day');
		update postrider.outbox_event set created_at = available_at where available_at < now();
		insert into postrider.outbox_hold (scope, topic, key, cause, error_code, error, next_probe_at)
		values ('key', 't', convert_to(E'k\x1b[2J', 'UTF8'), 'retry', 'BROKEN', E'first\nsecond\x1b]0;x\x07', now())`); err != nil {
		t.Fatal(err)
	}
	table := succeed(t, db, "outbox", "status")
	contains(t, table, "1 of them are due", "is 5m", "1 hold:", "BROKEN", `first\nsecond\x1b]0;x\a`, `k\x1b[2J`)
	if strings.ContainsAny(table, "\x1b\x07") {
		t.Errorf("control characters in %q", table)
	}
	encoded := succeed(t, db, "outbox", "status", "-o", "json")
	s := decode[api.OutboxStatus](t, encoded)
	contains(t, encoded, `"error_category": "transient"`)
	if s.Pending != 2 || s.Due != 1 || s.OldestDueSeconds < 300 || len(s.Holds) != 1 {
		t.Errorf("status %+v", s)
	}
	for _, name := range []string{"pending", "due", "failed", "dead_lettered", "oldest_due_seconds", "parked", "scheduled", "exhausted", "processing", "holds"} {
		contains(t, encoded, `"`+name+`":`)
	}
}

// record stores a dead letter of ours as the collector would, and returns its investigation's id.
func record(t *testing.T, store *app.Services, offset int64, key, payload []byte, headers ...message.Header) string {
	t.Helper()
	event := uuid.NewString()
	own := map[string]string{
		message.HeaderLetterVersion: "1", message.HeaderEventID: event, message.HeaderEpisode: "1", message.HeaderOutboxID: "42",
		message.HeaderOriginTopic: "orders", message.HeaderAttempts: "3", message.HeaderErrorClass: "permanent", message.HeaderErrorCode: "INVALID_RECORD",
		message.HeaderErrorMessage: "no \x1b[31mgood\x1b[0m\u202e", message.HeaderPayload: message.PayloadInline,
		message.HeaderFirstFailedAt: "2026-01-02T03:04:05Z", message.HeaderLastFailedAt: "2026-01-02T03:04:06Z", message.HeaderCreatedAt: "2026-01-02T03:04:04Z",
	}
	for name, value := range own {
		headers = append(headers, message.Header{Name: name, Value: []byte(value)})
	}
	letter := dlq.Decode(dlq.Record{Topic: "postrider.dlq", Offset: offset, Timestamp: time.Now(), Key: key, Value: payload, Headers: headers})
	if _, err := store.Store.RecordLetters(t.Context(), []dlq.Letter{letter}); err != nil {
		t.Fatal(err)
	}
	return investigationOf(t, store, letter)
}

// kept writes the events of all dead letters into the outbox, which has given them up. Without that no letter is redriven.
func kept(t *testing.T, db *pgtest.DB) {
	t.Helper()
	conn := db.Conn(t)
	ids := pgtest.Column[int64](t, conn, `with e as (
			insert into postrider.outbox_event (event_id, topic, key, payload, headers)
			select l.event_id, l.origin_topic, l.key, l.payload, case when l.headers @> '[["postrider-invalid-headers"]]' then '[]' else l.headers end
			from postrider.dlq_letter l where l.dialect = 'postrider' order by l.dlq_offset returning id, event_id)
		update postrider.dlq_letter l set outbox_id = e.id from e where l.event_id = e.event_id returning l.outbox_id`)
	if len(ids) > 0 { // or settling takes a number of a receipt
		outboxtest.Settle(t, conn, outboxtest.DeadLettered, ids...)
	}
}

// investigationOf returns the id of the only investigation of a letter's subject.
func investigationOf(t *testing.T, services *app.Services, l dlq.Letter) string {
	t.Helper()
	page, err := services.Investigations.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Subject: l.Subject}})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("investigations of %v: %v, %v", l.Subject, page.Entries, err)
	}
	return page.Entries[0].UUID.String()
}

func TestDLQ(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	contains(t, succeed(t, db, "dlq", "list"), "There are no such investigations.")
	store, err := app.NewServices(db.Pool(t), config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	hostile := `{"name": "a\u001b[2Jb", "raw": "` + "\u009b2J\u202e" + `", "n": 12345678901234567890}`
	asJSON := record(t, store, 1, []byte("order-1"), []byte(hostile), message.Header{Name: "trace\x1b[1m", Value: []byte("v\x1b[1m")})
	asText := record(t, store, 2, nil, []byte("line one\nline\ttwo\x1b]0;title\x07"))
	binary := append([]byte{0xff, 0x00, 0x1b}, bytes.Repeat([]byte{7}, 1000)...)
	asBinary := record(t, store, 3, []byte{0xfe, 0x01}, binary)
	long := record(t, store, 4, []byte("k"), []byte(strings.Repeat("ä", 20_000)))

	t.Run("list", func(t *testing.T) {
		table := succeed(t, db, "dlq", "list", "--status", "pending", "--limit", "3")
		contains(t, table, "ID", asBinary, asText, long, "undeliverable", "orders", "INVALID_RECORD", "1 to 3 of 4", `\x1b[31mgood`)
		if strings.Contains(table, asJSON) || strings.ContainsAny(table, "\x1b\u202e") {
			t.Errorf("table:\n%q", table)
		}
		contains(t, succeed(t, db, "dlq", "list", "--offset", "3"), asJSON)
		contains(t, succeed(t, db, "dlq", "list", "--offset", "9"), "None beyond the first 9; there are 4")
		contains(t, succeed(t, db, "dlq", "list", "--status", "cancelled"), "no such investigations")
		contains(t, succeed(t, db, "dlq", "list", "--topic", "other"), "no such investigations")
		encoded := succeed(t, db, "dlq", "list", "-o", "json", "--dlq-reason", "undeliverable")
		list := decode[api.EntryList](t, encoded)
		if *list.Total != 4 || len(list.Items) != 4 || list.Items[0].ID != long || list.Items[0].Message != "no \x1b[31mgood\x1b[0m\u202e" {
			t.Errorf("list %+v", list)
		}
		if strings.Contains(encoded, "\u202e") {
			t.Errorf("a change of direction in %q", encoded)
		}
	})
	t.Run("show", func(t *testing.T) {
		for id, want := range map[string][]string{
			asJSON:   {`"order-1"`, "JSON", `    "n": 12345678901234567890`, `\u009b2J\u202e`, `trace\x1b[1m: v\x1b[1m`, "Reason", "undeliverable", "postrider.dlq/0@1", "INVALID_RECORD (validation)"},
			asText:   {"text", "    line one\n    line    two", `\x1b]0;title\a`},
			asBinary: {"1003 bytes, binary", "0xfe01", "ff 00 1b 07", "747 more bytes; -o json has them"},
			long:     {"40000 bytes, text", "35904 more bytes"},
		} {
			shown := succeed(t, db, "dlq", "show", id, "--payload")
			contains(t, shown, append(want, id, "once", "Dead letters, the newest first")...)
			if strings.ContainsAny(shown, "\x1b\x07\u009b\u202e\t") {
				t.Errorf("control characters in %q", shown)
			}
			detail := decode[struct {
				UUID     string          `json:"dlq_entry_uuid"`
				Category string          `json:"error_category"`
				Snapshot json.RawMessage `json:"snapshot"`
				Letters  []struct {
					Payload api.Bytes `json:"payload"`
					KeyKind string    `json:"key_kind"`
					// That of the letter's own class.
					Category string `json:"error_category"`
				} `json:"letters"`
			}](t, succeed(t, db, "dlq", "show", id, "--payload", "-o", "json"))
			if detail.Category != "validation" || len(detail.Letters) != 1 || detail.Letters[0].Category != "validation" || detail.Letters[0].KeyKind == "" {
				t.Errorf("categories and kinds in %+v", detail)
			}
			if detail.UUID != id || len(detail.Letters) != 1 || len(detail.Snapshot) < 10 {
				t.Errorf("detail %+v", detail)
			}
			if id == asBinary && detail.Letters[0].Payload != (api.Bytes{Encoding: "base64", Value: base64.StdEncoding.EncodeToString(binary)}) {
				t.Errorf("payload %+v", detail.Letters[0].Payload)
			}
		}
	})
}

// What a letter only refers to is shown from the outbox, as long as that has it, and then said to be gone.
func TestShowOfReferences(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store, err := app.NewServices(db.Pool(t), config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	event := uuid.NewString()
	own := func(event, kind string) []message.Header {
		return []message.Header{
			{Name: message.HeaderLetterVersion, Value: []byte("1")}, {Name: message.HeaderEventID, Value: []byte(event)},
			{Name: message.HeaderEpisode, Value: []byte("1")}, {Name: message.HeaderOutboxID, Value: []byte("4242")},
			{Name: message.HeaderOriginTopic, Value: []byte("orders")}, {Name: message.HeaderErrorClass, Value: []byte("permanent")},
			{Name: message.HeaderErrorCode, Value: []byte("MESSAGE_TOO_LARGE")}, {Name: message.HeaderPayload, Value: []byte(kind)},
		}
	}
	bare := dlq.Decode(dlq.Record{Topic: "postrider.dlq", Offset: 1, Timestamp: time.Now(),
		Headers: append(own(event, message.PayloadReference), message.Header{Name: message.HeaderKey, Value: []byte(message.KeyReference)})})
	onlyPayload := dlq.Decode(dlq.Record{Topic: "postrider.dlq", Offset: 2, Timestamp: time.Now(), Key: []byte("order-1"), Headers: own(uuid.NewString(), message.PayloadReference)})
	longKey := dlq.Decode(dlq.Record{Topic: "postrider.dlq", Offset: 3, Timestamp: time.Now(), Key: bytes.Repeat([]byte("k"), 100_000), Value: []byte("v"), Headers: own(uuid.NewString(), message.PayloadInline)})
	if _, err := store.Store.RecordLetters(t.Context(), []dlq.Letter{bare, onlyPayload, longKey}); err != nil {
		t.Fatal(err)
	}
	show := func(l dlq.Letter) string {
		t.Helper()
		return succeed(t, db, "dlq", "show", investigationOf(t, store, l), "--payload")
	}
	contains(t, show(bare), "Key     not in the letter; it was in postrider.outbox_event, id 4242, which is gone", "Headers are not in the letter; they were in postrider.outbox_event, id 4242")
	shown := show(onlyPayload)
	contains(t, shown, `"order-1"`, "not in the letter; it was in postrider.outbox_event, id 4242")
	if strings.Contains(shown, "Headers are not") {
		t.Errorf("headers that are there are said not to be:\n%s", shown)
	}
	contains(t, show(longKey), `Key     "kkkk`, "of 100002 characters are shown; -o json has all")
	if _, err := db.Conn(t).Exec(t.Context(), `insert into postrider.outbox_exception (id, event_id, topic, key, payload, headers, state, copied)
		values (4242, $1, 'orders', 'the key', 'the whole payload', '{"h": "a header"}', 'dead_lettered', true)`, event); err != nil {
		t.Fatal(err)
	}
	contains(t, show(bare), `"the key"`, "the whole payload", "h: a header")
	// A letter whose bytes the database refused has its record only.
	text := keyText(&dlq.Letter{KeyKind: dlq.Reference, DLQTopic: "dead", DLQPartition: 3, DLQOffset: 9})
	contains(t, text, "not in the letter", "is in the record of dead, partition 3, offset 9")
}

// TestShowFollowsTheRules: what the settings hide is hidden here as it is in the API. A person who wants to see it is in the audit
// log before, and without the audit log nothing is shown.
func TestShowFollowsTheRules(t *testing.T) {
	t.Parallel()
	d := newRig(t, 0)
	rules := []string{"DLQ_REDACT_PATHS=$.card", "DLQ_REDACT_HEADERS=auth*"}
	var c config.Config
	c.DLQ.RedactPaths, c.DLQ.RedactHeaders = []string{"$.card"}, []string{"auth*"}
	store, err := app.NewServices(d.db.Pool(t), c)
	if err != nil {
		t.Fatal(err)
	}
	id := record(t, store, 1, []byte("k"), []byte(`{"card": "4111", "order": 7}`), message.Header{Name: "Authorization", Value: []byte("Bearer s3cret")})
	show := func(code int, args ...string) string {
		t.Helper()
		r := postrider(t, append(rules, "DATABASE_URL="+d.operator), append([]string{"dlq", "show", id}, args...)...)
		if r.code != code {
			t.Fatalf("%v: exit code %d, %s%s", args, r.code, r.stdout, r.stderr)
		}
		return r.stdout + r.stderr
	}
	hidden := func(shown string) {
		t.Helper()
		if strings.Contains(shown, "4111") || strings.Contains(shown, "s3cret") {
			t.Errorf("what is hidden is shown:\n%s", shown)
		}
	}
	for _, format := range []string{"table", "json", "yaml"} {
		shown := show(ExitOK, "-o", format)
		contains(t, shown, "[redacted]", "order")
		hidden(shown)
		hidden(succeed(t, d.db, "dlq", "list", "-o", format))
	}
	if n := d.ask(`select count(*)::text from postrider.access_audit`); n != "0" {
		t.Errorf("%s rows in the audit log about what anybody may see", n)
	}
	contains(t, show(ExitOK, "--payload", "--why", "ticket 7", "--actor", "ada"), "4111", "s3cret")
	if got := d.ask(`select actor || ' ' || action || ' ' || target_id || ' ' || (details->>'reason') from postrider.access_audit`); !strings.HasPrefix(got, "cli:") ||
		!strings.HasSuffix(got, " (ada) payload.reveal "+id+" ticket 7") {
		t.Errorf("the audit log: %s", got)
	}
	letter := decode[api.Detail](t, show(ExitOK, "-o", "json")).Letters[0]
	if letter.Payload != nil || letter.Key != nil || string(letter.Headers) != "null" || !strings.Contains(string(letter.RedactedHeaders), "[redacted]") {
		t.Errorf("%+v", letter)
	}
	whole := decode[api.Detail](t, show(ExitOK, "--payload", "--letter", letter.ID, "-o", "json")).Letters[0]
	if !reflect.DeepEqual(whole.Payload, &api.Bytes{Encoding: "json", Value: map[string]any{"card": "4111", "order": 7.0}}) || *whole.Key != (api.Bytes{Encoding: "text", Value: "k"}) {
		t.Errorf("%+v", whole)
	}
	contains(t, show(ExitUsage, "--letter", letter.ID), "go with --payload")
	contains(t, show(ExitFailure, "--payload", "--letter", "none"), "not found")
	if _, err := d.db.Conn(t).Exec(t.Context(), `revoke insert on postrider.access_audit from postrider_operator`); err != nil {
		t.Fatal(err)
	}
	hidden(show(ExitFailure, "--payload"))
}

// TestHeadersOfOperationsFollowTheRules: headers that an operation gives to messages are hidden by the same rules.
func TestHeadersOfOperationsFollowTheRules(t *testing.T) {
	t.Parallel()
	d := newRig(t, 1)
	run := func(args ...string) string {
		t.Helper()
		r := postrider(t, []string{"DLQ_REDACT_HEADERS=auth*", "DATABASE_URL=" + d.operator}, args...)
		if r.code != ExitOK || strings.Contains(r.stdout+r.stderr, "s3cret") {
			t.Fatalf("%v: exit code %d, %s%s", args, r.code, r.stdout, r.stderr)
		}
		return r.stdout
	}
	planned := run("op", "plan", d.entries[0], "--name", "n", "--header", "Authorization=Bearer s3cret", "--header", "priority=5", "-o", "json")
	contains(t, planned, "[redacted]", "priority")
	id := decode[api.Operation](t, planned).UUID.String()
	for _, command := range []string{"show", "start", "pause", "resume", "abort"} {
		contains(t, run("op", command, id, "-o", "json"), "[redacted]", "priority")
	}
	contains(t, run("op", "show", id, "-o", "yaml"), "[redacted]", "priority")
	run("op", "show", id)
	for _, format := range []string{"table", "json", "yaml"} {
		run("op", "list", "-o", format)
		run("audit", "list", "-o", format)
	}
	if got := d.ask(`select options->'headers' #>> '{0,1}' from postrider.dlq_operation`); got != "Bearer s3cret" {
		t.Errorf("what is sent is %q", got)
	}
}

func TestPayloadTitle(t *testing.T) {
	t.Parallel()
	size, id := int64(5), int64(42)
	for want, l := range map[string]dlq.Letter{
		"null (a tombstone)":  {PayloadKind: dlq.Tombstone},
		"5 bytes, not in the": {PayloadKind: dlq.Reference, OutboxID: &id, PayloadBytes: &size},
		"id 42, which is gon": {PayloadKind: dlq.Reference, OutboxID: &id},
		"is in the record of": {PayloadKind: dlq.Reference, DLQOffset: 7},
		"empty":               {PayloadKind: dlq.Inline, Payload: []byte{}},
		"5 bytes, JSON":       {PayloadKind: dlq.Inline, Payload: []byte("12345"), PayloadBytes: &size},
		"5 bytes, text":       {PayloadKind: dlq.Inline, Payload: []byte("hello"), PayloadBytes: &size},
		"unknown size, binar": {PayloadKind: dlq.Inline, Payload: []byte{0xff}},
	} {
		if got := payloadTitle(&l); !strings.Contains(got, want) {
			t.Errorf("%+v: %q does not say %q", l, got, want)
		}
	}
}
