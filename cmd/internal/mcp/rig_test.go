package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// rig is a database with dead letters, a broker, and keys: one for each scope.
type rig struct {
	t      *testing.T
	url    string // of a login that is postrider_relay
	pool   *pgxpool.Pool
	broker *kafkatest.Broker
	topic  string
	access *access.Store
	keys   map[access.Scope]string
	ids    map[access.Scope]string
}

func newRig(t *testing.T, records ...dlq.Record) *rig {
	t.Helper()
	db := pgtest.New(t)
	if err := migrations.ApplyRoles(t.Context(), db.Conn(t)); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, url: db.As("postrider_relay"), pool: db.Pool(t), broker: kafkatest.Kfake(t), keys: map[access.Scope]string{}, ids: map[access.Scope]string{}}
	r.topic = r.broker.Topic(t, 1, nil)
	r.broker.CreateTopic(t, "postrider.dlq", 1, nil)
	r.access = access.NewStore(r.pool)
	for _, scope := range access.Scopes() {
		k, token, err := r.access.Create(access.WithActor(t.Context(), access.Actor{Name: "test"}), access.NewKey{Name: "agent " + string(scope), Scopes: []access.Scope{scope}})
		if err != nil {
			t.Fatal(err)
		}
		r.keys[scope], r.ids[scope] = token, k.ID
	}
	// The letters came before anybody thought of redaction.
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: r.pool})
	if err != nil {
		t.Fatal(err)
	}
	if len(records) > 0 {
		if _, err := store.RecordLetters(t.Context(), dlqtest.Letters(records...)); err != nil {
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

// byDefault in the place of a value leaves a setting at its default.
const byDefault = "\x00"

// config are the settings of a server of the rig.
func (r *rig) config(flags map[string]string) config.Config {
	r.t.Helper()
	all := map[string]string{"database.url": r.url, "kafka.brokers": strings.Join(r.broker.Addrs, ","), "mcp.address": "127.0.0.1:0",
		"mcp.allow_writes": "true", "http.requests_per_second": "0", "http.failed_logins_per_minute": "0", "dlq.redact_paths": "$.card", "dlq.redact_headers": "authorization"}
	for k, v := range flags {
		if all[k] = v; v == byDefault {
			delete(all, k)
		}
	}
	c, err := config.Load(config.From{Flags: all})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// serve runs a server over HTTP until the test ends, and returns where its clients go.
func (r *rig) serve(flags map[string]string) (endpoint string) {
	r.t.Helper()
	return r.serveAs(app.Options{Config: r.config(flags)})
}

func (r *rig) serveAs(o app.Options) (endpoint string) {
	r.t.Helper()
	a, err := app.NewAgents(r.t.Context(), o, "", true)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	r.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	return "http://" + a.Addr() + "/mcp"
}

// bearer adds a key to requests.
type bearer struct {
	token string
	*http.Transport
}

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+b.token)
	return b.Transport.RoundTrip(req)
}

// agent is a client with a key.
type agent struct {
	t *testing.T
	*sdk.ClientSession
}

func (r *rig) agent(endpoint string, scope access.Scope) agent {
	r.t.Helper()
	transport := &http.Transport{}
	r.t.Cleanup(transport.CloseIdleConnections)
	return connect(r.t, &sdk.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: bearer{r.keys[scope], transport}}})
}

func connect(t *testing.T, transport sdk.Transport) agent {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // the server may have gone before
	return agent{t, session}
}

// call calls a tool, and returns its texts, one a line group.
func (a agent) call(tool string, args map[string]any) (*sdk.CallToolResult, string) {
	a.t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	result, err := a.CallTool(a.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s %v: %v", tool, args, err)
	}
	var texts []string
	for _, c := range result.Content {
		texts = append(texts, c.(*sdk.TextContent).Text)
	}
	return result, strings.Join(texts, "\n")
}

// ask calls a tool that must succeed.
func (a agent) ask(tool string, args map[string]any) (*sdk.CallToolResult, string) {
	a.t.Helper()
	result, text := a.call(tool, args)
	if result.IsError {
		a.t.Fatalf("%s %v: %s", tool, args, text)
	}
	return result, text
}

// refused calls a tool that must be refused, in words that have these parts.
func (a agent) refused(tool string, args map[string]any, parts ...string) {
	a.t.Helper()
	result, text := a.call(tool, args)
	if !result.IsError {
		a.t.Errorf("%s %v was not refused: %s", tool, args, text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			a.t.Errorf("%s %v: %q is not in %s", tool, args, part, text)
		}
	}
}

// structured is the structured content of a result.
func structured[T any](t *testing.T, result *sdk.CallToolResult) (v T) {
	t.Helper()
	raw, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

// fenced takes the data out of its fence, as a careful reader does.
func fenced(t *testing.T, text string) map[string]any {
	t.Helper()
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines, want 4:\n%s", len(lines), text)
	}
	begin, marked := strings.CutPrefix(lines[1], "BEGIN UNTRUSTED DATA ")
	if !marked || len(begin) < 26 || lines[3] != "END UNTRUSTED DATA "+begin || !strings.HasSuffix(lines[0], "the mark "+begin+".") {
		t.Fatalf("not fenced:\n%s", text)
	}
	if n := strings.Count(text, begin); n != 3 {
		t.Fatalf("the mark is there %d times:\n%s", n, text)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(lines[2]), &v); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return v
}

// letters are dead letters of events 1 to n.
func letters(n int) (records []dlq.Record) {
	for i := range n {
		records = append(records, dlqtest.Event(i+1, 1))
	}
	return records
}

func args(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}
