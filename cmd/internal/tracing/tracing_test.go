package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) {
	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(m) }))
}

// collector takes OTLP over HTTP, and answers with status.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	spans    []string
	service  []string
}

func newCollector(t *testing.T, status int) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var request tracepb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(raw, &request)
		}
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests = append(c.requests, r)
		if status != http.StatusOK {
			http.Error(w, "who is "+r.Header.Get("Authorization")+"?", status)
			return
		}
		for _, of := range request.GetResourceSpans() {
			for _, a := range of.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					c.service = append(c.service, a.GetValue().GetStringValue())
				}
			}
			for _, scope := range of.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					c.spans = append(c.spans, s.GetName())
				}
			}
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(c.Close)
	return c
}

func logger() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

func start(p trace.TracerProvider, name string) {
	_, span := p.Tracer("test").Start(context.Background(), name)
	span.End()
}

func TestOff(t *testing.T) {
	log, _ := logger()
	for name, c := range map[string]struct {
		enabled bool
		env     [2]string
	}{"default": {}, "OTEL_SDK_DISABLED": {true, [2]string{"OTEL_SDK_DISABLED", "true"}}, "OTEL_TRACES_EXPORTER": {true, [2]string{"OTEL_TRACES_EXPORTER", "none"}}} {
		t.Run(name, func(t *testing.T) {
			if c.env[0] != "" {
				t.Setenv(c.env[0], c.env[1])
			}
			tr, err := New(t.Context(), config.Tracing{Enabled: c.enabled}, Options{Logger: log})
			if err != nil || tr.Provider() != nil || tr.Stop(t.Context()) != nil {
				t.Errorf("%v, %v", tr, err)
			}
		})
	}
}

// A setting goes before OpenTelemetry's variable. When neither is set, the value has its default.
func TestSpansArrive(t *testing.T) {
	log, _ := logger()
	for name, c := range map[string]struct {
		settings           func(url string) config.Tracing
		env                func(url string) map[string]string
		path, service, key string
	}{
		"settings": {func(url string) config.Tracing {
			return config.Tracing{Endpoint: url, Headers: "x-key=a%2Cb, x-other=1", ServiceName: "mine"}
		}, func(string) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SERVICE_NAME": "theirs"}
		}, "/v1/traces", "mine", "a,b"},
		"a path": {func(url string) config.Tracing { return config.Tracing{Endpoint: url + "/otel/in"} }, nil, "/otel/in", "postrider", ""},
		"variables": {func(string) config.Tracing { return config.Tracing{} }, func(url string) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SERVICE_NAME": "theirs", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=k"}
		}, "/v1/traces", "theirs", "k"},
	} {
		t.Run(name, func(t *testing.T) {
			to := newCollector(t, http.StatusOK)
			if c.env != nil {
				for k, v := range c.env(to.URL) {
					t.Setenv(k, v)
				}
			}
			settings, reg := c.settings(to.URL), prometheus.NewRegistry()
			settings.Enabled, settings.SamplePercent = true, 100
			tr, err := New(t.Context(), settings, Options{Logger: log, Registerer: reg, Version: "v1"})
			if err != nil {
				t.Fatal(err)
			}
			start(tr.Provider(), "one")
			start(tr.Provider(), "two")
			if err := tr.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if !slices.Equal(to.spans, []string{"one", "two"}) || to.requests[0].URL.Path != c.path || to.service[0] != c.service || to.requests[0].Header.Get("X-Key") != c.key {
				t.Errorf("spans %q at %s of %q with the key %q", to.spans, to.requests[0].URL.Path, to.service, to.requests[0].Header.Get("X-Key"))
			}
			if err := testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf("%s%s", `# HELP postrider_tracing_spans_total Spans that left the queue, by outcome: exported, or failed. Spans that the full queue dropped are not in it.
# TYPE postrider_tracing_spans_total counter
`, "postrider_tracing_spans_total{outcome=\"exported\"} 2\npostrider_tracing_spans_total{outcome=\"failed\"} 0\n"))); err != nil {
				t.Error(err)
			}
		})
	}
}

// The settings say how many of the relay's own traces are recorded. A recorded trace of another program goes on.
func TestSampling(t *testing.T) {
	log, _ := logger()
	to := newCollector(t, http.StatusOK)
	for name, c := range map[string]struct {
		percent int
		sampler string
		own     bool
	}{"none": {0, "", false}, "all": {100, "", true}, "OTEL_TRACES_SAMPLER": {0, "always_on", true}} {
		t.Run(name, func(t *testing.T) {
			if c.sampler != "" {
				t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
			}
			tr, err := New(t.Context(), config.Tracing{Enabled: true, Endpoint: to.URL, SamplePercent: c.percent}, Options{Logger: log})
			if err != nil {
				t.Fatal(err)
			}
			tracer := tr.Provider().Tracer("test")
			_, own := tracer.Start(t.Context(), "own")
			writer := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true})
			_, theirs := tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), writer), "theirs")
			if own.SpanContext().IsSampled() != c.own || !theirs.SpanContext().IsSampled() {
				t.Errorf("own %v, theirs %v", own.SpanContext().IsSampled(), theirs.SpanContext().IsSampled())
			}
			own.End()
			theirs.End()
			if err := tr.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// An action that a caller asked for is recorded with all spans under it, whatever the settings say of batches. Within a
// trace that is not recorded, it is not recorded either.
func TestWhatWasAskedForIsRecorded(t *testing.T) {
	log, _ := logger()
	to := newCollector(t, http.StatusOK)
	tr, err := New(t.Context(), config.Tracing{Enabled: true, Endpoint: to.URL}, Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	tracer := tr.Provider().Tracer("test")
	asked := []string{"outbox.processPending", "outbox.processRetries", "outbox.cleanup", "outbox.dlqStats", "redrive", "replay"}
	for _, name := range append([]string{"outbox.batch", "publish orders"}, asked...) {
		ctx, span := tracer.Start(t.Context(), name)
		if got := span.SpanContext().IsSampled(); got != slices.Contains(asked, name) {
			t.Errorf("%s is recorded: %v", name, got)
		}
		_, below := tracer.Start(ctx, "outbox.batch")
		if below.SpanContext().IsSampled() != span.SpanContext().IsSampled() {
			t.Errorf("what is under %s is recorded: %v", name, below.SpanContext().IsSampled())
		}
		below.End()
		span.End()
	}
	caller := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, Remote: true})
	_, span := tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), caller), "redrive")
	if span.SpanContext().IsSampled() {
		t.Error("a redrive is recorded in a trace that is not")
	}
	span.End()
	if err := tr.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if len(to.spans) != 2*len(asked) {
		t.Errorf("exported are %q", to.spans)
	}
}

// A collector that refuses, is away or does not answer costs its spans and a line in the log; a stop is not longer than
// its bound, and nothing is said of the key.
func TestFailuresDisturbNothing(t *testing.T) {
	const key = "sentinel-key"
	silent := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-silent
	}))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(silent) })
	refuses := newCollector(t, http.StatusForbidden)
	for name, c := range map[string]struct{ url, says string }{
		"refuses": {refuses.URL, "who is xxxxx?"}, "away": {"http://127.0.0.1:1", "not exported"}, "silent": {hangs.URL, "before the stop"},
	} {
		t.Run(name, func(t *testing.T) {
			log, said := logger()
			tr, err := New(t.Context(), config.Tracing{Enabled: true, Endpoint: c.url, SamplePercent: 100, Headers: "authorization=" + key}, Options{Logger: log})
			if err != nil {
				t.Fatal(err)
			}
			for range 5000 { // more than the queue takes
				start(tr.Provider(), "one")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if err := tr.Stop(ctx); err != nil {
				t.Error(err)
			}
			if !strings.Contains(said.String(), c.says) || strings.Contains(said.String(), key) {
				t.Errorf("log: %.500s", said.String())
			}
		})
	}
}

// When the file of headers is replaced, the new headers count from the next export on. While the file is away or wrong, the
// headers from before count. When the collector repeats a header, the log does not say it.
func TestHeadersAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	put := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for status, outcome := range map[int]string{http.StatusOK: "exported", http.StatusForbidden: "failed"} {
		t.Run(outcome, func(t *testing.T) {
			put("authorization=Bearer%20first-" + sentinel + "\n")
			log, said := logger()
			to, reg := newCollector(t, status), prometheus.NewRegistry()
			tr, err := New(t.Context(), config.Tracing{Enabled: true, Endpoint: to.URL, SamplePercent: 100, HeadersFile: path}, Options{Logger: log, Registerer: reg})
			if err != nil {
				t.Fatal(err)
			}
			export := func() {
				t.Helper()
				start(tr.Provider(), "one")
				if err := tr.provider.ForceFlush(t.Context()); err != nil {
					t.Error(err)
				}
			}
			export()
			put("authorization=second-" + sentinel)
			export()
			export()
			put("broken-" + sentinel)
			export()
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			export()
			put("authorization=third-" + sentinel)
			export()
			if err := tr.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			var got []string
			for _, r := range to.requests {
				got = append(got, strings.TrimSuffix(r.Header.Get("Authorization"), "-"+sentinel))
			}
			if want := []string{"Bearer first", "second", "second", "second", "second", "third"}; !slices.Equal(got, want) {
				t.Errorf("the collector was shown %q, want %q", got, want)
			}
			if n := strings.Count(said.String(), "spans go on with the headers that were read before"); n != 2 || !strings.Contains(said.String(), "header 1 is not name=value") ||
				!strings.Contains(said.String(), "the file "+path+" cannot be read") || strings.Contains(said.String(), sentinel) {
				t.Errorf("log: %s", said)
			}
			if repeated := strings.Count(said.String(), "who is xxxxx?"); (repeated == 6) != (status != http.StatusOK) {
				t.Errorf("%d refusals are said: %s", repeated, said)
			}
			families, err := reg.Gather()
			if err != nil || len(families) != 1 {
				t.Fatalf("%v, %v", families, err)
			}
			for _, m := range families[0].GetMetric() {
				if want := map[bool]float64{true: 6}[m.GetLabel()[0].GetValue() == outcome]; m.GetCounter().GetValue() != want {
					t.Errorf("%v, want %v", m, want)
				}
			}
		})
	}
}

func TestHide(t *testing.T) {
	t.Parallel()
	e := &exporter{headers: map[string]string{"authorization": "Bearer abcdef", "x-key": "abc", "x-empty": ""}}
	for text, want := range map[string]string{
		"no Bearer abcdef here": "no xxxxx here", "abcdef has expired": "xxxxx has expired", "abc, abcdef": "xxxxx, xxxxx", "Bearer of news": "Bearer of news", "": "",
	} {
		if got := e.hide(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	log, _ := logger()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	_, err := New(t.Context(), config.Tracing{Enabled: true}, Options{Logger: log})
	if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_PROTOCOL") || !strings.Contains(err.Error(), "4318") {
		t.Errorf("%v", err)
	}
	if _, err := New(t.Context(), config.Tracing{}, Options{Logger: log}); err != nil {
		t.Errorf("off: %v", err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "")
	_, err = New(t.Context(), config.Tracing{Enabled: true, HeadersFile: filepath.Join(t.TempDir(), "none")}, Options{Logger: log})
	if err == nil || !strings.HasPrefix(err.Error(), "tracing: tracing.headers_file: the file ") || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("without the file: %v", err)
	}
}
