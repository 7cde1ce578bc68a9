package demo

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

//go:embed queries/place.sql
var placeSQL string

//go:embed queries/pay.sql
var paySQL string

//go:embed queries/plain_insert.sql
var plainInsertSQL string

// Which transactions of the service are not ordinary ones. At twenty a second a payload is too large
// every ten seconds, and a header wrong every two and a half.
const (
	payEvery        = 3
	attachmentEvery = 200
	wrongEvery      = 50
	wrongFirst      = 25
)

// attachmentBytes is twice what a Kafka broker accepts by default.
const attachmentBytes = 2 << 20

// writer is the order service: one transaction after the other.
type writer struct {
	pool *pgxpool.Pool
	done int
}

func newWriter(pool *pgxpool.Pool) *writer { return &writer{pool: pool} }

// runOnce does the next transaction.
func (w *writer) runOnce(ctx context.Context) error {
	n := w.done + 1
	do := w.place
	switch {
	case n%attachmentEvery == 0:
		do = w.placeWithAttachment
	case n%wrongEvery == wrongFirst:
		do = w.placeWithWrongHeader
	case n%payEvery == 0:
		do = w.pay
	}
	if err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error { return do(ctx, tx) }); err != nil {
		return err
	}
	w.done = n
	return nil
}

// order is the payload of the events.
type order struct {
	Event      string `json:"event"`
	OrderID    int64  `json:"order_id"`
	CustomerID int64  `json:"customer_id"`
	Cents      int    `json:"cents"`
	Attachment string `json:"attachment,omitempty"`
}

func (o order) message(topic string, key int64) (outbox.Message, error) {
	payload, err := json.Marshal(o)
	return outbox.Message{
		Topic: topic, Key: strconv.AppendInt(nil, key, 10), Payload: payload,
		Headers: []message.Header{{Name: "content-type", Value: []byte("application/json")}},
	}, err
}

// insert writes the order itself.
func insert(ctx context.Context, tx pgx.Tx) (order, error) {
	o := order{Event: "order_placed", CustomerID: 1 + rand.Int64N(500), Cents: 100 + rand.IntN(20_000)}
	if err := tx.QueryRow(ctx, placeSQL, o.CustomerID, o.Cents).Scan(&o.OrderID); err != nil {
		return o, fmt.Errorf("place an order: %w", err)
	}
	return o, nil
}

func enqueue(ctx context.Context, tx pgx.Tx, o order, topic string, key int64) error {
	m, err := o.message(topic, key)
	if err != nil {
		return err
	}
	_, err = outbox.Enqueue(ctx, tx, m)
	return err
}

func (w *writer) place(ctx context.Context, tx pgx.Tx) error {
	o, err := insert(ctx, tx)
	if err != nil {
		return err
	}
	return enqueue(ctx, tx, o, OrdersTopic, o.OrderID)
}

// pay pays the oldest unpaid order; where there is none it places one.
func (w *writer) pay(ctx context.Context, tx pgx.Tx) error {
	o := order{Event: "order_paid"}
	err := tx.QueryRow(ctx, paySQL).Scan(&o.OrderID, &o.CustomerID, &o.Cents)
	if errors.Is(err, pgx.ErrNoRows) {
		return w.place(ctx, tx)
	}
	if err != nil {
		return fmt.Errorf("pay an order: %w", err)
	}
	return enqueue(ctx, tx, o, PaymentsTopic, o.CustomerID)
}

// placeWithAttachment writes an event that no broker with default settings accepts.
func (w *writer) placeWithAttachment(ctx context.Context, tx pgx.Tx) error {
	o, err := insert(ctx, tx)
	if err != nil {
		return err
	}
	o.Attachment = string(bytes.Repeat([]byte("scan"), attachmentBytes/4))
	return enqueue(ctx, tx, o, OrdersTopic, o.OrderID)
}

// placeWithWrongHeader writes an event past the functions that would have refused it.
func (w *writer) placeWithWrongHeader(ctx context.Context, tx pgx.Tx) error {
	o, err := insert(ctx, tx)
	if err != nil {
		return err
	}
	m, err := o.message(OrdersTopic, o.OrderID)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, plainInsertSQL, m.Topic, m.Key, m.Payload); err != nil {
		return fmt.Errorf("insert an event: %w", err)
	}
	return nil
}
