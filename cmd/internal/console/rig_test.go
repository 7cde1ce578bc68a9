package console_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/forwarded"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

func TestMain(m *testing.M) { pgtest.Main(withBrowser{m}) }

// withBrowser ends the browser of the tests after them.
type withBrowser struct{ m *testing.M }

func (w withBrowser) Run() int {
	code := w.m.Run()
	endChromium()
	return code
}

// rig is the console as serve serves it, with the rights of serve's role, on a real database.
type rig struct {
	*httptest.Server
	t        testing.TB
	pool     *pgxpool.Pool // the owner's
	served   *pgxpool.Pool // the console's
	services *app.Services
	api      *httpapi.API
	cluster  brokersSay
	keys     map[access.Scope]string
	ids      map[access.Scope]string
	// refuseStreams answers streams of events as a proxy without a server does.
	refuseStreams atomic.Bool
	// refused is how many were.
	refused atomic.Int64
	// silentStreams opens streams of events, and says nothing after the first.
	silentStreams atomic.Bool
}

func newRig(t testing.TB, flags map[string]string) *rig {
	t.Helper()
	return newRigBehind(t, flags, func(url string) string { return url })
}

// newRigBehind is newRig, with the console on the other side of something: through returns the URL that it connects to.
func newRigBehind(t testing.TB, flags map[string]string, through func(url string) string) *rig {
	t.Helper()
	db := pgtest.New(t)
	r := &rig{t: t, pool: db.Pool(t), keys: map[access.Scope]string{}, ids: map[access.Scope]string{}}
	if err := migrations.ApplyRoles(t.Context(), db.Conn(t)); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, r.pool, `select setval('postrider.outbox_event_id_seq', 1000000)`) // what tests number themselves comes before
	served, err := pgxpool.New(t.Context(), through(db.As("postrider_relay")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(served.Close)
	r.served = served
	all := map[string]string{"http.requests_per_second": "0", "http.failed_logins_per_minute": "0"}
	for k, v := range flags {
		all[k] = v
	}
	folder := all["sources_dir"] // which is no flag
	delete(all, "sources_dir")
	c, err := config.Load(config.From{Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	c.SourcesDir = folder
	if r.services, err = app.NewServices(served, c); err != nil {
		t.Fatal(err)
	}
	var output io.Writer = io.Discard
	if t, is := t.(*testing.T); is {
		output = t.Output()
	}
	log := slog.New(slog.NewTextHandler(output, &slog.HandlerOptions{Level: slog.LevelError}))
	r.services.Cluster, r.services.Examine, r.services.Sources = &r.cluster, r.cluster.examine, r.cluster.sources
	if r.api, err = r.services.API(c, log); err != nil {
		t.Fatal(err)
	}
	pages, err := r.services.Console(c, r.api, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = pages.Run(ctx) }()
	mux := http.NewServeMux()
	mux.Handle("/v1/", r.api)
	mux.Handle("/", pages)
	mux.HandleFunc("GET /console/events", func(w http.ResponseWriter, req *http.Request) {
		if r.refuseStreams.Load() {
			r.refused.Add(1)
			http.Error(w, "no server", http.StatusServiceUnavailable)
			return
		}
		if r.silentStreams.Load() {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: figures\ndata: 0\n\n")
			_ = http.NewResponseController(w).Flush()
			<-req.Context().Done()
			return
		}
		pages.ServeHTTP(w, req)
	})
	r.Server = httptest.NewServer(forwarded.Handler(c.HTTP.Trusted(), mux))
	t.Cleanup(func() { stop(); <-ended; r.CloseClientConnections(); r.Close() })
	made := access.WithActor(t.Context(), access.Actor{Name: "test"})
	for _, scope := range access.Scopes() {
		scopes := []access.Scope{scope}
		if scope != access.Read && scope != access.Admin {
			scopes = append(scopes, access.Read) // pages are seen before anything is done
		}
		if scope == access.Edit {
			scopes = append(scopes, access.Redrive, access.ReadPayload)
		}
		k, token, err := r.services.Access.Create(made, access.NewKey{Name: "key " + string(scope), Scopes: scopes})
		if err != nil {
			t.Fatal(err)
		}
		r.keys[scope], r.ids[scope] = token, k.ID
	}
	return r
}

// die writes event n to the outbox as dead-lettered, records its letter and returns its investigation.
func (r *rig) die(n int, change func(*dlq.Letter)) string {
	r.t.Helper()
	l := dlqtest.Letters(dlqtest.Event(n, 1))[0]
	l.LastFailedAt = time.Now().Add(-time.Minute)
	l.FirstFailedAt, l.DLQRecordAt = l.LastFailedAt, l.LastFailedAt
	if change != nil {
		change(&l)
	}
	id := int64(1000 + n)
	l.OutboxID = &id
	pgtest.Exec(r.t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, key, payload, headers)
		overriding system value values ($1, $2, $3, $4, $5, '[["trace", "x"]]')`, id, l.EventID, l.OriginTopic, l.Key, l.Payload)
	outboxtest.Settle(r.t, r.pool, outboxtest.DeadLettered, id)
	if _, err := r.services.Store.RecordLetters(r.t.Context(), []dlq.Letter{l}); err != nil {
		r.t.Fatal(err)
	}
	return pgtest.Value[string](r.t, r.pool, `select dlq_entry_uuid::text from postrider.dlq_letter where letter_id = $1`, l.ID)
}

// group is the group of an investigation.
func (r *rig) group(entry string) string {
	r.t.Helper()
	return pgtest.Value[string](r.t, r.pool, `select dlq_group_uuid::text from postrider.dlq_entry where dlq_entry_uuid = $1::uuid`, entry)
}

// planned plans an operation by the API, as a program does, and returns its page.
func (r *rig) planned(body map[string]any) string {
	r.t.Helper()
	actor := access.Actor{Name: "key admin", KeyID: r.ids[access.Admin], Scopes: []access.Scope{access.Admin}, Sources: access.AllSources()}
	made, err := r.api.Call(access.WithActor(r.t.Context(), actor), http.MethodPost, "/operations", nil, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return "/operations/" + made.(api.Operation).UUID.String()
}

// browser is a client with cookies of its own.
type browser struct {
	*http.Client
	r *rig
}

func (r *rig) browser() *browser {
	r.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return &browser{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, r}
}

// as is a browser that is signed in with the key of a scope.
func (r *rig) as(scope access.Scope) *browser {
	r.t.Helper()
	b := r.browser()
	if got := b.post("/login", "key", r.keys[scope]); got.status != http.StatusSeeOther {
		r.t.Fatalf("signing in with %s: %d", scope, got.status)
	}
	return b
}

// token is the browser's session.
func (b *browser) token() string {
	b.r.t.Helper()
	at, err := url.Parse(b.r.URL)
	if err != nil {
		b.r.t.Fatal(err)
	}
	for _, c := range b.Jar.Cookies(at) {
		if c.Name == "postrider_session" {
			return c.Value
		}
	}
	b.r.t.Fatal("the browser has no session")
	return ""
}

// got is what a browser was answered.
type got struct {
	status int
	header http.Header
	text   string
}

func (g got) has(t testing.TB, what ...string) got {
	t.Helper()
	for _, w := range what {
		if !strings.Contains(g.text, w) {
			t.Errorf("the page (%d) does not have %q:\n%s", g.status, w, excerpt(g.text))
		}
	}
	return g
}

func (g got) is(t testing.TB, status int) got {
	t.Helper()
	if g.status != status {
		t.Fatalf("status %d, not %d:\n%s", g.status, status, excerpt(g.text))
	}
	return g
}

// excerpt is the page without its sprite.
func excerpt(page string) string {
	if _, main, found := strings.Cut(page, "<main"); found {
		page = main
	}
	return page[:min(len(page), 4000)]
}

func (b *browser) get(path string, headers ...string) got {
	b.r.t.Helper()
	return b.do(http.MethodGet, path, nil, headers...)
}

// post sends a form; values are name, value pairs.
func (b *browser) post(path string, values ...string) got {
	b.r.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(values); i += 2 {
		form.Add(values[i], values[i+1])
	}
	return b.do(http.MethodPost, path, form)
}

func (b *browser) do(method, path string, form url.Values, headers ...string) got {
	b.r.t.Helper()
	req, err := http.NewRequestWithContext(b.r.t.Context(), method, b.r.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.r.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := b.Do(req)
	if err != nil {
		b.r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.r.t.Fatal(err)
	}
	return got{resp.StatusCode, resp.Header, string(text)}
}

// lookAt sends the form for a look at a message, and returns the page that it leads to.
func (b *browser) lookAt(path string, values ...string) got {
	b.r.t.Helper()
	to := b.post(path, values...).is(b.r.t, http.StatusSeeOther).header.Get("Location")
	if at, _, _ := strings.Cut(to, "#"); at != path {
		b.r.t.Fatalf("%s leads to %s", path, to)
	}
	return b.get(path)
}

// until asks for a page until it has a text.
func (b *browser) until(path, text string) got {
	b.r.t.Helper()
	var last got
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if last = b.get(path); strings.Contains(last.text, text) {
			return last
		}
	}
	b.r.t.Fatalf("%s never has %q: %d\n%s", path, text, last.status, excerpt(last.text))
	return last
}

// invalidHeaders makes a letter one that was given up because of its headers.
func invalidHeaders(l *dlq.Letter) {
	l.ErrorCode, l.ErrorClass = "INVALID_HEADERS", "permanent"
	l.ErrorMessage = `invalid outbox event: header "priority" must be a string, null, or {"base64": "…"}`
	l.Headers = []message.Header{{Name: message.HeaderInvalidHeaders, Value: []byte(`{"priority": 5}`)}}
	l.Payload = []byte(fmt.Sprintf(`{"order": %s, "placed": true}`, l.Payload))
}
