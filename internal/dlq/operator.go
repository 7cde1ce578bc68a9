package dlq

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// OperatorConfig is what an Operator needs.
type OperatorConfig struct {
	// Operations are treated, and what they sent is followed. Required.
	Operations Operations
	// ResolveDelivered closes the investigations of delivered messages. Defaults to false.
	ResolveDelivered bool
	// Interval is how often redrives are followed, and how often the operator looks for operations that were started
	// elsewhere. Defaults to 1s.
	Interval time.Duration
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Operator treats operations, batch by batch, and follows redriven messages. Any number may run, in any number
// of processes: what one has in hand, the others leave alone.
type Operator struct {
	cfg OperatorConfig
	log *slog.Logger
}

// followBatch is how many redrives are followed in one transaction.
const followBatch = 1000

// NewOperator checks the configuration.
func NewOperator(cfg OperatorConfig) (*Operator, error) {
	switch {
	case cfg.Operations == nil:
		return nil, errors.New("operator: Operations is required")
	case cfg.Interval < 0:
		return nil, errors.New("operator: Interval is negative")
	case cfg.Interval == 0:
		cfg.Interval = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Operator{cfg: cfg, log: cfg.Logger.With("component", "operator")}, nil
}

// Run works until ctx ends, and returns nil then. Errors are logged and tried again: the state of everything is
// in the database. Treating and following go on beside each other: where very many redrives are on their way, looking at
// them would keep an operation from its rate.
func (o *Operator) Run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { loop.Repeat(ctx, o.follow) })
	loop.Repeat(ctx, o.work)
	following.Wait()
	return nil
}

// follow looks at redrives, and returns after how long to look again.
func (o *Operator) follow(ctx context.Context) time.Duration {
	followed, err := o.cfg.Operations.Follow(ctx, followBatch, o.cfg.ResolveDelivered)
	if followed.Delivered+followed.CameBack > 0 {
		o.log.Info("redriven messages ended", "delivered", followed.Delivered, "came_back", followed.CameBack)
	}
	o.complain(ctx, "following redrives failed", err)
	if err == nil && followed.More {
		return 0
	}
	return o.cfg.Interval
}

// work treats a batch, and returns how long nothing is to do: an interval at most, because another process may start an
// operation.
func (o *Operator) work(ctx context.Context) time.Duration {
	treated, next, err := o.cfg.Operations.Step(ctx)
	if err != nil {
		o.complain(ctx, "an operation failed for now", err)
		return o.cfg.Interval
	}
	if treated > 0 {
		o.log.Debug("operation", "treated", treated)
	}
	if next < 0 {
		return o.cfg.Interval
	}
	return min(next, o.cfg.Interval)
}

// complain logs an error, unless work was cut off by the stop.
func (o *Operator) complain(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		o.log.Warn(what, "err", err)
	}
}
