package relay

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/tracecontext"
)

// tracing makes the relay's spans. nil makes none, and so do the passes and sendings that come of it: a batch then costs
// a few comparisons, and an event nothing.
type tracing struct{ tracer trace.Tracer }

func newTracing(p trace.TracerProvider) *tracing {
	if p == nil {
		return nil
	}
	return &tracing{p.Tracer("github.com/postrider/postrider/internal/relay")}
}

// figures are what a span says of an action.
type figures struct {
	action                                            string
	batch, processed, succeeded, failed, deadLettered int
}

func (f figures) attributes(took time.Duration) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("outbox.action", f.action), attribute.Int("outbox.batch_size", f.batch),
		attribute.Int("outbox.processed", f.processed), attribute.Int("outbox.succeeded", f.succeeded),
		attribute.Int("outbox.failed", f.failed), attribute.Int("outbox.dead_lettered", f.deadLettered),
		attribute.Float64("outbox.duration_ms", float64(took.Microseconds())/1000),
	}
}

// end ends the span of an action with what it did, and what it failed with.
func (f figures) end(span trace.Span, began time.Time, err error) {
	if span.IsRecording() {
		span.SetAttributes(f.attributes(time.Since(began))...)
		if err != nil {
			tracecontext.Fail(span, errorCode(err), err.Error())
		}
	}
	span.End()
}

func errorCode(err error) string {
	if e, ok := errors.AsType[*StoreError](err); ok {
		return e.Code
	}
	if errors.Is(err, ErrNoBrokers) {
		return "NO_BROKERS"
	}
	return CodeOther
}

// begin begins the span of an action; began is when it did.
func (t *tracing) begin(ctx context.Context, name string, began time.Time) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, "outbox."+name, trace.WithTimestamp(began))
}

// record makes the span of an action that has ended.
func (t *tracing) record(ctx context.Context, began time.Time, f figures, err error) {
	if t == nil {
		return
	}
	_, span := t.begin(ctx, f.action, began)
	f.end(span, began, err)
}

// act begins the span of an action that was called; the batches that it works on belong to the span. The function that act
// returns ends the span.
func (t *tracing) act(ctx context.Context, action Action) (context.Context, func(ActionResult, error)) {
	if t == nil {
		return ctx, func(ActionResult, error) {}
	}
	began := time.Now()
	ctx, span := t.begin(ctx, string(action), began)
	return ctx, func(r ActionResult, err error) {
		figures{string(action), r.BatchSize, r.Processed, r.Succeeded, r.Failed, r.DeadLettered}.end(span, began, err)
	}
}

// pass is the spans of one claim: outbox.batch or outbox.dead_letter, and in it outbox.claim, outbox.publish and
// outbox.settle.
type pass struct {
	*tracing
	ctx   context.Context
	span  trace.Span
	began time.Time
	figures
	settling      trace.Span
	settlingSince time.Time
}

// pass begins at began, for events that were claimed at the time claimed.
func (t *tracing) pass(ctx context.Context, action, name string, began, claimed time.Time, events int) *pass {
	if t == nil {
		return nil
	}
	p := &pass{tracing: t, began: began, figures: figures{action: action, batch: events}}
	p.ctx, p.span = t.begin(ctx, name, began)
	if p.span.IsRecording() {
		_, span := t.begin(p.ctx, "claim", began)
		span.SetAttributes(figures{action: action, batch: events, processed: events, succeeded: events}.attributes(claimed.Sub(began))...)
		span.End(trace.WithTimestamp(claimed))
	}
	return p
}

// in returns the context for the work of the pass: spans that begin in this context belong to the pass.
func (p *pass) in(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, p.span)
}

// settle begins to settle, in the context that it returns.
func (p *pass) settle(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	p.settlingSince = time.Now()
	_, p.settling = p.begin(p.ctx, "settle", p.settlingSince)
	return trace.ContextWithSpan(ctx, p.settling)
}

// settled ends the span of settling with what was settled; err is the error of settling.
func (p *pass) settled(processed, succeeded, failed, deadLettered int, err error) {
	if p == nil {
		return
	}
	p.processed, p.succeeded, p.failed, p.deadLettered = processed, succeeded, failed, deadLettered
	f := p.figures
	if err != nil { // the outcome is unknown
		p.figures = figures{action: p.action, batch: p.batch}
	}
	f.end(p.settling, p.settlingSince, err)
}

// close ends the pass; err is what it failed with.
func (p *pass) close(err error) {
	if p != nil {
		p.figures.end(p.span, p.began, err)
	}
}

// sending has the span outbox.publish of a batch, and the spans of the events in it whose writers are traced.
type sending struct {
	*pass
	span   trace.Span
	began  time.Time
	events []sent
}

type sent struct {
	at   int
	span trace.Span
}

// publish begins to send. A message whose writer's trace is recorded gets a span of its own in that trace, and its
// traceparent is that span from here on, so that a reader of the record continues from there. All other messages stay as
// they are.
func (p *pass) publish(ms []Message) *sending {
	if p == nil {
		return nil
	}
	s := &sending{pass: p, began: time.Now()}
	_, s.span = p.begin(p.ctx, "publish", s.began)
	links := 0
	for i := range ms {
		writer := tracecontext.Of(ms[i].Headers)
		if !writer.IsSampled() {
			continue
		}
		span := p.send(&ms[i], writer)
		s.events = append(s.events, sent{i, span})
		if links < tracecontext.MaxLinks {
			s.span.AddLink(trace.Link{SpanContext: span.SpanContext()})
			links++
		}
	}
	return s
}

func (p *pass) send(m *Message, writer trace.SpanContext) trace.Span {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(tracecontext.Sending(m.Topic)...),
		trace.WithAttributes(tracecontext.MessageID(m.ID.EventID.String()))}
	if before := tracecontext.Replayed(m.Headers); before.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: before}))
	}
	_, span := p.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), writer), "publish "+m.Topic, options...)
	m.Headers = tracecontext.With(m.Headers, span.SpanContext())
	return span
}

// end ends the sending with its outcomes.
func (s *sending) end(outcomes []Outcome) {
	if s == nil {
		return
	}
	for _, e := range s.events {
		o := &outcomes[e.at]
		if o.Class != Delivered {
			e.span.SetAttributes(attribute.String("outbox.outcome", string(o.Class)))
			tracecontext.Fail(e.span, o.Code, o.Message)
		}
		e.span.End()
	}
	f := figures{action: s.action, batch: s.batch, processed: len(outcomes)}
	for i := range outcomes {
		switch outcomes[i].Class {
		case Delivered:
			f.succeeded++
		case Withheld: // not tried
		default:
			f.failed++
		}
	}
	f.end(s.span, s.began, nil)
}
