// Package dlqstats is the action dlqStats: it counts the open investigations, and reports that as the other actions of the
// outbox do.
package dlqstats

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// Counter counts investigations. Store and Investigations of dlq/postgres implement it.
type Counter interface {
	Stats(ctx context.Context) (dlq.Stats, error)
}

// Count counts the open investigations with from, and reports the action to report.
func Count(ctx context.Context, from Counter, report relay.Report) (sum dlq.Summary, err error) {
	ctx, end := report.Begin(ctx, relay.ActionDLQStats)
	defer func() {
		end(relay.ActionResult{Processed: int(sum.Size)}, err,
			slog.Int64("size", sum.Size), slog.Int64("oldest_age_ms", sum.OldestAgeMS), slog.Int("error_codes", len(sum.ByErrorCode)))
	}()
	s, err := from.Stats(ctx)
	if err != nil {
		return dlq.Summary{}, fmt.Errorf("%s: %w", relay.ActionDLQStats, err)
	}
	return s.Summary(time.Now()), nil
}
