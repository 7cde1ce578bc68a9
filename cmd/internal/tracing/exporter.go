package tracing

import (
	"context"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// exporter tells what became of spans. It keeps errors from OpenTelemetry's own handler, which is one for the whole
// process and writes to standard error.
type exporter struct {
	sdktrace.SpanExporter
	log              *slog.Logger
	hide             *strings.Replacer
	exported, failed prometheus.Counter
}

// newExporter hides the values of the headers in what the collector answers, which it may well repeat.
func newExporter(next sdktrace.SpanExporter, headers map[string]string, log *slog.Logger, reg prometheus.Registerer) *exporter {
	var hide []string
	for _, value := range headers {
		if value != "" {
			hide = append(hide, value, "xxxxx")
		}
	}
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_tracing_spans_total",
		Help: "Spans that left the queue, by outcome: exported, or failed. What the full queue dropped is not in it."}, []string{"outcome"})
	if reg != nil {
		reg.MustRegister(spans)
	}
	return &exporter{next, log, strings.NewReplacer(hide...), spans.WithLabelValues("exported"), spans.WithLabelValues("failed")}
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.failed.Add(float64(len(spans)))
		e.log.Warn("spans were not exported", "spans", len(spans), "err", e.hide.Replace(err.Error()))
		return nil
	}
	e.exported.Add(float64(len(spans)))
	return nil
}
