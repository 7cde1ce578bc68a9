package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
)

// writer is a client that writes, until it meets a missing topic: it would go on asking for that topic, and a recreated
// topic fails in it for ever. To purge the topic from the client does not help: it would then number the topic's
// records from zero under the same producer id, and the broker would take them for copies.
type writer struct {
	client *kgo.Client
	users  atomic.Int64 // records without an outcome, and one for being the client in use
}

func (w *writer) leave() {
	if w.users.Add(-1) == 0 {
		go w.client.Close() // not here: this may be the client's own goroutine
	}
}

// take returns the writer in *in, made when there is none.
func (c *Client) take(in **writer) (*writer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, consumer.ErrClosed
	}
	if *in == nil {
		client, err := kgo.NewClient(c.cfg.producer(c.group)...)
		if err != nil {
			return nil, fmt.Errorf("kafka: %w", err)
		}
		*in = &writer{client: client}
		(*in).users.Store(1)
	}
	(*in).users.Add(1)
	return *in, nil
}

// retire sees to it that a writer is not used again.
func (c *Client) retire(in **writer, w *writer) {
	c.mu.Lock()
	mine := *in == w && !c.closed
	if mine {
		*in = nil
	}
	c.mu.Unlock()
	if mine {
		w.leave()
	}
}

// Publish implements consumer.Client. If one record of a batch is too large, franz-go fails the whole batch, so the
// error counts only for a record that was sent alone.
func (c *Client) Publish(ctx context.Context, r consumer.Record) error {
	err := c.send(ctx, &c.writer, r)
	if !tooLarge(err) {
		return err
	}
	c.soloTurn.Lock()
	defer c.soloTurn.Unlock()
	if err = c.send(ctx, &c.alone, r); tooLarge(err) {
		return fmt.Errorf("%w: topic %s: %w", consumer.ErrTooLarge, r.Topic, err)
	}
	return err
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

func (c *Client) send(ctx context.Context, in **writer, r consumer.Record) error {
	w, err := c.take(in)
	if err != nil {
		return err
	}
	k := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: make([]kgo.RecordHeader, len(r.Headers))}
	for i, h := range r.Headers {
		k.Headers[i] = kgo.RecordHeader{Key: h.Name, Value: h.Value}
	}
	done := make(chan error, 1)
	// Without a context: if records on their way are cancelled, acknowledged ones can get lost.
	w.client.Produce(context.Background(), k, func(_ *kgo.Record, err error) {
		if route(err) {
			c.retire(in, w)
		}
		done <- err
		w.leave()
	})
	select {
	case err = <-done:
	case <-ctx.Done():
		return fmt.Errorf("topic %s: no acknowledgement: %w", r.Topic, ctx.Err())
	}
	if errors.Is(err, kgo.ErrClientClosed) {
		return consumer.ErrClosed
	}
	return err
}

// route reports whether the topic, and not the record or the broker, is the matter.
func route(err error) bool {
	for _, e := range []error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.InvalidTopicException} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
