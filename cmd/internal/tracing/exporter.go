package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/postrider/postrider/cmd/internal/config"
)

// exporter tells what became of spans, and sends them with the headers that are asked for now. It keeps errors from
// OpenTelemetry's own handler, which is one for the whole process and writes to standard error. It is called by one
// goroutine at a time, as the SDK promises.
type exporter struct {
	next sdktrace.SpanExporter
	// open makes another next. The client takes headers once, so new ones need a new client.
	open    opener
	headers map[string]string
	// read is what the headers are now; nil where they never change.
	read             func() (map[string]string, error)
	log              *slog.Logger
	exported, failed prometheus.Counter
}

// opener makes what sends spans with these headers. It connects to nothing.
type opener func(ctx context.Context, headers map[string]string) (sdktrace.SpanExporter, error)

// newExporter reads the headers of the settings; the error names the fault in them.
func newExporter(ctx context.Context, c config.Tracing, open opener, log *slog.Logger, reg prometheus.Registerer) (*exporter, error) {
	headers, err := c.HeaderMap()
	if err != nil {
		return nil, err
	}
	next, err := open(ctx, headers)
	if err != nil {
		return nil, err
	}
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_tracing_spans_total",
		Help: "Spans that left the queue, by outcome: exported, or failed. Spans that the full queue dropped are not in it."}, []string{"outcome"})
	if reg != nil {
		reg.MustRegister(spans)
	}
	e := &exporter{next: next, open: open, headers: headers, log: log, exported: spans.WithLabelValues("exported"), failed: spans.WithLabelValues("failed")}
	if c.HeadersFile != "" {
		e.read = c.HeaderMap
	}
	return e, nil
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.renew(ctx); err != nil {
		e.log.Warn("spans go on with the headers that were read before", "err", err)
	}
	if err := e.next.ExportSpans(ctx, spans); err != nil {
		e.failed.Add(float64(len(spans)))
		e.log.Warn("spans were not exported", "spans", len(spans), "err", e.hide(err.Error()))
		return nil
	}
	e.exported.Add(float64(len(spans)))
	return nil
}

// renew takes the headers that the file has now.
func (e *exporter) renew(ctx context.Context) error {
	if e.read == nil {
		return nil
	}
	headers, err := e.read()
	if err != nil || maps.Equal(headers, e.headers) {
		return err
	}
	next, err := e.open(ctx, headers)
	if err != nil {
		return fmt.Errorf("make a client with other headers: %w", err)
	}
	_ = e.next.Shutdown(ctx) // it sends nothing any more, and could only say that ctx has ended
	e.next, e.headers = next, headers
	return nil
}

// hide takes the values of the headers out of an answer of the collector, because the answer may well repeat them. Of a
// value like Bearer TOKEN it also takes out the token alone.
func (e *exporter) hide(text string) string {
	var secrets, hide []string
	for _, value := range e.headers {
		_, token, _ := strings.Cut(value, " ")
		secrets = append(secrets, value, token)
	}
	// The longest first: what one has in common with a longer one would leave the rest of that.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, secret := range secrets {
		if secret != "" {
			hide = append(hide, secret, "xxxxx")
		}
	}
	return strings.NewReplacer(hide...).Replace(text)
}

// Shutdown implements sdktrace.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error { return e.next.Shutdown(ctx) }
