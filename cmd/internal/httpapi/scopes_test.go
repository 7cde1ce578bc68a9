package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// Every route refuses every scope but its own, and admin, under both path styles. The table of scopes is written
// here once more, so that a check that is removed, or another scope, is noticed.
func TestEveryRouteRefusesOtherScopes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	wanted := func(o *operation) access.Scope {
		switch {
		case strings.HasPrefix(o.path, "/keys") || o.path == "/audit" || o.id == "applyTemplate":
			return access.Admin
		case strings.HasSuffix(o.path, "/payload"):
			return access.ReadPayload
		case o.method == http.MethodGet:
			return access.Read
		case strings.HasSuffix(o.path, "/purge"):
			return access.Purge
		case o.path == "/dlq/requeue" || o.id == "redriveEvent" || strings.HasPrefix(o.path, "/operations"):
			return access.Redrive
		}
		return access.Resolve
	}
	for _, o := range r.spec.operations {
		for _, scope := range access.Scopes() {
			for _, prefix := range []string{"/v1", "/api/v1"} {
				got := r.askAt(prefix, o.method, sample(o), "", "X-API-Key", r.keys[scope])
				if may := scope == wanted(o) || scope == access.Admin; may == (got.Status == http.StatusForbidden) {
					t.Errorf("%s with the scope %s: %d, it needs %s", o.id, scope, got.Status, wanted(o))
				}
			}
		}
	}
}

// Of all that a process serves, only probes, metrics and the description are open.
func TestWhatIsOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	api, err := r.desk.API(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	server, err := httpapi.New(httpapi.Config{Address: "127.0.0.1:0", Metrics: prometheus.NewRegistry(), API: api})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve() }()
	t.Cleanup(func() { _ = server.Stop(t.Context()) })
	get := func(method, path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+server.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if status, body := get("GET", path); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := get("GET", "/api/openapi.yaml"); status != 200 || body != string(httpapi.OpenAPI()) {
		t.Errorf("/api/openapi.yaml: %d, %d bytes", status, len(body))
	}
	for _, o := range r.spec.operations {
		for _, prefix := range []string{"/v1", "/api/v1"} {
			for _, method := range []string{o.method, "HEAD", "PUT", "DELETE"} {
				if status, body := get(method, prefix+sample(o)); status != 401 && status != 405 && status != 404 || method == o.method && status != 401 {
					t.Errorf("%s %s without a key: %d %s", method, prefix+sample(o), status, body)
				}
			}
		}
	}
}
