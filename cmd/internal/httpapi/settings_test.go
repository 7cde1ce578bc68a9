package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// TestLogEvents: what the source calls Q5, with the fields that it gives them, and no secret beside.
func TestLogEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c, err := config.Load(config.From{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log bytes.Buffer
	api, err := r.services.API(c, slog.New(slog.NewJSONHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), nil)))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	logged := &rig{Server: server, t: t, spec: r.spec, keys: r.keys, seen: r.seen}
	a, b, closed := r.die(1), r.die(2), r.die(3)
	logged.ask("PATCH", "/dlq/"+closed, `{"resolution_status": "cancelled"}`).is(200)
	logged.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q, %q]}`, a, closed), "X-Request-Id", "req-1").is(200)
	logged.ask("POST", "/dlq/purge", fmt.Sprintf(`{"ids": [%q]}`, b)).is(200)
	logged.ask("POST", "/dlq/purge", `{"older_than": "2020-01-01", "reason": "network"}`).is(200)
	logged.ask("GET", "/dlq/stats", "").is(200)
	logged.ask("POST", "/dlq/requeue", `{"ids": []}`).is(400) // a refusal is no event of the log

	mu.Lock()
	defer mu.Unlock()
	var events []map[string]any
	for line := range strings.Lines(log.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e["event"] != nil {
			events = append(events, e)
		}
	}
	want := []map[string]any{
		{"event": "dlq.requeue", "requeued": 1.0, "skipped": 1.0, "actor": "key admin", "request_id": "req-1"},
		{"event": "dlq.purge", "purged": 1.0, "reason": "", "actor": "key admin"},
		{"event": "dlq.purge", "purged": 0.0, "reason": "network", "actor": "key admin"},
		{"event": "dlq.stats", "total": 2.0, "last_24h": 2.0, "distinct_reasons": 1.0},
	}
	if len(events) != len(want) {
		t.Fatalf("%d events, want %d:\n%s", len(events), len(want), log.String())
	}
	for i, e := range events {
		for field, value := range want[i] {
			if e[field] != value {
				t.Errorf("%s: %s is %v, want %v", e["event"], field, e[field], value)
			}
		}
		if took, is := e["duration_ms"].(float64); !is || took <= 0 || e["msg"] != e["event"] {
			t.Errorf("%v", e)
		}
	}
	for _, key := range r.keys {
		if strings.Contains(log.String(), key) {
			t.Error("a key is in the log")
		}
	}
}

func header(name, value string) message.Header {
	return message.Header{Name: name, Value: []byte(value)}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestRedactionReachesTheAPI: a value that the settings name is hidden in the records of the collector and in every answer
// of the API, except the answer that has a scope of its own.
func TestRedactionReachesTheAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"dlq.redact_paths": "$.card.number,$..pin", "dlq.redact_headers": "auth*"})
	l := r.dead(1, func(l *dlq.Letter) {
		l.Payload = []byte(`{"card": {"number": "4111111111111111"}, "deep": [{"pin": "0815-pin"}], "order": 17}`)
		l.Headers = append(slices.Clone(l.Headers), header("Authorization", "Bearer s3cret"), header("shop", "berlin"))
	})
	// As the collector does: with the settings, and with the rights of its role.
	if _, err := r.services.Store.RecordLetters(t.Context(), []dlq.Letter{l}); err != nil {
		t.Fatal(err)
	}
	id := value[uuid.UUID](r, `select dlq_entry_uuid from postrider.dlq_letter where letter_id = $1`, l.ID).String()
	detail := r.ask("GET", "/dlq/"+id, "", "X-API-Key", r.keys["read"]).is(200)
	if detail.text("snapshot", "payload", "card", "number") != dlq.Redacted || detail.at("snapshot", "payload", "order") != 17.0 {
		t.Errorf("%s", detail.Raw)
	}
	for _, want := range []string{`["Authorization","[redacted]"]`, `["shop","berlin"]`} {
		if !strings.Contains(strings.ReplaceAll(detail.Raw, `, `, `,`), want) {
			t.Errorf("%s is not in %s", want, detail.Raw)
		}
	}
	group := detail.text("group_uuid")
	operation := r.ask("POST", "/operations", fmt.Sprintf(`{"kind": "redrive", "name": "n", "scope": {"ids": [%q]}}`, id)).is(201).text("operation_uuid")
	for _, path := range []string{"/dlq", "/dlq?reason=refused", "/dlq/" + id, "/dlq/stats", "/groups", "/groups/" + group, "/operations/" + operation, "/operations/" + operation + "/items", "/outbox", "/status"} {
		got := r.ask("GET", path, "", "X-API-Key", r.keys["read"]).is(200)
		for _, secret := range []string{"4111111111111111", "0815-pin", "s3cret"} {
			if strings.Contains(got.Raw, secret) {
				t.Errorf("%s shows %s: %s", path, secret, got.Raw)
			}
		}
	}
	whole := r.ask("GET", "/dlq/"+id+"/payload", "", "X-API-Key", r.keys["read:payload"]).is(200)
	for _, secret := range []string{"4111111111111111", "0815-pin", "s3cret"} {
		if !strings.Contains(whole.Raw, secret) {
			t.Errorf("who may see it does not see %s: %s", secret, whole.Raw)
		}
	}
	// The message itself is sent again, with its values.
	r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, id)).is(200)
	if n := value[int](r, `select count(*) from postrider.outbox_event where id > 1000000 and convert_from(payload, 'UTF8') like '%4111111111111111%' and headers::text like '%s3cret%'`); n != 1 {
		t.Errorf("%d messages were sent as they were, want 1", n)
	}
}

// TestCredentialsAreHiddenByDefault: with the settings as they come, headers that usually carry credentials are not
// shown, and all others are; an empty list shows all.
func TestCredentialsAreHiddenByDefault(t *testing.T) {
	t.Parallel()
	names := []string{"Authorization", "proxy-authorization", "Cookie", "Set-Cookie", "X-API-Key", "api-key", "x-auth-token", "x-access-token", "x-csrf-token", "X-Amz-Security-Token"}
	for name, c := range map[string]struct {
		flags map[string]string
		shown bool
	}{
		"by default":    {nil, false},
		"an empty list": {map[string]string{"dlq.redact_headers": ""}, true},
	} {
		r := newRig(t, c.flags)
		l := r.dead(1, func(l *dlq.Letter) {
			l.Payload, l.Headers = []byte(`{"order": 17}`), append(slices.Clone(l.Headers), header("shop", "berlin"))
			for _, secret := range names {
				l.Headers = append(l.Headers, header(secret, "s3cret"))
			}
		})
		if _, err := r.services.Store.RecordLetters(t.Context(), []dlq.Letter{l}); err != nil {
			t.Fatal(err)
		}
		id := value[uuid.UUID](r, `select dlq_entry_uuid from postrider.dlq_letter where letter_id = $1`, l.ID).String()
		detail := r.ask("GET", "/dlq/"+id, "", "X-API-Key", r.keys["read"]).is(200)
		text := strings.ReplaceAll(detail.Raw, `, `, `,`)
		if strings.Contains(text, "s3cret") != c.shown || !strings.Contains(text, `["shop","berlin"]`) || detail.at("snapshot", "payload", "order") != 17.0 {
			t.Errorf("%s: %s", name, text)
		}
		for _, secret := range names {
			if hidden := strings.Count(text, `["`+secret+`","[redacted]"]`); (hidden == 0) != c.shown {
				t.Errorf("%s: %s is hidden %d times", name, secret, hidden)
			}
		}
	}
}
