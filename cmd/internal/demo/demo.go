// Package demo is a small order service that shows what Postrider does: it writes orders into its
// own table and their events into the outbox, in one transaction each, and some events can never
// be delivered. Its warehouse works on tasks, and some tasks get stuck. It prints what became of them.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/loop"
)

// The topics that the service writes to.
const (
	// OrdersTopic has the events of an order, keyed by its id.
	OrdersTopic = "demo.orders"
	// PaymentsTopic has the payments of a customer, keyed by the customer's id.
	PaymentsTopic = "demo.payments"
)

// Topics returns the topics that must exist.
func Topics() []string { return []string{OrdersTopic, PaymentsTopic} }

// Config is what a demonstration is made of.
type Config struct {
	// Pool is a migrated database whose role may create the schema demo. Required.
	Pool *pgxpool.Pool
	// Out receives a line of numbers every Summary. Required.
	Out io.Writer
	// Interval is the pause between two transactions. Defaults to 50ms, which is 20 a second.
	Interval time.Duration
	// Round is the pause between two rounds of the warehouse. Defaults to 300ms, which is about a task a
	// second.
	Round time.Duration
	// Summary is the pause between two lines. Defaults to 2s.
	Summary time.Duration
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Demo is the order service, its warehouse and its line of numbers.
type Demo struct {
	cfg       Config
	log       *slog.Logger
	writer    *writer
	warehouse *warehouse
	tally     *tally
}

//go:embed queries/schema.sql
var schemaSQL string

// New creates the service's table where it is missing.
func New(ctx context.Context, cfg Config) (*Demo, error) {
	switch {
	case cfg.Pool == nil:
		return nil, errors.New("demo: Pool is required")
	case cfg.Out == nil:
		return nil, errors.New("demo: Out is required")
	}
	if cfg.Interval == 0 {
		cfg.Interval = 50 * time.Millisecond
	}
	if cfg.Round == 0 {
		cfg.Round = 300 * time.Millisecond
	}
	if cfg.Summary == 0 {
		cfg.Summary = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if _, err := cfg.Pool.Exec(ctx, schemaSQL); err != nil {
		return nil, fmt.Errorf("demo: create the table of orders: %w", err)
	}
	w, err := newWarehouse(ctx, cfg.Pool)
	if err != nil {
		return nil, err
	}
	t, err := newTally(ctx, cfg.Pool)
	if err != nil {
		return nil, err
	}
	return &Demo{cfg: cfg, log: cfg.Logger.With("component", "demo"), writer: newWriter(cfg.Pool), warehouse: w, tally: t}, nil
}

//go:embed queries/mend.sql
var mendSQL string

// Mend mends the service's mistake: orders from now on have a header that can be sent.
func Mend(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, mendSQL)
	if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == "3F000" { // invalid_schema_name
		return fmt.Errorf("the demonstration has never run in this database: start postrider dev --demo, and give its database_url: %w", err)
	}
	return err
}

// Run writes and prints until ctx ends. A failure is logged and the next transaction is tried.
func (d *Demo) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { d.every(ctx, d.cfg.Interval, "write", d.writer.runOnce) })
	wg.Go(func() { d.every(ctx, d.cfg.Round, "work", d.warehouse.runOnce) })
	wg.Go(func() { d.every(ctx, d.cfg.Summary, "summary", d.print) })
	wg.Wait()
}

func (d *Demo) every(ctx context.Context, pause time.Duration, what string, runOnce func(context.Context) error) {
	var outage loop.Outage // a line for each failure would be twenty a second
	loop.AfterEvery(ctx, pause, func(ctx context.Context) {
		if err := runOnce(ctx); ctx.Err() == nil && outage.Observe(err) {
			d.log.Warn("the demonstration cannot go on, it keeps trying", "what", what, "err", err)
		}
	})
}

func (d *Demo) print(ctx context.Context) error {
	n, err := d.tally.runOnce(ctx)
	if err != nil {
		return err
	}
	n.Tasks, n.Finished = d.warehouse.created.Load(), d.warehouse.finished.Load()
	_, err = fmt.Fprintln(d.cfg.Out, n)
	return err
}
