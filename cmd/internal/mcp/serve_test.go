package mcp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/app"
)

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// Over HTTP no request reaches the tools without a key, from a web page that is not listed, or with too large a body.
func TestHTTPIsGuarded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	endpoint := r.serve(map[string]string{"mcp.allowed_origins": "https://agents.example.com", "http.max_body_bytes": "4096"})
	key := "Bearer " + r.keys[access.Read]
	for name, c := range map[string]struct {
		method, body string
		headers      []string
		status       int
		says         string
	}{
		"a key":             {body: listTools, headers: []string{"Authorization", key}, status: http.StatusOK, says: "outbox_sync"},
		"no key":            {body: listTools, status: http.StatusUnauthorized, says: "an API key is needed"},
		"a wrong key":       {body: listTools, headers: []string{"Authorization", key[:len(key)-1]}, status: http.StatusUnauthorized, says: "not known"},
		"a key as Basic":    {body: listTools, headers: []string{"Authorization", "Basic " + r.keys[access.Read]}, status: http.StatusUnauthorized},
		"a page":            {body: listTools, headers: []string{"Authorization", key, "Origin", "https://evil.example.com"}, status: http.StatusForbidden, says: "mcp.allowed_origins"},
		"a page, null":      {body: listTools, headers: []string{"Authorization", key, "Origin", "null"}, status: http.StatusForbidden},
		"a page, asking":    {method: http.MethodOptions, headers: []string{"Origin", "https://evil.example.com"}, status: http.StatusForbidden},
		"a page, alike":     {body: listTools, headers: []string{"Authorization", key, "Origin", "https://agents.example.com.evil.example.com"}, status: http.StatusForbidden},
		"a listed page":     {body: listTools, headers: []string{"Authorization", key, "Origin", "https://agents.example.com"}, status: http.StatusOK, says: "outbox_sync"},
		"a listed, asking":  {method: http.MethodOptions, headers: []string{"Origin", "https://agents.example.com"}, status: http.StatusNoContent},
		"a listed, no key":  {body: listTools, headers: []string{"Origin", "https://agents.example.com"}, status: http.StatusUnauthorized},
		"another host":      {body: listTools, headers: []string{"Authorization", key, "Host", "evil.example.com"}, status: http.StatusForbidden},
		"too large":         {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"` + strings.Repeat("x", 4096) + `"}}`, headers: []string{"Authorization", key}, status: http.StatusRequestEntityTooLarge},
		"no JSON":           {body: "{", headers: []string{"Authorization", key}, status: http.StatusBadRequest},
		"reading a session": {method: http.MethodGet, headers: []string{"Authorization", key}, status: http.StatusMethodNotAllowed},
	} {
		method := c.method
		if method == "" {
			method = http.MethodPost
		}
		req, err := http.NewRequestWithContext(t.Context(), method, endpoint, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(c.headers); i += 2 {
			if c.headers[i] == "Host" {
				req.Host = c.headers[i+1]
			}
			req.Header.Set(c.headers[i], c.headers[i+1])
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read to its end
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %d, want %d: %s, %v", name, resp.StatusCode, c.status, body, err)
		}
		if listed := strings.HasPrefix(name, "a listed"); (resp.Header.Get("Access-Control-Allow-Origin") != "") != listed {
			t.Errorf("%s: Access-Control-Allow-Origin is %q", name, resp.Header.Get("Access-Control-Allow-Origin"))
		}
		if c.status == http.StatusUnauthorized && !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: no WWW-Authenticate", name)
		}
	}
}

func TestCallsAreLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.agent(r.serve(map[string]string{"http.requests_per_second": "1", "http.request_burst": "30"}), access.Purge)
	a.preview("cleanup") // counts 25
	a.refused("outbox_sync", args("action", "cleanup"), "RATE_LIMITED", "too often")
}

// On standard input the key is the one that the server was started with, and it is looked up at each call.
func TestStdio(t *testing.T) {
	t.Parallel()
	r := newRig(t, letters(2)...)
	server, err := app.NewAgents(t.Context(), app.Options{Config: r.config(nil)}, r.keys[access.Read], false)
	if err != nil {
		t.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- server.ServeStdio(context.Background(), in, out) }()
	a := connect(t, &sdk.IOTransport{Reader: fromServer, Writer: toServer})
	_, text := a.ask("dlq_list", nil)
	if items := fenced(t, text)["items"].([]any); len(items) != 2 {
		t.Errorf("%s", text)
	}
	a.refused("outbox_sync", args("action", "cleanup"), "FORBIDDEN", "needs the scope purge")
	if _, err := r.access.Revoke(access.WithActor(t.Context(), access.Actor{Name: "test"}), r.ids[access.Read]); err != nil {
		t.Fatal(err)
	}
	a.refused("dlq_list", nil, "UNAUTHENTICATED")
	a.refused("outbox_sync", args("action", "dlqStats"), "UNAUTHENTICATED")
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the client ended, and the server says %v", err)
	}
	// It does not begin with a key that does not work.
	again, err := app.NewAgents(t.Context(), app.Options{Config: r.config(nil)}, r.keys[access.Read], false)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.ServeStdio(t.Context(), io.NopCloser(strings.NewReader("")), out); err == nil || !strings.Contains(err.Error(), "API key") {
		t.Errorf("with a revoked key: %v", err)
	}
}
