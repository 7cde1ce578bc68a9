package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// TestCallsThatRead: in the process the API gives the same answers as over the wire, and asks for the same scopes.
func TestCallsThatRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c, err := config.Load(config.From{Flags: map[string]string{"http.requests_per_second": "1", "http.request_burst": "20"}})
	if err != nil {
		t.Fatal(err)
	}
	api, err := r.services.API(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	as := func(scopes ...access.Scope) context.Context {
		return access.WithActor(t.Context(), access.Actor{Name: "n", KeyID: "k", RequestID: "r", Scopes: scopes, Sources: access.AllSources()})
	}
	data, err := api.Call(as(access.Read), http.MethodGet, "/dlq", url.Values{"page_size": {"7"}}, nil)
	got, wrong := json.Marshal(data)
	if want := r.ask("GET", "/dlq?page_size=7", "").is(200).Data; err != nil || wrong != nil || string(got) != string(want) {
		t.Errorf("%s, %v, %v, want %s", got, err, wrong, want)
	}
	for name, c := range map[string]struct {
		ctx   context.Context
		path  string
		query url.Values
		want  httpapi.Code
	}{
		"no actor":          {t.Context(), "/dlq", nil, httpapi.Unauthenticated},
		"another scope":     {as(access.Purge), "/dlq", nil, httpapi.Forbidden},
		"nothing there":     {as(access.Read), "/nothing", nil, httpapi.NotFound},
		"only to be posted": {as(access.Admin), "/dlq/requeue", nil, httpapi.NotAllowed},
		"changes something": {as(access.Admin), "/dlq/purge/", nil, httpapi.NotFound},
		"a wrong parameter": {as(access.Read), "/dlq", url.Values{"pages": {"1"}}, httpapi.Validation},
		"no path":           {as(access.Read), "/%zz", nil, httpapi.Validation},
	} {
		_, err := api.Call(c.ctx, http.MethodGet, c.path, c.query, nil)
		var told *httpapi.Error
		if !errors.As(err, &told) || told.Code != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	var limited *httpapi.Error
	for range 20 {
		_, err = api.Call(as(access.Read), http.MethodGet, "/dlq/stats", nil, nil)
	}
	if !errors.As(err, &limited) || limited.Code != httpapi.RateLimited {
		t.Errorf("20 more: %v", err)
	}
	// Over the wire a caller without a key is unknown, whatever the request's context or headers are.
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/dlq", nil).WithContext(as(access.Admin)))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("an actor without a key: %d", w.Code)
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c, err := config.Load(config.From{Flags: map[string]string{"http.failed_logins_per_minute": "2"}})
	if err != nil {
		t.Fatal(err)
	}
	api, err := r.services.API(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	guarded := api.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := access.ActorOf(r.Context())
		_, _ = w.Write([]byte(a.Name + " " + a.RequestID)) // a recorder takes all
	}))
	ask := func(token string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		req.Header.Set("X-Request-Id", "mine")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, req)
		return w
	}
	if w := ask(r.keys[access.Read]); w.Code != http.StatusOK || w.Body.String() != "key read mine" {
		t.Errorf("with a key: %d %s", w.Code, w.Body)
	}
	if w := ask(""); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "UNAUTHENTICATED") {
		t.Errorf("without: %d %s", w.Code, w.Body)
	}
	for _, want := range []int{http.StatusUnauthorized, http.StatusUnauthorized, http.StatusTooManyRequests} {
		if w := ask("nokey"); w.Code != want {
			t.Errorf("a wrong key: %d, want %d", w.Code, want)
		}
	}
}

// TestCall: an operation in the process has the scopes, errors and audit of the wire, and returns what its handler made.
func TestCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1)
	c, err := config.Load(config.From{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.services.API(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	as := func(scopes ...access.Scope) context.Context {
		return access.WithActor(t.Context(), access.Actor{Name: "mira", KeyID: "s1", Scopes: scopes, Sources: access.AllSources(), RequestID: "r-1"})
	}
	got, err := a.Call(as(access.Read), http.MethodGet, "/dlq/"+entry, nil, nil)
	if d, is := got.(api.Detail); err != nil || !is || d.ID != entry {
		t.Errorf("it returns a %T, %v", got, err)
	}
	change := map[string]any{"assignee": "mira"}
	for name, c := range map[string]struct {
		ctx        context.Context
		path, want string
	}{
		"no actor": {t.Context(), "/dlq/" + entry, "UNAUTHENTICATED"}, "no scope": {as(access.Read), "/dlq/" + entry, "FORBIDDEN"},
		"unknown": {as(access.Resolve), "/dlq/0192aaaa-0000-7000-8000-000000000008", "NOT_FOUND"}, "no path": {as(access.Resolve), "/nowhere", "NOT_FOUND"},
	} {
		if got, err := a.Call(c.ctx, http.MethodPatch, c.path, nil, change); err == nil || !strings.HasPrefix(err.Error(), c.want) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if n := value[int](r, `select count(*) from postrider.access_audit where action like 'dlq.%'`); n != 0 {
		t.Errorf("%d changes were refused and made", n)
	}
	if _, err := a.Call(as(access.Resolve), http.MethodPatch, "/dlq/"+entry, nil, change); err != nil {
		t.Error(err)
	}
	if who := value[string](r, `select string_agg(actor || ' ' || key_id || ' ' || request_id, ',') from postrider.access_audit where action like 'dlq.%'`); who != "mira s1 r-1" {
		t.Errorf("the audit log says %q", who)
	}
}
