package dlq

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// OperatorConfig is what an Operator needs.
type OperatorConfig struct {
	// Operations are treated. Required.
	Operations Operations
	// Redriver follows what was sent again. Required.
	Redriver Redriver
	// ResolveDelivered closes the investigations of delivered messages. Defaults to false.
	ResolveDelivered bool
	// Interval is how often redrives are followed, and how often it is looked for operations that somebody
	// started elsewhere. Defaults to 1s.
	Interval time.Duration
	// Keep is how long operations stay after they ended. Defaults to 90 days.
	Keep time.Duration
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Operator treats operations, batch by batch, and follows redriven messages. Any number may run, in any number
// of processes: what one has in hand, the others leave alone.
type Operator struct {
	cfg OperatorConfig
	log *slog.Logger
	// forget is when to look for old operations next.
	forget time.Time
}

// followBatch is how many redrives are followed in one transaction.
const followBatch = 1000

// NewOperator checks the configuration.
func NewOperator(cfg OperatorConfig) (*Operator, error) {
	switch {
	case cfg.Operations == nil || cfg.Redriver == nil:
		return nil, errors.New("operator: Operations and Redriver are required")
	case cfg.Interval < 0 || cfg.Keep < 0:
		return nil, errors.New("operator: Interval or Keep is negative")
	case cfg.Interval == 0:
		cfg.Interval = time.Second
	}
	if cfg.Keep == 0 {
		cfg.Keep = 90 * 24 * time.Hour
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Operator{cfg: cfg, log: cfg.Logger.With("component", "operator")}, nil
}

// Run works until ctx ends, and returns nil then. Errors are logged and tried again: the state of everything is
// in the database.
func (o *Operator) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		followed, err := o.cfg.Redriver.Follow(ctx, followBatch, o.cfg.ResolveDelivered)
		if followed.Delivered+followed.CameBack > 0 {
			o.log.Info("redriven messages ended", "delivered", followed.Delivered, "came_back", followed.CameBack)
		}
		o.complain(ctx, "following redrives failed", err)
		o.tidy(ctx)
		pause := o.work(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// work treats batches for as long as any is due, an interval at most, so that following comes to its turn. It
// returns how long nothing is to do.
func (o *Operator) work(ctx context.Context) time.Duration {
	began := time.Now()
	for time.Since(began) < o.cfg.Interval && ctx.Err() == nil {
		treated, next, err := o.cfg.Operations.Step(ctx)
		switch {
		case err != nil:
			o.complain(ctx, "an operation failed for now", err)
			return o.cfg.Interval
		case treated > 0:
			o.log.Debug("operation", "treated", treated)
		}
		if next != 0 {
			if next < 0 || next > o.cfg.Interval {
				next = o.cfg.Interval
			}
			if time.Since(began)+next >= o.cfg.Interval {
				return next
			}
			select {
			case <-ctx.Done():
			case <-time.After(next):
			}
		}
	}
	return 0
}

const (
	// forgetPause is how often old operations are looked for.
	forgetPause = time.Hour
	// forgetBatch is how many rows are removed in one transaction.
	forgetBatch = 5000
)

// tidy removes operations that ended long ago: one transaction in each round, as long as there are such.
func (o *Operator) tidy(ctx context.Context) {
	if time.Now().Before(o.forget) {
		return
	}
	f, err := o.cfg.Operations.Forget(ctx, o.cfg.Keep, forgetBatch)
	if f.Operations > 0 {
		o.log.Info("old operations were removed", "operations", f.Operations)
	}
	o.complain(ctx, "removing old operations failed", err)
	if err != nil || !f.More {
		o.forget = time.Now().Add(forgetPause)
	}
}

// complain logs an error, unless work was cut off by the stop.
func (o *Operator) complain(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		o.log.Warn(what, "err", err)
	}
}
