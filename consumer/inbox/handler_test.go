package inbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/message"
)

// message is the n-th record of a topic, with an event id if there is one.
func messageOf(n int64, eventID string) *consumer.Message {
	m := &consumer.Message{Topic: "orders", Offset: n, Value: []byte(eventID)}
	if eventID != "" {
		m.Headers = []message.Header{{Name: message.HeaderEventID, Value: []byte(eventID)}}
	}
	return m
}

func TestIDOf(t *testing.T) {
	t.Parallel()
	if got := inbox.IDOf(messageOf(7, "")); got != "record:orders/0/7" {
		t.Error(got)
	}
	if got := inbox.IDOf(messageOf(7, "e")); got != "event:e" {
		t.Error(got)
	}
	// A topic that was deleted and made anew begins at the same offsets.
	m := messageOf(7, "")
	m.Timestamp = time.UnixMilli(1700000000123)
	if got := inbox.IDOf(m); got != "record:orders/0/7@1700000000123" {
		t.Error(got)
	}
	if m.Timestamp = time.UnixMilli(-1); inbox.IDOf(m) != "record:orders/0/7" {
		t.Error(inbox.IDOf(m))
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, err := inbox.New(s.pool, inbox.Options{Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	broken := consumer.Permanent(errors.New("broken"))
	h := inbox.Handler(p, func(ctx context.Context, tx pgx.Tx, m *consumer.Message) error {
		if _, err := tx.Exec(ctx, putEffect, "g", string(m.Value)); err != nil {
			return err
		}
		if string(m.Value) == "bad" {
			return broken
		}
		return nil
	})
	for n, m := range []*consumer.Message{messageOf(1, "a"), messageOf(2, "a"), messageOf(3, "b")} {
		if err := h.Handle(t.Context(), m); err != nil {
			t.Errorf("message %d: %v", n, err)
		}
	}
	if err := h.Handle(t.Context(), messageOf(4, "bad")); err != broken {
		t.Errorf("the handler's error became %v", err)
	}
	if a, b, bad := s.effects("a"), s.effects("b"), s.effects("bad"); a != 1 || b != 1 || bad != 0 {
		t.Errorf("effects %d %d %d", a, b, bad)
	}
}

func TestBatchHandler(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, err := inbox.New(s.pool, inbox.Options{Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	bad := errors.New("bad")
	var calls [][]string
	h := inbox.BatchHandler(p, func(ctx context.Context, tx pgx.Tx, ms []*consumer.Message) error {
		var values []string
		failed := map[int]error{}
		for n, m := range ms {
			values = append(values, string(m.Value))
			if _, err := tx.Exec(ctx, putEffect, "g", string(m.Value)); err != nil {
				return err
			}
			if string(m.Value) == "bad" {
				failed[n] = bad
			}
		}
		calls = append(calls, values)
		if len(failed) > 0 {
			return &consumer.BatchError{Failed: failed}
		}
		return nil
	})
	if err := h.HandleBatch(t.Context(), []*consumer.Message{messageOf(1, "a"), messageOf(2, "b"), messageOf(3, "a")}); err != nil {
		t.Fatal(err)
	}
	// A batch that fails in part must not look as if its other part were done: it was rolled back.
	err = h.HandleBatch(t.Context(), []*consumer.Message{messageOf(4, "b"), messageOf(5, "c"), messageOf(6, "bad")})
	if partly, ok := errors.AsType[*consumer.BatchError](err); err == nil || ok {
		t.Errorf("%v %v", err, partly)
	}
	if s.effects("c") != 0 {
		t.Error("a part of the batch took effect")
	}
	// Then the consumer gives each alone.
	for value, want := range map[string]error{"b": nil, "c": nil, "bad": bad} {
		if err := h.Handle(t.Context(), messageOf(7, value)); err != want {
			t.Errorf("%s alone: %v, want %v", value, err, want)
		}
	}
	// A batch whose error says that nothing failed, or something else, was rolled back all the same.
	for _, failed := range []map[int]error{nil, {5: bad}} {
		h := inbox.BatchHandler(p, func(context.Context, pgx.Tx, []*consumer.Message) error { return &consumer.BatchError{Failed: failed} })
		if h.Handle(t.Context(), messageOf(8, "d")) == nil || h.HandleBatch(t.Context(), []*consumer.Message{messageOf(8, "d"), messageOf(9, "e")}) == nil {
			t.Errorf("%v is taken for success", failed)
		}
	}
	if a, b, c := s.effects("a"), s.effects("b"), s.effects("c"); a != 1 || b != 1 || c != 1 || s.effects("bad") != 0 {
		t.Errorf("effects %d %d %d", a, b, c)
	}
	if got := strings.Join(calls[1], " "); got != "c bad" {
		t.Errorf("the second batch was given as %s", got)
	}
}
