package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
)

func tracerOf(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer("github.com/postrider/postrider/internal/dlq/postgres")
}

// redriveSpan is the one span of all messages that a request, or a step of an operation, sends again. It is the root of
// their new traces. The zero value is no span, until it begins. All attempts at a transaction share one.
type redriveSpan struct {
	span trace.Span
	redriveOutcome
}

// redriveOutcome is what the last attempt did.
type redriveOutcome struct {
	target                 string
	operation              uuid.UUID
	entries, sent, inPlace int
	from                   []trace.SpanContext
}

// begin begins the span for so many investigations, if there is a tracer, and returns the context with the span.
func (s *redriveSpan) begin(ctx context.Context, t trace.Tracer, entries int, target string, operation uuid.UUID) context.Context {
	if t == nil {
		return ctx
	}
	if s.span == nil {
		_, s.span = t.Start(ctx, tracecontext.SpanRedrive)
	}
	s.redriveOutcome = redriveOutcome{target: target, operation: operation, entries: entries}
	return trace.ContextWithSpan(ctx, s.span)
}

// treated notes how many messages were sent, and the old traces of the first ones.
func (s *redriveSpan) treated(ctx context.Context, tx pgx.Tx, sent []*dlq.Candidate) error {
	if s.span == nil || !s.span.IsRecording() {
		return nil
	}
	s.sent, s.inPlace, s.from = len(sent), 0, nil
	for _, c := range sent {
		if c.InPlace {
			s.inPlace++
		}
	}
	if len(sent) == 0 {
		return nil
	}
	const doing = "read the traces of messages"
	letters := column(sent[:min(len(sent), tracecontext.MaxLinks)], func(c *dlq.Candidate) string { return c.Letter })
	rows, err := tx.Query(ctx, letterTraces, letters, tracecontext.Header)
	if err != nil {
		return translate(doing, err)
	}
	traceparents, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, text := range traceparents {
		if from := tracecontext.Of([]message.Header{{Name: tracecontext.Header, Value: []byte(text)}}); from.IsSampled() {
			s.from = append(s.from, from)
		}
	}
	return translate(doing, err)
}

// end ends the span; an err is the reason that nothing was sent.
func (s *redriveSpan) end(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.sent, s.inPlace, s.from = 0, 0, nil
		tracecontext.Fail(s.span, "NOT_SENT", err.Error())
	}
	s.span.SetAttributes(attribute.Int("dlq.entries", s.entries), attribute.Int("dlq.sent", s.sent), attribute.Int("dlq.in_place", s.inPlace),
		attribute.Int("dlq.skipped", s.entries-s.sent))
	if s.target != "" {
		s.span.SetAttributes(attribute.String("dlq.target", s.target))
	}
	if s.operation != uuid.Nil {
		s.span.SetAttributes(attribute.String("dlq.operation_uuid", s.operation.String()))
	}
	for _, from := range s.from {
		s.span.AddLink(trace.Link{SpanContext: from})
	}
	s.span.End()
}

// traceparentOf is the traceparent that new traces of messages begin with, for dlq_redrive_letters: the span of the
// context; nil if there is none.
func traceparentOf(ctx context.Context) *string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return nil
	}
	text := string(tracecontext.Format(sc))
	return &text
}
