package relay

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Report is where an action that is called says what it did. All actions use it, whether the library, a command or an
// agent calls them.
type Report struct {
	// TracerProvider receives the span "outbox.<action>". Defaults to none.
	TracerProvider trace.TracerProvider
	// Logger receives the line "outbox action". Defaults to none.
	Logger *slog.Logger
}

// Begin begins an action. Work for the action uses the returned context, and then belongs to its span. The returned
// function ends the action: it takes what the action did, for the span, and the fields that the log line of the action has
// beside the name, the duration and the error.
func (r Report) Begin(ctx context.Context, action Action) (context.Context, func(did ActionResult, err error, line ...slog.Attr)) {
	began := time.Now()
	ctx, end := newTracing(r.TracerProvider).act(ctx, action)
	return ctx, func(did ActionResult, err error, line ...slog.Attr) {
		end(did, err)
		if r.Logger != nil {
			LogAction(ctx, r.Logger.With("component", "relay", "action", string(action)), began, err, line...)
		}
	}
}

// LogAction writes the line about an action, or a pass of a relay, that began at began.
func LogAction(ctx context.Context, log *slog.Logger, began time.Time, err error, line ...slog.Attr) {
	line = append(line, slog.Float64("duration_ms", milliseconds(began)))
	level := slog.LevelInfo
	if err != nil {
		level, line = slog.LevelError, append(line, slog.Any("err", err))
	}
	log.LogAttrs(ctx, level, "outbox action", line...)
}

// report is where the actions of this relay say what they did.
func (r *Relay) report() Report {
	report := Report{TracerProvider: r.cfg.TracerProvider}
	if r.cfg.LogActions {
		report.Logger = r.given.Logger
	}
	return report
}

// line is what the line about an action has.
func (r ActionResult) line() []slog.Attr {
	return []slog.Attr{slog.Int("batch_size", r.BatchSize), slog.Int("processed", r.Processed), slog.Int("succeeded", r.Succeeded),
		slog.Int("failed", r.Failed), slog.Int("exhausted", r.Exhausted), slog.Int("dead_lettered", r.DeadLettered),
		slog.Int("scheduled", r.Scheduled), slog.Int("parked", r.Parked), slog.Int("returned", r.Returned)}
}
