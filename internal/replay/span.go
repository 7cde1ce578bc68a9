package replay

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/tracecontext"
)

// span is the span of a Run. It links to the traces of the first messages that it sends, which go on in these. The zero
// value is none.
type span struct {
	span  trace.Span
	links int
}

// begin begins it, where the replay makes spans, for so many offsets that are left to look at.
func (s *span) begin(ctx context.Context, r *Replay, offsets int64) context.Context {
	if r.tracer == nil {
		return ctx
	}
	o := &r.options
	ctx, s.span = r.tracer.Start(ctx, tracecontext.SpanReplay, trace.WithAttributes(
		attribute.String("replay.from", o.From), attribute.String("replay.to", o.To), attribute.String("replay.run", tracecontext.Text(o.run())),
		attribute.Int64("replay.offsets", offsets)))
	return ctx
}

// sent notes a message that was acknowledged.
func (s *span) sent(m *relay.Message) {
	if s.span == nil || s.links == tracecontext.MaxLinks || !s.span.IsRecording() {
		return
	}
	if from := tracecontext.Of(m.Headers); from.IsSampled() {
		s.span.AddLink(trace.Link{SpanContext: from})
		s.links++
	}
}

// end ends it with what was done, and what it failed with.
func (s *span) end(r *Result, err error) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.Int64("replay.sent", r.Sent), attribute.Int64("replay.skipped", r.Left()),
		attribute.Int64("replay.not_matching", r.NotMatching),
		attribute.Int64("replay.missed", r.Missed), attribute.Int64("replay.remaining", r.Remaining))
	if err != nil {
		tracecontext.Fail(s.span, code(err), err.Error())
	}
	s.span.End()
}

// code says in one word why a Run ended early.
func code(err error) string {
	refusal, refused := errors.AsType[*Refusal](err)
	switch {
	case refused:
		return refusal.Code
	case errors.Is(err, ErrNoBroker):
		return "NO_BROKERS"
	case errors.Is(err, ErrTakenOver):
		return "TAKEN_OVER"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "STOPPED"
	}
	return relay.CodeOther
}
