package httpapi_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// rig is the API as serve serves it, with the rights of serve's role, on a real database.
type rig struct {
	*httptest.Server
	t        testing.TB
	spec     *spec
	pool     *pgxpool.Pool // the owner's
	services *app.Services
	// originals are what brokers have of the records that letters point to.
	originals originals
	cluster   brokersSay
	keys      map[access.Scope]string

	mu   sync.Mutex
	seen map[string]map[int]bool // statuses by operation
}

func newRig(t testing.TB, flags map[string]string) *rig {
	t.Helper()
	return newRigBehind(t, flags, func(url string) string { return url })
}

// newRigBehind is newRig, with the API on the other side of something: through returns the URL that it connects to.
func newRigBehind(t testing.TB, flags map[string]string, through func(url string) string) *rig {
	t.Helper()
	db := pgtest.New(t)
	r := &rig{t: t, spec: readSpec(t), pool: db.Pool(t), keys: map[access.Scope]string{}, seen: map[string]map[int]bool{}}
	if err := migrations.ApplyRoles(t.Context(), db.Conn(t)); err != nil {
		t.Fatal(err)
	}
	r.exec(`select setval('postrider.outbox_event_id_seq', 1000000)`) // what tests number themselves comes before
	served, err := pgxpool.New(t.Context(), through(db.As("postrider_relay")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(served.Close)
	all := map[string]string{"http.requests_per_second": "0", "http.failed_logins_per_minute": "0", "http.max_body_bytes": "65536"}
	for k, v := range flags {
		all[k] = v
	}
	c, err := config.Load(config.From{Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	if r.services, err = app.NewServices(served, c); err != nil {
		t.Fatal(err)
	}
	var output io.Writer = os.Stderr // a fuzz target may not log to its fuzzer
	if t, is := t.(*testing.T); is {
		output = t.Output()
	}
	if err := r.services.AskBrokers(&r.originals, nil); err != nil {
		t.Fatal(err)
	}
	r.services.Cluster, r.services.Examine, r.services.Sources = &r.cluster, r.cluster.examine, r.cluster.sources
	r.services.SourceAdmin = sourcesOf{r.services, served}
	api, err := r.services.API(c, slog.New(slog.NewTextHandler(output, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		t.Fatal(err)
	}
	r.Server = httptest.NewServer(api)
	t.Cleanup(r.Close)
	ctx := access.WithActor(t.Context(), access.Actor{Name: "test"})
	for _, scope := range access.Scopes() {
		if _, r.keys[scope], err = r.services.Access.Create(ctx, access.NewKey{Name: "key " + string(scope), Scopes: []access.Scope{scope}}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	pgtest.Exec(r.t, r.pool, sql, args...)
}

func value[T any](r *rig, sql string, args ...any) T {
	r.t.Helper()
	return pgtest.Value[T](r.t, r.pool, sql, args...)
}

// reply is what a request was told.
type reply struct {
	t      testing.TB
	Status int
	Header http.Header
	Raw    string
	OK     bool            `json:"ok"`
	Data   json.RawMessage `json:"data"`
	Error  *struct {
		Code      string          `json:"code"`
		Message   string          `json:"message"`
		Details   json.RawMessage `json:"details"`
		RequestID string          `json:"request_id"`
	} `json:"error"`
}

// ask sends a request with the admin's key, and checks the answer against the description. headers are name, value
// pairs; an empty value takes a header away.
func (r *rig) ask(method, path, body string, headers ...string) reply {
	r.t.Helper()
	return r.askAt("/v1", method, path, body, headers...)
}

func (r *rig) askAt(prefix, method, path, body string, headers ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.URL+prefix+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", r.keys[access.Admin])
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := reply{t: r.t, Status: resp.StatusCode, Header: resp.Header, Raw: string(raw)}
	if err := json.Unmarshal(raw, &a); err != nil {
		r.t.Fatalf("%s %s: %d, not an envelope: %q", method, path, a.Status, raw)
	}
	o := r.spec.find(method, path)
	if o == nil {
		return a // not ours: 404 or 405
	}
	if err := o.check(a.Status, raw); err != nil {
		r.t.Errorf("%s %s: %v\n%s", method, path, err, raw)
	}
	if a.Status < http.StatusMultipleChoices && req.Header.Get("Content-Type") == "application/json" {
		if err := o.takes([]byte(body)); err != nil {
			r.t.Errorf("%s %s takes what is not documented: %v\n%s", method, path, err, body)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[o.id] == nil {
		r.seen[o.id] = map[int]bool{}
	}
	r.seen[o.id][a.Status] = true
	return a
}

// is fails the test unless the status is the one that is wanted.
func (a reply) is(status int) reply {
	a.t.Helper()
	if a.Status != status {
		a.t.Errorf("status %d, want %d: %s", a.Status, status, a.Raw)
	}
	return a
}

// says fails the test unless the error has these parts.
func (a reply) says(parts ...string) reply {
	a.t.Helper()
	for _, p := range parts {
		if a.Error == nil || !strings.Contains(a.Error.Message, p) {
			a.t.Errorf("%q is not in the message: %s", p, a.Raw)
		}
	}
	return a
}

// at returns a value of the data.
func (a reply) at(path ...string) any {
	a.t.Helper()
	var here any
	if err := json.Unmarshal(a.Data, &here); err != nil {
		a.t.Fatalf("%v: %s", err, a.Raw)
	}
	for _, p := range path {
		object, is := here.(map[string]any)
		if !is {
			a.t.Fatalf("there is no %v: %s", path, a.Raw)
		}
		here = object[p]
	}
	return here
}

func (a reply) text(path ...string) string {
	a.t.Helper()
	s, is := a.at(path...).(string)
	if !is {
		a.t.Fatalf("%v is no text: %s", path, a.Raw)
	}
	return s
}
