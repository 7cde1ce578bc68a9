package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/pgtest"

	"github.com/postrider/postrider/cmd/internal/obs"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// start serves until the test ends and returns the server and its base URL.
func start(t *testing.T, cfg Config) (*Server, string) {
	t.Helper()
	cfg.Address = "127.0.0.1:0"
	cfg.Metrics = obs.NewRegistry()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		for range 2 {
			if err := s.Stop(context.Background()); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, "http://" + s.Addr()
}

// get uses a connection of its own, so that none stays behind.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func ready(t *testing.T, url string) (int, answer) {
	t.Helper()
	status, body := get(t, url+"/readyz")
	var a answer
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return status, a
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	var log strings.Builder
	s, url := start(t, Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Checks: []Check{
			{Name: "database", Run: func(context.Context) error { return nil }},
			{Name: "kafka", Run: func(context.Context) error {
				if broken.Load() {
					return errors.New("dial secret-host:9092: refused")
				}
				return nil
			}, Remedy: "look at the brokers"},
		},
	})
	if status, a := ready(t, url); status != http.StatusOK || !a.Ready || a.Message != "ready" || !a.Checks["database"].OK || !a.Checks["kafka"].OK {
		t.Errorf("all well: %d %+v", status, a)
	}
	broken.Store(true)
	for range 2 {
		status, a := ready(t, url)
		if status != http.StatusServiceUnavailable || a.Ready || !a.Checks["database"].OK || a.Checks["kafka"].OK {
			t.Errorf("kafka away: %d %+v", status, a)
		}
		if strings.Contains(a.Checks["kafka"].Error, "secret-host") || a.Checks["kafka"].Error == "" {
			t.Errorf("kafka away: error %q", a.Checks["kafka"].Error)
		}
		if want := `not ready: kafka: failed; the log of this process says why ("not ready"); look at the brokers`; a.Message != want || a.Checks["kafka"].Remedy != "look at the brokers" || a.Checks["database"].Remedy != "" {
			t.Errorf("kafka away: %+v, want the message %q", a, want)
		}
	}
	if status, _ := get(t, url+"/livez"); status != http.StatusOK {
		t.Errorf("livez with a broken dependency: %d", status)
	}
	broken.Store(false)
	if status, _ := ready(t, url); status != http.StatusOK {
		t.Errorf("kafka back: %d", status)
	}
	s.Drain()
	if status, a := ready(t, url); status != http.StatusServiceUnavailable || !a.Stopping || !a.Checks["kafka"].OK || a.Message != "not ready: this process is stopping; ask another one" {
		t.Errorf("stopping: %d %+v", status, a)
	}
	if status, _ := get(t, url+"/livez"); status != http.StatusOK {
		t.Errorf("livez while stopping: %d", status)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if strings.Count(log.String(), "not ready") != 1 || strings.Count(log.String(), "ready again") != 1 || !strings.Contains(log.String(), "secret-host") {
		t.Errorf("the log should say once each that kafka went and came back, and why:\n%s", log.String())
	}
}

// Checks that hang are bounded, run at the same time, and are not started again while they hang.
func TestReadinessIsBounded(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	release := make(chan struct{})
	defer close(release)
	_, url := start(t, Config{CheckTimeout: 50 * time.Millisecond, Checks: []Check{
		{Name: "waits", Run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		{Name: "hangs", Run: func(context.Context) error { calls.Add(1); <-release; return nil }},
	}})
	began := time.Now()
	for range 3 {
		status, a := ready(t, url)
		if status != http.StatusServiceUnavailable {
			t.Errorf("status %d", status)
		}
		for _, name := range []string{"waits", "hangs"} {
			if c := a.Checks[name]; c.OK || c.Error != "no answer within 50ms" {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("three answers took %v", took)
	}
	if calls.Load() != 1 {
		t.Errorf("the check that hangs was called %d times", calls.Load())
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	_, url := start(t, Config{})
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 200, "/": 404, "/livez/x": 404} {
		if status, _ := get(t, url+path); status != want {
			t.Errorf("GET %s: %d, want %d", path, status, want)
		}
	}
	if _, body := get(t, url+"/metrics"); !strings.Contains(body, "postrider_build_info{") {
		t.Errorf("metrics without build info:\n%.300s", body)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Post(url+"/livez", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /livez: %d", response.StatusCode)
	}
}

// A request that never finishes does not keep Stop from ending.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	s, _ := start(t, Config{})
	connection, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow:"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = s.Stop(ctx)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("Stop took %v", took)
	}
}

// http.Server waits five seconds for a client that has connected and asked nothing: longer than a stop has.
func TestStopDoesNotWaitForThoseWhoAskNothing(t *testing.T) {
	t.Parallel()
	s, base := start(t, Config{})
	connection, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if status, _ := get(t, base+"/livez"); status != http.StatusOK { // the server has seen the earlier connection by then
		t.Fatalf("GET /livez: %d", status)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Address: "127.0.0.1:0", Metrics: obs.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Address: s.Addr(), Metrics: obs.NewRegistry()}); err == nil || !strings.Contains(err.Error(), s.Addr()) {
		t.Errorf("an address in use: %v", err)
	}
	if err := s.Stop(context.Background()); err != nil { // never served
		t.Error(err)
	}
	if _, err := New(Config{Address: "127.0.0.1:0"}); err == nil {
		t.Error("no metrics: accepted")
	}
}

// TestRootOfTheAPI: the root of the API answers as the API does, without a redirect.
func TestRootOfTheAPI(t *testing.T) {
	t.Parallel()
	_, url := start(t, Config{API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"/v1", "/v1/", "/api", "/api/", "/api/v1"} {
		response, err := client.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusTeapot {
			t.Errorf("%s answers %s", path, response.Status)
		}
	}
}
