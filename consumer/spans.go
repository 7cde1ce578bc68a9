package consumer

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/tracecontext"
)

// tracing makes the consumer's spans. nil makes none, and a message then costs one comparison.
type tracing struct {
	tracer trace.Tracer
	group  string
}

func newTracing(cfg *Config) *tracing {
	if cfg.TracerProvider == nil {
		return nil
	}
	return &tracing{cfg.TracerProvider.Tracer("github.com/postrider/postrider/consumer"), tracecontext.Text(cfg.Group)}
}

// process begins the span of an attempt, in the trace that the message is of; the handler sees it in its context.
func (t *tracing) process(ctx context.Context, m *Message) (context.Context, trace.Span) {
	ctx, s := t.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, tracecontext.Of(m.Headers)), "process "+m.Topic,
		trace.WithSpanKind(trace.SpanKindConsumer))
	if s.IsRecording() {
		s.SetAttributes(tracecontext.Processing(m.Topic)...)
		s.SetAttributes(tracecontext.At(m.Partition, m.Offset)...)
		s.SetAttributes(tracecontext.KeyConsumerGroup.String(t.group), attribute.Int("postrider.attempt", m.Attempt()))
		if id := m.EventID(); id != "" {
			s.SetAttributes(tracecontext.MessageID(id))
		}
	}
	at := s.SpanContext()
	m.traced = &at
	return ctx, s
}

// processBatch begins the span of a batch, which links to the traces of its messages.
func (t *tracing) processBatch(ctx context.Context, ms []*Message) (context.Context, trace.Span) {
	var links []trace.Link
	for _, m := range ms {
		if from := tracecontext.Of(m.Headers); from.IsSampled() && len(links) < tracecontext.MaxLinks {
			links = append(links, trace.Link{SpanContext: from})
		}
	}
	return t.tracer.Start(ctx, "process "+ms[0].Topic, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(tracecontext.Processing(ms[0].Topic)...),
		trace.WithAttributes(tracecontext.KeyConsumerGroup.String(t.group), tracecontext.KeyBatchMessages.Int(len(ms))))
}

func endProcess(s trace.Span, err error) {
	if _, early := errors.AsType[*earlyError](err); err != nil && !early && s.IsRecording() {
		tracecontext.Fail(s, codeOf(err), err.Error())
	}
	s.End()
}

// hop is the span of writing a failed message to where it goes; one without a span does nothing.
type hop struct{ s trace.Span }

// hop begins it, under the attempt that failed.
func (t *tracing) hop(m *Message, topic string) hop {
	if t == nil {
		return hop{}
	}
	from := tracecontext.Of(m.Headers)
	if m.traced != nil {
		from = *m.traced
	}
	_, s := t.tracer.Start(trace.ContextWithSpanContext(context.Background(), from), "publish "+topic, trace.WithSpanKind(trace.SpanKindProducer))
	return hop{s}
}

// mark returns the record with this span as its traceparent, so that the trace goes on at its reader. A record without
// a traceparent gets one only where it may grow.
func (h hop) mark(r Record, grow bool) Record {
	if h.s == nil {
		return r
	}
	h.s.SetName("publish " + r.Topic)
	h.s.SetAttributes(tracecontext.Sending(r.Topic)...)
	if grow || tracecontext.Of(r.Headers).IsValid() {
		r.Headers = tracecontext.With(r.Headers, h.s.SpanContext())
	}
	return r
}

func (h hop) end(left, tooLarge bool) {
	if h.s == nil {
		return
	}
	switch {
	case tooLarge:
		tracecontext.Fail(h.s, "TOO_LARGE", "the record is too large for the retry topic; the message is tried again in its own")
	case !left:
		tracecontext.Fail(h.s, "NOT_WRITTEN", "the partition was taken away before the record was acknowledged")
	}
	h.s.End()
}
