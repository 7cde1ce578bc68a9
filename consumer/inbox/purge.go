package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// MaxPurgeBatch is the largest number of rows that one statement of a purge may remove.
const MaxPurgeBatch = 100_000

// Purge removes the messages that were handled longer than olderThan ago, by the database's clock, and returns how
// many. Each statement looks for at most batch rows (1 to MaxPurgeBatch) and is a transaction of its own, if db is a
// pool or SQL of a *sql.DB; so services go on meanwhile. Several processes may purge at the same time. Rows that were
// removed before an error stay removed and are counted. olderThan must be positive; see the package on how long it must
// be. Errors about the arguments wrap ErrInvalid.
func (i Inbox) Purge(ctx context.Context, db Querier, olderThan time.Duration, batch int) (int64, error) {
	if olderThan <= 0 {
		return 0, fmt.Errorf("%w retention %v: it must be positive; all that can come again must still be known", ErrInvalid, olderThan)
	}
	if batch < 1 || batch > MaxPurgeBatch {
		return 0, fmt.Errorf("%w batch of %d rows: it must be 1 to %d", ErrInvalid, batch, MaxPurgeBatch)
	}
	query := inSchema(purgeSQL, i.schema)
	var total, position int64
	for {
		var removed, found int64
		if err := db.QueryRow(ctx, query, olderThan.Seconds(), int64(batch), position).Scan(&removed, &found, &position); err != nil {
			return total, fmt.Errorf("purge the inbox: %w", withHint(err))
		}
		total += removed
		if found < int64(batch) {
			return total, nil
		}
	}
}

// Purge is [Inbox.Purge] where the search path leads.
func Purge(ctx context.Context, db Querier, olderThan time.Duration, batch int) (int64, error) {
	return Inbox{}.Purge(ctx, db, olderThan, batch)
}

// PurgerOptions say what a purger removes, and how often.
type PurgerOptions struct {
	// OlderThan is how long a message is known after it was handled. Required; see the package on how long it must be.
	OlderThan time.Duration
	// Every is the pause between two purges, up to 10 % of it added at random. Defaults to 10m.
	Every time.Duration
	// Batch is how many rows a statement removes at most, 1 to MaxPurgeBatch. Defaults to 1000.
	Batch int
	// Logger gets a line for each purge that removed something, and for each that failed. Defaults to none.
	Logger *slog.Logger
	// Metrics, if not nil, counts.
	Metrics *Metrics
}

// RunPurger purges the inbox now and then until ctx ends, and then returns nil. A purge that fails is logged and tried
// again after the next pause. Every instance of a service may do it. An error wraps ErrInvalid, and nothing was done.
func (i Inbox) RunPurger(ctx context.Context, db Querier, o PurgerOptions) error {
	if o.Every == 0 {
		o.Every = 10 * time.Minute
	}
	if o.Batch == 0 {
		o.Batch = 1000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.OlderThan <= 0:
		return fmt.Errorf("%w option OlderThan: %v; it must be positive", ErrInvalid, o.OlderThan)
	case o.Every < 0 || o.Every > math.MaxInt64/2:
		return fmt.Errorf("%w option Every: %v; it must be positive", ErrInvalid, o.Every)
	case o.Batch < 1 || o.Batch > MaxPurgeBatch:
		return fmt.Errorf("%w option Batch: %d; it must be 1 to %d", ErrInvalid, o.Batch, MaxPurgeBatch)
	}
	loop.Repeat(ctx, func(ctx context.Context) time.Duration {
		began := time.Now()
		rows, err := i.Purge(ctx, db, o.OlderThan, o.Batch)
		o.Metrics.purge(rows)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			o.Logger.Warn("the inbox could not be purged", "rows", rows, "err", err)
		case rows > 0:
			o.Logger.Info("purged the inbox", "rows", rows, "duration_ms", time.Since(began).Milliseconds())
		}
		return o.Every + time.Duration(rand.Float64()*0.1*float64(o.Every))
	})
	return nil
}

// RunPurger is [Inbox.RunPurger] where the search path leads.
func RunPurger(ctx context.Context, db Querier, o PurgerOptions) error {
	return Inbox{}.RunPurger(ctx, db, o)
}
