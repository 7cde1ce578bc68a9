package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/dlq"
)

// nasty are values that have broken programs before.
var nasty = []string{
	"", " ", "0", "-1", "1e9", "9223372036854775808", "NaN", "null", "true", "[]", "{}", "'", `"`, `'; drop table postrider.dlq_entry; --`, "1 or 1=1", "%", "_", `\`,
	"\x00", "\x1b[2J", "\r\nX-Injected: 1", "<script>alert(1)</script>", "=cmd|' /C calc'!A1", "../../etc/passwd", "\u202e", "\ufeff", "💥", "\xff\xfe",
	strings.Repeat("a", 1025), nowhere, "2026-01-01", "0000-00-00", "9999-12-31T23:59:59Z", "-infinity", "1/0", "$1", "pending", "created_at",
}

// isHeader reports whether a client may send a value of a header: no control characters but tabs.
func isHeader(v string) bool {
	return !strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// throw sends a request of the fuzzer's and returns the fault in the answer. Whatever is sent, the server has an
// answer in an envelope, and it is never its own fault; a connection that it cuts is no answer. The status is 0 only
// when no request can be made of the input.
func (r *rig) throw(ctx context.Context, method, path, body string, headers map[string]string) (status int, err error) {
	target := r.URL + "/v1" + path
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return 0, nil // no request can be made of it
	}
	req.Header.Set("X-API-Key", r.keys["admin"])
	req.Header.Set("Content-Type", "application/json")
	for name, v := range headers {
		if !isHeader(v) {
			return 0, nil // it would be refused before it is sent
		}
		req.Header[name] = []string{v}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, fmt.Errorf("there is no answer: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err
	}
	if resp.StatusCode == http.StatusTemporaryRedirect || resp.StatusCode == http.StatusMovedPermanently && resp.Header.Get("Content-Type") != "application/json; charset=utf-8" || method == http.MethodHead {
		return resp.StatusCode, nil // a path that is not clean is sent to the clean one
	}
	var a reply
	if err := json.Unmarshal(raw, &a); err != nil {
		return resp.StatusCode, fmt.Errorf("%d with no envelope: %q", resp.StatusCode, raw)
	}
	if resp.StatusCode >= 500 || a.OK == (a.Error != nil) || resp.Header.Get("X-Injected") != "" {
		return resp.StatusCode, fmt.Errorf("%d: %s", resp.StatusCode, raw)
	}
	if strings.Contains(string(raw), "byte sequence") || strings.Contains(string(raw), "SQLSTATE") {
		return resp.StatusCode, fmt.Errorf("%d in the words of the driver: %s", resp.StatusCode, raw)
	}
	return resp.StatusCode, nil
}

// TestACutConnectionIsNoAnswer: the fuzzer sees a server that falls over.
func TestACutConnectionIsNoAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer server.Close()
	r := &rig{Server: server, t: t}
	if status, err := r.throw(t.Context(), "POST", "/dlq/purge", "{}", nil); status != 0 || err == nil {
		t.Errorf("%d, %v", status, err)
	}
	if status, err := r.throw(t.Context(), "POST", "/dlq/purge", "{}", map[string]string{"Idempotency-Key": "a\nb"}); status != 0 || err != nil {
		t.Errorf("a header that cannot be sent: %d, %v", status, err)
	}
}

// mutate makes a request of an operation, with nasty values in some of its parts.
func mutate(o *operation, pick func(int) int, value func() string) (path, body string, headers map[string]string) {
	path = o.path
	for _, part := range []string{"{id}", "{step}", "{comment}", "{namespace}", "{name}"} {
		v := nowhere
		if pick(3) == 0 {
			v = value()
		}
		path = strings.Replace(path, part, url.PathEscape(v), 1)
	}
	query := url.Values{}
	for _, p := range o.params {
		if pick(3) == 0 {
			query.Set(p, value())
		}
	}
	if pick(8) == 0 {
		query.Set(value(), value())
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	fields := []string{"ids", "older_than", "reason", "target", "edit", "resolution_status", "notes", "metadata", "name", "kind", "scope", "options", "scopes", "note", "muted_until",
		"until", "action", "results", "namespace_name", "task_name", "context", "workflow_steps", "from", "limit", "expires_in_seconds", "version", "steps"}
	content := map[string]any{}
	for range pick(4) {
		var v any = value()
		switch pick(5) {
		case 0:
			v = []any{value()}
		case 1:
			v = map[string]any{fields[pick(len(fields))]: value(), "filter": map[string]any{"topic": value()}}
		case 2:
			v = pick(1 << 30)
		}
		content[fields[pick(len(fields))]] = v
	}
	raw, _ := json.Marshal(content) // plain values always can be
	body = string(raw)
	if pick(6) == 0 {
		body = value()
	}
	headers = map[string]string{}
	if pick(5) == 0 {
		headers["Idempotency-Key"] = value()
	}
	if pick(5) == 0 {
		headers["X-Request-Id"] = value()
	}
	return path, body, headers
}

// A bounded run of what FuzzRequests does for as long as one likes: every operation, many times.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.furnish()
	r.die(1)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	for range 6 {
		for _, o := range r.spec.operations {
			path, body, headers := mutate(o, random.IntN, func() string { return nasty[random.IntN(len(nasty))] })
			if _, err := r.throw(t.Context(), o.method, path, body, headers); err != nil {
				t.Errorf("seed %d: %s %s %s %v: %v", seed, o.method, path, body, headers, err)
			}
		}
	}
	if n := value[int](r, `select count(*) from postrider.dlq_entry`); n != 1 {
		t.Errorf("%d investigations are left of one", n)
	}
	r.ask("GET", "/status", "").is(200)
}

// FuzzRequests throws parameters, paths and bodies at every operation.
func FuzzRequests(f *testing.F) {
	r := newRig(f, nil)
	r.furnish()
	for i, text := range nasty {
		f.Add(uint64(i), text, text, `{"ids": ["`+nowhere+`"]}`)
	}
	f.Fuzz(func(t *testing.T, seed uint64, one, two, body string) {
		random := rand.New(rand.NewPCG(seed, 2))
		o := r.spec.operations[random.IntN(len(r.spec.operations))]
		path, made, headers := mutate(o, random.IntN, func() string { return []string{one, two, nasty[random.IntN(len(nasty))]}[random.IntN(3)] })
		if random.IntN(2) == 0 {
			made = body
		}
		if _, err := r.throw(t.Context(), o.method, path, made, headers); err != nil {
			t.Errorf("%s %q %q: %v", o.method, path, made, err)
		}
	})
}

// The data of a message comes back as JSON text, whatever a browser, a spreadsheet or a terminal would make of it.
func TestHostilePayloads(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for i, text := range []string{"<script>alert(1)</script>", "\x1b[2J\x1b]0;owned\x07", "=HYPERLINK(\"http://x\")", "a\r\nb\x00c", "\xff\xfe"} {
		id := r.record(r.dead(10+i, func(l *dlq.Letter) {
			l.Payload, l.Key, l.ErrorMessage = []byte(text), []byte(text), strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "?")
		}))
		for _, path := range []string{"/dlq", "/dlq/" + id, "/dlq/" + id + "/payload", "/groups", "/outbox"} {
			got := r.ask("GET", path, "").is(200)
			if got.Header.Get("Content-Type") != "application/json; charset=utf-8" || got.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %v", path, got.Header)
			}
			if strings.ContainsAny(got.Raw, "\x00\x07\x1b\r<>") {
				t.Errorf("%s shows control characters or tags as they are: %q", path, got.Raw)
			}
		}
	}
}
