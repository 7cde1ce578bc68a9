package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/postrider/postrider/consumer"
)

// IDOf is the identity of a message as Once and Process take it. It is the same in a retry topic as where the message
// was first read.
func IDOf(m *consumer.Message) string {
	origin := m.Origin()
	return IdentityOf(origin.Topic, origin.Partition, origin.Offset, origin.Timestamp, m.Headers).String()
}

// Handler returns a handler for a consumer that handles each message once; see Processor.Process. The processor's group
// must be the consumer's. Errors of handle keep their class, so a permanent one stays permanent; errors of the database
// may pass.
func Handler[T any](p *Processor[T], handle func(ctx context.Context, tx T, m *consumer.Message) error) consumer.Handler {
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		_, err := p.Process(ctx, IDOf(m), func(ctx context.Context, tx T) error { return handle(ctx, tx, m) })
		return err
	})
}

// BatchHandler is Handler for batches, each in one transaction: all messages of a batch are handled, or none is. handle
// gets the messages that are new, at least one. When handle fails, the consumer gives it each message alone, and only a
// message that fails alone has failed.
func BatchHandler[T any](p *Processor[T], handle func(ctx context.Context, tx T, ms []*consumer.Message) error) consumer.BatchHandler {
	return batchHandler[T]{p, handle}
}

type batchHandler[T any] struct {
	processor *Processor[T]
	handle    func(ctx context.Context, tx T, ms []*consumer.Message) error
}

// Handle handles one message.
func (b batchHandler[T]) Handle(ctx context.Context, m *consumer.Message) error {
	err := b.process(ctx, []*consumer.Message{m})
	if partly, ok := errors.AsType[*consumer.BatchError](err); ok && partly.Failed[0] != nil {
		return partly.Failed[0]
	}
	return err // also one that says that nothing failed: it was rolled back
}

// HandleBatch handles several in one transaction.
func (b batchHandler[T]) HandleBatch(ctx context.Context, ms []*consumer.Message) error {
	err := b.process(ctx, ms)
	if partly, ok := errors.AsType[*consumer.BatchError](err); ok {
		// The consumer would take the other messages for done, but they were rolled back.
		return fmt.Errorf("the batch was rolled back: %v", partly)
	}
	return err
}

func (b batchHandler[T]) process(ctx context.Context, ms []*consumer.Message) error {
	ids := make([]string, len(ms))
	for n, m := range ms {
		ids[n] = IDOf(m)
	}
	_, err := b.processor.ProcessEach(ctx, ids, func(ctx context.Context, tx T, fresh []int) error {
		news := make([]*consumer.Message, len(fresh))
		for n, at := range fresh {
			news[n] = ms[at]
		}
		return b.handle(ctx, tx, news)
	})
	return err
}
