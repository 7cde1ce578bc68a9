package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
)

// Handler does what a message asks for. A nil error means that the message is done. With any other error the message is
// tried again or given up, as the class of the error says (see Permanent and Transient). The context ends when the
// message's time is up, when its partition was taken away, and when the consumer stops and StopTimeout has passed.
type Handler interface {
	Handle(ctx context.Context, m *Message) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, m *Message) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, m *Message) error { return f(ctx, m) }

// BatchHandler is a Handler that takes up to Config.Batch messages of a partition at once, in order. After a
// *BatchError the messages that it names have failed, and the others are done. If a *BatchError names no message, or an
// index outside the batch, it counts as any other error: each message is then given to Handle alone, and only a message
// that fails alone has failed. So HandleBatch must undo its work before it returns any other error.
type BatchHandler interface {
	Handler
	HandleBatch(ctx context.Context, ms []*Message) error
}

// BatchFunc is a function as a BatchHandler.
type BatchFunc func(ctx context.Context, ms []*Message) error

// HandleBatch calls f.
func (f BatchFunc) HandleBatch(ctx context.Context, ms []*Message) error { return f(ctx, ms) }

// Handle calls f with one message.
func (f BatchFunc) Handle(ctx context.Context, m *Message) error {
	err := f(ctx, []*Message{m})
	if be, ok := partial(err, 1); ok {
		return be.Failed[0]
	}
	return err
}

// BatchError says which messages of a batch failed, by index, and why. All others are done.
type BatchError struct{ Failed map[int]error }

func (e *BatchError) Error() string {
	return fmt.Sprintf("%d messages of the batch failed", len(e.Failed))
}

// partial returns the *BatchError in err, if it says which of size messages failed: at least one, and each is there.
func partial(err error, size int) (*BatchError, bool) {
	be, ok := errors.AsType[*BatchError](err)
	if !ok {
		return nil, false
	}
	failed := false
	for at, cause := range be.Failed {
		if at < 0 || at >= size {
			return nil, false
		}
		failed = failed || cause != nil
	}
	return be, failed
}

// Middleware wraps a Handler; see the package comment for the order.
type Middleware func(Handler) Handler

// chain puts middleware around a handler, the first outermost.
func chain(h Handler, middleware []Middleware) Handler {
	for i := len(middleware) - 1; i >= 0; i-- {
		h = middleware[i](h)
	}
	return h
}

// PanicError is the error of a handler that panicked. It is transient unless Config.Classify says otherwise: the cause
// may be gone at the next attempt, and a message that always causes a panic ends in the dead-letter topic.
type PanicError struct {
	// Value is the argument of panic.
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value where that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ErrUndecodable is wrapped by the errors of Decode and JSON. A handler that decodes by itself may wrap it, too: the message
// is given up at once, unless the error is marked Transient or Config.Classify says so.
var ErrUndecodable = errors.New("the message cannot be decoded")

// Decode returns a Handler that decodes a message first. A message that cannot be decoded is given up at once, with
// code UNDECODABLE, and its bytes go to the dead-letter topic as they are.
func Decode[T any](decode func(m *Message) (T, error), handle func(ctx context.Context, m *Message, v T) error) Handler {
	return HandlerFunc(func(ctx context.Context, m *Message) error {
		v, err := decode(m)
		if err != nil {
			return Permanent(fmt.Errorf("%w: %w", ErrUndecodable, err))
		}
		return handle(ctx, m, v)
	})
}

// JSON is Decode for JSON values. A tombstone has no JSON in it, and cannot be decoded; a handler of a topic that has
// tombstones uses Decode.
func JSON[T any](handle func(ctx context.Context, m *Message, v T) error) Handler {
	return Decode(func(m *Message) (v T, err error) { return v, json.Unmarshal(m.Value, &v) }, handle)
}

// call runs the handler for one message and turns a panic into an error.
func (c *Consumer) call(ctx context.Context, timeout timeout, m *Message) error {
	if c.tracing == nil {
		return c.handle(ctx, timeout, m)
	}
	ctx, s := c.tracing.process(ctx, m)
	err := c.handle(ctx, timeout, m)
	endProcess(s, err)
	return err
}

func (c *Consumer) handle(ctx context.Context, timeout timeout, m *Message) (err error) {
	defer recovered(&err)
	if timeout > 0 {
		limited, cancel := timeout.context(ctx)
		defer cancel()
		ctx = limited
	}
	return c.handler.Handle(ctx, m)
}

// callBatch runs the handler for several.
func (c *Consumer) callBatch(ctx context.Context, timeout timeout, ms []*Message) error {
	if c.tracing == nil {
		return c.handleBatch(ctx, timeout, ms)
	}
	ctx, s := c.tracing.processBatch(ctx, ms)
	err := c.handleBatch(ctx, timeout, ms)
	endProcess(s, err)
	return err
}

func (c *Consumer) handleBatch(ctx context.Context, timeout timeout, ms []*Message) (err error) {
	defer recovered(&err)
	if timeout > 0 {
		limited, cancel := timeout.context(ctx)
		defer cancel()
		ctx = limited
	}
	return c.batch.HandleBatch(ctx, ms)
}

func recovered(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}
