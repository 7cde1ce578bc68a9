package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/inbox"
)

//go:embed schema.sql
var schemaSQL string

//go:embed add.sql
var addSQL string

// order is the value of a record; its key is the order's id.
type order struct {
	Event    string `json:"event"` // placed or cancelled
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

// check returns the fault in an order. No further attempt can mend it.
func (o order) check() error {
	switch {
	case o.Event != "placed" && o.Event != "cancelled":
		return fmt.Errorf("the event is %q, it must be placed or cancelled", o.Event)
	case o.Customer == "":
		return errors.New("the order has no customer")
	case o.Cents <= 0:
		return fmt.Errorf("the order is for %d cents, it must be for more than nothing", o.Cents)
	}
	return nil
}

// unknownCustomer is an order of a customer that is not there yet: it may come with the next attempt.
type unknownCustomer struct{ name string }

func (e unknownCustomer) Error() string     { return fmt.Sprintf("customer %q is not known", e.name) }
func (e unknownCustomer) ErrorCode() string { return "UNKNOWN_CUSTOMER" }

// handler counts orders, each once.
func handler(processor *inbox.Processor[pgx.Tx]) consumer.Handler {
	return consumer.JSON(func(ctx context.Context, m *consumer.Message, o order) error {
		if err := o.check(); err != nil {
			return consumer.Permanent(err)
		}
		_, err := processor.Process(ctx, inbox.IDOf(m), func(ctx context.Context, tx pgx.Tx) error { return add(ctx, tx, o) })
		return err
	})
}

// add counts an order in the transaction in which the inbox has noted it.
func add(ctx context.Context, tx pgx.Tx, o order) error {
	sign := int64(1)
	if o.Event == "cancelled" {
		sign = -1
	}
	_, err := tx.Exec(ctx, addSQL, o.Customer, sign, sign*o.Cents)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "23503" { // foreign_key_violation
		return unknownCustomer{o.Customer}
	}
	return err
}
