package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// listen serves the API of the rig as the process does, probes included.
func (r *rig) listen(change func(*httpapi.Config)) *httpapi.Server {
	r.t.Helper()
	c, err := config.Load(config.From{Flags: map[string]string{"http.requests_per_second": "0", "http.failed_logins_per_minute": "0"}})
	if err != nil {
		r.t.Fatal(err)
	}
	api, err := r.services.API(c, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := httpapi.Config{Address: "127.0.0.1:0", Metrics: prometheus.NewRegistry(), API: api}
	if change != nil {
		change(&cfg)
	}
	server, err := httpapi.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	go func() { _ = server.Serve() }()
	r.t.Cleanup(func() { _ = server.Stop(r.t.Context()) })
	return server
}

// TestWhatNoClientSends: bytes on the wire that an HTTP client would not produce. Each has the status that is wanted, or
// no answer at all; no header of an answer is the requester's; nothing is changed, and the server is up.
func TestWhatNoClientSends(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.die(1)
	server := r.listen(nil)
	key := "X-API-Key: " + r.keys["admin"] + "\r\n"
	purge := `{"older_than": "2099-01-01"}`
	post := func(headers, body string) string {
		return "POST /v1/dlq/purge HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n" + headers + "\r\n" + body
	}
	length := fmt.Sprintf("Content-Length: %d\r\n", len(purge))
	before := r.digest()
	for name, c := range map[string]struct {
		raw  string
		want []int // 0 is no answer
	}{
		"garbage":                    {"\x16\x03\x01\x00\xa5\x01\x00\x00", []int{400, 0}},
		"no version":                 {"GET /v1/status\r\n\r\n", []int{400, 505, 0}},
		"an unknown version":         {"GET /v1/status HTTP/9.9\r\nHost: x\r\n\r\n", []int{400, 505}},
		"no host":                    {"GET /v1/status HTTP/1.1\r\n" + key + "\r\n", []int{400}},
		"two hosts":                  {"GET /v1/status HTTP/1.1\r\nHost: a\r\nHost: b\r\n" + key + "\r\n", []int{400}},
		"a NUL in a header":          {"GET /v1/status HTTP/1.1\r\nHost: x\r\nX-API-Key: a\x00b\r\n\r\n", []int{400}},
		"a control in a name":        {"GET /v1/status HTTP/1.1\r\nHost: x\r\nX-API\x01Key: a\r\n\r\n", []int{400}},
		"a space before the colon":   {"GET /v1/status HTTP/1.1\r\nHost: x\r\nX-API-Key : a\r\n\r\n", []int{400}},
		"a line end in the path":     {"GET /v1/status%0d%0aX-Injected:%201 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + key + "\r\n", []int{404}},
		"a line end in the id":       {"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: a%0d%0aX-Injected: 1\r\n" + key + "\r\n", []int{200}},
		"a folded header":            {"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: a\r\n X-Injected: 1\r\n" + key + "\r\n", []int{200, 400}},
		"headers without end":        {"GET /v1/status HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-Filler: "+strings.Repeat("a", 1000)+"\r\n", 200), []int{431}},
		"one long header":            {"GET /v1/status HTTP/1.1\r\nHost: x\r\nX-API-Key: " + strings.Repeat("a", 200_000), []int{431}},
		"a long path":                {"GET /v1/" + strings.Repeat("a", 200_000), []int{414, 431}},
		"a key of another shape":     {"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-API-Key: ' or 1=1 --\r\n\r\n", []int{401}},
		"a bearer of nothing":        {"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer \r\n\r\n", []int{401}},
		"another method":             {"BREW /v1/dlq HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + key + "\r\n", []int{404, 405}},
		"a tunnel":                   {"CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\nConnection: close\r\n" + key + "\r\n", []int{400, 404, 405}},
		"two lengths":                {post(key+length+"Content-Length: 0\r\n", purge), []int{400}},
		"a negative length":          {post(key+"Content-Length: -1\r\n", purge), []int{400}},
		"an unknown encoding":        {post(key+"Transfer-Encoding: gzip\r\n", purge), []int{400, 501}},
		"a broken chunk":             {post(key+"Transfer-Encoding: chunked\r\n", "zz\r\n"+purge), []int{400}},
		"a chunk of the whole world": {post(key+"Transfer-Encoding: chunked\r\n", "ffffffffffffffff\r\n"+purge), []int{400, 413}},
		"chunks beyond the limit":    {post(key+"Transfer-Encoding: chunked\r\n", strings.Repeat("4000\r\n"+strings.Repeat(" ", 0x4000)+"\r\n", 80)+"0\r\n\r\n"), []int{413}},
		"a length beyond the limit":  {post(key+"Content-Length: 99999999999\r\n", "{"), []int{400, 413, 0}},
		"half a body and no more":    {post(key+"Content-Length: 500\r\n", purge), []int{400, 0}},
		"a body without a key":       {post(length, purge), []int{401}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(40 * time.Second)); err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = io.WriteString(conn, c.raw)                                                  // the server may answer before it has read all
				if half, is := conn.(*net.TCPConn); is && !slices.Contains(c.want, http.StatusOK) { // who goes away is not answered
					_ = half.CloseWrite()
				}
			}()
			status := 0
			if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				status = resp.StatusCode
				resp.Body.Close()
				for header, values := range resp.Header {
					if header == "X-Injected" || strings.ContainsAny(strings.Join(values, ""), "\r\n") {
						t.Errorf("the answer has the header %s: %q", header, values)
					}
				}
			}
			if !slices.Contains(c.want, status) {
				t.Errorf("status %d, want one of %v", status, c.want)
			}
		})
	}
	if after := r.digest(); after != before {
		t.Errorf("something changed:\n%s", difference(before, after))
	}
	resp, err := http.Get("http://" + server.Addr() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the server says %d", resp.StatusCode)
	}
}

// TestSlowRequests: a client that sends headers or body slowly loses its connection, and other clients do not notice.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	server := r.listen(nil)
	beginnings := map[string]string{
		"headers": "POST /v1/dlq/requeue HTTP/1.1\r\nHost: x\r\n", // and no end of them
		"body":    "POST /v1/dlq/requeue HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-API-Key: " + r.keys["redrive"] + "\r\nContent-Length: 100\r\n\r\n{",
	}
	var slow []net.Conn
	for range 10 {
		for _, text := range beginnings {
			conn, err := net.Dial("tcp", server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			slow = append(slow, conn)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr()+"/v1/dlq/stats", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", r.keys["read"])
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("beside slow ones: %d", resp.StatusCode)
	}
	for _, conn := range slow {
		if err := conn.SetReadDeadline(time.Now().Add(40 * time.Second)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil {
			t.Fatalf("a slow client still has its connection: %v", err)
		}
		if len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
			t.Errorf("a slow client was told %q", answer)
		}
	}
}

// TestLargeRequests: who sends too much is told so, by the server and by the API.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	server := r.listen(func(c *httpapi.Config) { c.MaxBody = 1000 })
	for _, path := range []string{"/v1/dlq/requeue", "/v1/operations"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+server.Addr()+path, strings.NewReader(strings.Repeat(" ", 5000)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", r.keys["redrive"])
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s with a large body: %d", path, resp.StatusCode)
		}
	}
}
