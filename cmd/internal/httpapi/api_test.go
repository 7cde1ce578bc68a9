package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// frame is an API with a few operations, and keys in a real database.
type frame struct {
	*httptest.Server
	t     *testing.T
	keys  *access.Store
	calls atomic.Int32
}

var errKnown = errors.New("known to Describe")

var errMissing = errors.New("missing, and known to Describe")

func newFrame(t *testing.T, change func(*APIConfig)) *frame {
	t.Helper()
	d := &frame{t: t, keys: access.NewStore(pgtest.New(t).Pool(t))}
	do := func(answer func(context.Context, *Request) (any, error)) func(context.Context, *Request) (any, error) {
		return func(ctx context.Context, r *Request) (any, error) {
			d.calls.Add(1)
			return answer(ctx, r)
		}
	}
	cfg := APIConfig{
		Keys: access.Recently{Store: d.keys}, MaxBody: 1000,
		Describe: func(err error) *Error {
			if errors.Is(err, errKnown) {
				return refuse(Conflict, "told")
			}
			if errors.Is(err, errMissing) {
				return refuse(NotFound, "told")
			}
			return nil
		},
		Routes: []Route{
			{Method: "GET", Path: "/things", Scope: access.Read, Handle: do(func(_ context.Context, r *Request) (any, error) {
				n, err := r.number("n", 5, 1, 10)
				if err == nil {
					err = r.unread()
				}
				return map[string]int{"n": n}, err
			})},
			{Method: "GET", Path: "/things/{id}", Scope: access.Read, Handle: do(func(_ context.Context, r *Request) (any, error) {
				id, err := r.id("id")
				return Moved{To: "/archive/things/" + id.String()}, err
			})},
			{Method: "POST", Path: "/things", Scope: access.Purge, Handle: do(func(ctx context.Context, r *Request) (any, error) {
				var body struct {
					Do string `json:"do"`
					N  int64  `json:"n"`
				}
				if err := r.decode(&body); err != nil {
					return nil, err
				}
				switch body.Do {
				case "panic":
					panic("secret of the server")
				case "fail":
					return nil, errors.New("secret of the server")
				case "known":
					return nil, fmt.Errorf("wrapped: %w", errKnown)
				case "missing":
					return nil, errMissing
				case "late":
					<-ctx.Done()
					return nil, ctx.Err()
				case "who":
					return map[string]string{"actor": access.ActorOf(ctx).Name, "request": access.ActorOf(ctx).RequestID}, nil
				}
				return Created{map[string]int32{"call": d.calls.Load()}}, nil
			})},
		},
	}
	if change != nil {
		change(&cfg)
	}
	api, err := NewAPI(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d.Server = httptest.NewServer(api)
	t.Cleanup(d.Close)
	return d
}

func (d *frame) key(scopes ...access.Scope) string {
	d.t.Helper()
	ctx := access.WithActor(d.t.Context(), access.Actor{Name: "test"})
	_, token, err := d.keys.Create(ctx, access.NewKey{Name: "ada", Scopes: scopes})
	if err != nil {
		d.t.Fatal(err)
	}
	return token
}

// answer is what a request was told.
type reply struct {
	Status int
	Header http.Header
	Raw    string
	OK     bool
	Data   json.RawMessage
	Error  *errorBody
}

// ask sends a request; headers are name, value pairs.
func (d *frame) ask(method, path, body string, headers ...string) reply {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.URL+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	r := reply{Status: resp.StatusCode, Header: resp.Header, Raw: string(raw)}
	if err := json.Unmarshal(raw, &r); err != nil {
		d.t.Fatalf("%s %s: %d, not an envelope: %q", method, path, r.Status, raw)
	}
	if r.OK == (r.Error != nil) || r.OK != (r.Status < 400) || resp.Header.Get("X-Request-Id") == "" {
		d.t.Errorf("%s %s: the envelope contradicts itself: %d %q", method, path, r.Status, raw)
	}
	return r
}

func (r reply) code() Code {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

func TestBothPathStyles(t *testing.T) {
	t.Parallel()
	d := newFrame(t, nil)
	key := d.key(access.Read)
	for _, prefix := range prefixes {
		if r := d.ask("GET", prefix+"/things?n=7", "", "X-API-Key", key); r.Status != 200 || string(r.Data) != `{"n":7}` {
			t.Errorf("%+v", r)
		}
		for _, scheme := range []string{"Bearer ", "bearer ", "BEARER  "} {
			if r := d.ask("GET", prefix+"/things", "", "Authorization", scheme+key); r.Status != 200 || string(r.Data) != `{"n":5}` {
				t.Errorf("%q: %+v", scheme, r)
			}
		}
		const id = "018f0000-0000-7000-8000-000000000001"
		if r := d.ask("GET", prefix+"/things/"+id, "", "X-API-Key", key); r.Status != 301 || r.Header.Get("Location") != prefix+"/archive/things/"+id {
			t.Errorf("%+v", r)
		}
	}
}

func TestWhoMayNot(t *testing.T) {
	t.Parallel()
	d := newFrame(t, nil)
	read := d.key(access.Read)
	for name, c := range map[string]struct {
		headers []string
		status  int
		code    Code
	}{
		"no key":        {nil, 401, Unauthenticated},
		"a wrong key":   {[]string{"X-API-Key", "pr_nobody"}, 401, Unauthenticated},
		"another way":   {[]string{"Authorization", "Basic " + read}, 401, Unauthenticated},
		"no way":        {[]string{"Authorization", "Bearer"}, 401, Unauthenticated},
		"another scope": {[]string{"X-API-Key", read}, 403, Forbidden},
	} {
		r := d.ask("POST", "/v1/things", `{}`, c.headers...)
		if r.Status != c.status || r.code() != c.code || strings.Contains(r.Raw, read) {
			t.Errorf("%s: %+v", name, r)
		}
		if (c.status == 401) != (r.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: WWW-Authenticate is %q", name, r.Header.Get("WWW-Authenticate"))
		}
	}
	if n := d.calls.Load(); n != 0 {
		t.Errorf("%d operations ran", n)
	}
}

func TestRoutesWithoutScopeAreRefused(t *testing.T) {
	t.Parallel()
	for _, r := range []Route{
		{Method: "GET", Path: "/x", Handle: func(context.Context, *Request) (any, error) { return nil, nil }},
		{Method: "GET", Path: "/x", Scope: access.Read},
	} {
		if _, err := NewAPI(APIConfig{Routes: []Route{r}, Keys: access.Recently{Store: access.NewStore(nil)}}); err == nil {
			t.Errorf("%+v", r)
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	d := newFrame(t, nil)
	key := d.key(access.Admin)
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/v1/things?n=0", "", 400, "from 1 to 10"},
		{"GET", "/v1/things?n=x", "", 400, "whole number"},
		{"GET", "/v1/things?n=1&n=2", "", 400, "2 times"},
		{"GET", "/v1/things?limti=1", "", 400, "limti"},
		{"GET", "/v1/things?n=%ff", "", 400, "UTF-8"},
		{"GET", "/v1/things?n=%00", "", 400, "UTF-8"},
		{"GET", "/v1/things?n=%zz", "", 400, "query string"},
		{"GET", "/v1/things?n=" + strings.Repeat("9", 2000), "", 400, "2000 bytes"},
		{"GET", "/v1/things/1' or 1=1", "", 400, "uuid"},
		{"GET", "/v1/nothing", "", 404, "/v1/nothing"},
		{"GET", "/v2/things", "", 404, "/v2/things"},
		{"DELETE", "/v1/things", "", 405, "GET, POST"},
		{"POST", "/v1/things", `{"do":1}`, 400, "do"},
		{"POST", "/v1/things", `{"undo":"x"}`, 400, "undo"},
		{"POST", "/v1/things", `{`, 400, "body"},
		{"POST", "/v1/things", `{} {}`, 400, "after"},
		{"POST", "/v1/things", `[]`, 400, "array"},
		{"POST", "/v1/things", `{"do":"a\u0000b"}`, 400, "field do of the body has a NUL character"},
		{"POST", "/v1/things", `{"n":1.5}`, 400, "field n of the body is 1.5; it must be a whole number from -9223372036854775808 to 9223372036854775807"},
		{"POST", "/v1/things", `{"n":99999999999999999999}`, 400, "field n of the body is 99999999999999999999; it must be a whole number"},
		{"POST", "/v1/things", `{"n":"1"}`, 400, "field n of the body is of the type string; it must be of the type number"},
		{"POST", "/v1/things", `{"do":"` + strings.Repeat("x", 2000) + `"}`, 413, "1000 bytes"},
	} {
		r := d.ask(c.method, strings.ReplaceAll(c.path, " ", "%20"), c.body, "X-API-Key", key)
		if r.Status != c.status || !strings.Contains(r.Error.Message, c.says) {
			t.Errorf("%s %.60s %.60s: %+v", c.method, c.path, c.body, r)
		}
	}
	if r := d.ask("POST", "/v1/things", `{}`, "X-API-Key", key, "Content-Type", "text/plain"); r.Status != 415 {
		t.Errorf("%+v", r)
	}
	if r := d.ask("POST", "/v1/things", "", "X-API-Key", key, "Content-Type", "application/json"); r.Status != 400 {
		t.Errorf("%+v", r)
	}
}

func TestErrorsTellNoSecrets(t *testing.T) {
	t.Parallel()
	d := newFrame(t, func(c *APIConfig) { c.Timeout = 300 * time.Millisecond })
	key := d.key(access.Admin)
	for do, want := range map[string]int{"panic": 500, "fail": 500, "known": 409, "late": 503} {
		r := d.ask("POST", "/v1/things", `{"do":"`+do+`"}`, "X-API-Key", key, "X-Request-Id", "my-id")
		if r.Status != want || strings.Contains(r.Raw, "secret") || r.Error.RequestID != "my-id" {
			t.Errorf("%s: %+v", do, r)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	d := newFrame(t, nil)
	key := d.key(access.Admin)
	if r := d.ask("POST", "/v1/things", `{"do":"who"}`, "X-API-Key", key, "X-Request-Id", "a-1"); string(r.Data) != `{"actor":"ada","request":"a-1"}` {
		t.Errorf("%s", r.Raw)
	}
	for _, bad := range []string{"a b", strings.Repeat("x", 65), "<script>", "a;b"} {
		if r := d.ask("GET", "/v1/things", "", "X-API-Key", key, "X-Request-Id", bad); r.Header.Get("X-Request-Id") == bad {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	d := newFrame(t, func(c *APIConfig) {
		c.Requests, c.Failures = access.NewLimiter(0.001, 2), access.NewLimiter(0.001, 2)
	})
	a, b := d.key(access.Read), d.key(access.Read)
	for i, want := range []int{200, 200, 429} {
		if r := d.ask("GET", "/v1/things", "", "X-API-Key", a); r.Status != want || (want == 429) != (r.Header.Get("Retry-After") != "") {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	if r := d.ask("GET", "/v1/things", "", "X-API-Key", b); r.Status != 200 {
		t.Errorf("another key: %+v", r)
	}
	for i, want := range []int{401, 401, 429} {
		if r := d.ask("GET", "/v1/things", "", "X-API-Key", "guess"); r.Status != want {
			t.Errorf("guess %d: %+v", i, r)
		}
	}
	if r := d.ask("GET", "/v1/things", "", "X-API-Key", "guess"); r.Status != 429 || r.Header.Get("Retry-After") == "" {
		t.Errorf("one more guess: %+v", r)
	}
	// Others behind the same address are not kept out by it.
	if r := d.ask("GET", "/v1/things", "", "X-API-Key", b); r.Status != 200 {
		t.Errorf("a key that works, after many guesses from its address: %+v", r)
	}
	if r := d.ask("GET", "/v1/things", ""); r.Status != 401 {
		t.Errorf("no key, after many guesses from its address: %+v", r)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	d := newFrame(t, nil)
	a, b := d.key(access.Admin), d.key(access.Admin)
	first := d.ask("POST", "/v1/things", `{}`, "X-API-Key", a, "Idempotency-Key", "k")
	again := d.ask("POST", "/v1/things", `{}`, "X-API-Key", a, "Idempotency-Key", "k")
	if first.Status != 201 || again.Status != 201 || first.Raw != again.Raw || d.calls.Load() != 1 || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%+v and %+v after %d calls", first, again, d.calls.Load())
	}
	if r := d.ask("POST", "/v1/things", `{"do":"who"}`, "X-API-Key", a, "Idempotency-Key", "k"); r.Status != 422 {
		t.Errorf("another request: %+v", r)
	}
	if r := d.ask("POST", "/v1/things", `{}`, "X-API-Key", b, "Idempotency-Key", "k"); r.Status != 201 || d.calls.Load() != 2 {
		t.Errorf("of another person: %+v", r)
	}
	if r := d.ask("POST", "/v1/things", `{"do":"fail"}`, "X-API-Key", a, "Idempotency-Key", "f"); r.Status != 500 {
		t.Fatalf("%+v", r)
	}
	calls := d.calls.Load()
	if r := d.ask("POST", "/v1/things", `{"do":"fail"}`, "X-API-Key", a, "Idempotency-Key", "f"); r.Status != 500 || d.calls.Load() != calls+1 {
		t.Errorf("an error of the server's was kept: %+v", r)
	}
	if r := d.ask("POST", "/v1/things", `{}`, "X-API-Key", a, "Idempotency-Key", strings.Repeat("k", 256)); r.Status != 400 {
		t.Errorf("a long key: %+v", r)
	}
	if r := d.ask("GET", "/v1/things", "", "X-API-Key", a, "Idempotency-Key", "k"); r.Status != 200 {
		t.Errorf("reading is not kept: %+v", r)
	}
}

// TestRefusalsAreNotKept: a refusal has done nothing, so the same key may be used again, for the same request or for
// a corrected one. When that is carried out, its answer is kept.
func TestRefusalsAreNotKept(t *testing.T) {
	t.Parallel()
	d := newFrame(t, nil)
	key, reader := d.key(access.Admin), d.key(access.Read)
	for n, c := range []struct {
		body   string
		status int
		more   []string
	}{
		{`{"undo": 1}`, 400, nil}, {`{"do":"missing"}`, 404, nil}, {`{"do":"known"}`, 409, nil}, {`{"do":"fail"}`, 500, nil},
		{`{}`, 401, []string{"X-API-Key", "pr_nobody"}}, {`{}`, 403, []string{"X-API-Key", reader}},
		{`{}`, 415, []string{"Content-Type", "text/plain"}}, {`{"do":"` + strings.Repeat("x", 2000) + `"}`, 413, nil},
	} {
		once := strconv.Itoa(n)
		ask := func(body string, more ...string) reply {
			return d.ask("POST", "/v1/things", body, append([]string{"X-API-Key", key, "Idempotency-Key", once}, more...)...)
		}
		for range 2 {
			if r := ask(c.body, c.more...); r.Status != c.status || r.Header.Get("Idempotency-Replayed") != "" {
				t.Errorf("%s: %+v, want %d", c.body, r, c.status)
			}
		}
		if r := ask(`{}`); r.Status != 201 || r.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("after %d, mended: %+v", c.status, r)
		}
		if r := ask(`{}`); r.Status != 201 || r.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("after %d, once more: %+v", c.status, r)
		}
	}
}

// TestALongRouteHasItsTime: a route that may take longer than the others has a context that lasts, and a connection that
// still takes its answer then.
func TestALongRouteHasItsTime(t *testing.T) {
	t.Parallel()
	d := newFrame(t, nil)
	left := func(ctx context.Context, _ *Request) (any, error) {
		end, _ := ctx.Deadline()
		return time.Until(end) > time.Minute, nil
	}
	api, err := NewAPI(APIConfig{Keys: access.Recently{Store: d.keys}, Routes: []Route{
		{Method: "POST", Path: "/short", Scope: access.Read, Handle: left}, {Method: "POST", Path: "/long", Scope: access.Read, Handle: left, Limit: time.Hour},
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(api)
	server.Config.WriteTimeout = time.Nanosecond // over before any answer
	server.Start()
	defer server.Close()
	ask := func(path string) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", d.key(access.Read))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		return string(raw), err
	}
	if raw, err := ask("/short"); err == nil {
		t.Errorf("the server's limit does not count: %s", raw)
	}
	if raw, err := ask("/long"); err != nil || !strings.Contains(raw, `"data":true`) {
		t.Errorf("%s, %v", raw, err)
	}
}
