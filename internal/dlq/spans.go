package dlq

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/tracecontext"
)

func tracerOf(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer("github.com/postrider/postrider/internal/dlq")
}

// opening begins the spans of the letters whose traces are recorded. They are the last spans of these traces until the
// messages are redriven.
func (c *Collector) opening(letters []Letter) []trace.Span {
	if c.tracer == nil {
		return nil
	}
	var spans []trace.Span
	for i := range letters {
		l := &letters[i]
		from := tracecontext.Of(l.Headers)
		if !from.IsSampled() {
			continue
		}
		_, span := c.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), from), "dlq.open",
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(tracecontext.Processing(l.DLQTopic)...), trace.WithAttributes(tracecontext.At(l.DLQPartition, l.DLQOffset)...),
			trace.WithAttributes(attribute.String("dlq.letter_id", tracecontext.Text(l.ID)),
				attribute.String("dlq.subject_type", string(l.Subject.Type)),
				attribute.String("dlq.subject_id", tracecontext.Text(l.Subject.ID)), attribute.String("dlq.reason", string(l.Reason)),
				attribute.String("dlq.error_code", tracecontext.Text(l.ErrorCode))))
		spans = append(spans, span)
	}
	return spans
}

// within is the context for recording the letters. Work that is done for all of them at once can be in one trace only,
// and is in the trace of the first.
func within(ctx context.Context, spans []trace.Span) context.Context {
	if len(spans) == 0 {
		return ctx
	}
	return trace.ContextWithSpan(ctx, spans[0])
}

// opened ends them. Each span has the numbers of all letters that were recorded together.
func opened(spans []trace.Span, r Recorded, err error) {
	for _, span := range spans {
		span.SetAttributes(attribute.Int("dlq.opened", r.Opened), attribute.Int("dlq.added", r.Added), attribute.Int("dlq.repeated", r.Repeated))
		if err != nil {
			tracecontext.Fail(span, "NOT_RECORDED", err.Error())
		}
		span.End()
	}
}
