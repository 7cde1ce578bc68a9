package tracing

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kotel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
)

// kafkaRecords makes spans by kotel, of records whose trace is recorded and of no others. kotel alone would begin a trace
// for each of the others, and write its own span into each traceparent. The writer of a record decides what it says of its
// trace, so kotel gets a propagator that does nothing, and the parent from here.
type kafkaRecords struct{ next *kotel.Tracer }

var (
	_ kgo.HookProduceRecordBuffered   = kafkaRecords{}
	_ kgo.HookProduceRecordUnbuffered = kafkaRecords{}
	_ kgo.HookFetchRecordBuffered     = kafkaRecords{}
	_ kgo.HookFetchRecordUnbuffered   = kafkaRecords{}
)

// KafkaRecords makes a span of each record while a client has it, under the span that its traceparent names: "TOPIC
// publish" until it is acknowledged or has failed, with partition and offset, and "TOPIC receive" from when it is fetched
// until it is polled. Headers stay as they are. A record with a span has a context of its own around the one that it
// had. Key and value are not in it. clientID and group are attributes; group may be empty.
func KafkaRecords(p trace.TracerProvider, clientID, group string) kgo.Opt {
	noKey := func(*kgo.Record) (string, error) { return "", errNoKey }
	return kgo.WithHooks(kafkaRecords{kotel.NewTracer(kotel.TracerProvider(p), kotel.TracerPropagator(propagation.NewCompositeTextMapPropagator()),
		kotel.KeyFormatter(noKey), kotel.ClientID(tracecontext.Text(clientID)), kotel.ConsumerGroup(tracecontext.Text(group)))})
}

var errNoKey = errors.New("keys are not shown")

// ofHook marks the context of a record that has a span of ours: kotel ends whatever span it finds there.
type ofHook struct{}

// begin prepares the context of a record for kotel, where it gets a span.
func begin(r *kgo.Record) bool {
	var says []message.Header
	for i := range r.Headers {
		if h := &r.Headers[i]; h.Key == tracecontext.Header || h.Key == tracecontext.HeaderState {
			says = append(says, message.Header{Name: h.Key, Value: h.Value})
		}
	}
	from := tracecontext.Of(says)
	if !from.IsSampled() {
		return false
	}
	if r.Context == nil {
		r.Context = context.Background()
	}
	r.Context = trace.ContextWithRemoteSpanContext(context.WithValue(r.Context, ofHook{}, true), from)
	return true
}

func begun(r *kgo.Record) bool { return r.Context != nil && r.Context.Value(ofHook{}) != nil }

// OnProduceRecordBuffered implements kgo.HookProduceRecordBuffered.
func (k kafkaRecords) OnProduceRecordBuffered(r *kgo.Record) {
	if begin(r) {
		k.next.OnProduceRecordBuffered(r)
	}
}

// OnProduceRecordUnbuffered implements kgo.HookProduceRecordUnbuffered.
func (k kafkaRecords) OnProduceRecordUnbuffered(r *kgo.Record, err error) {
	if begun(r) {
		k.next.OnProduceRecordUnbuffered(r, err)
	}
}

// OnFetchRecordBuffered implements kgo.HookFetchRecordBuffered.
func (k kafkaRecords) OnFetchRecordBuffered(r *kgo.Record) {
	if begin(r) {
		k.next.OnFetchRecordBuffered(r)
	}
}

// OnFetchRecordUnbuffered implements kgo.HookFetchRecordUnbuffered.
func (k kafkaRecords) OnFetchRecordUnbuffered(r *kgo.Record, polled bool) {
	if begun(r) {
		k.next.OnFetchRecordUnbuffered(r, polled)
	}
}
