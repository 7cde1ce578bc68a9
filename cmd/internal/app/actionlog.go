package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// actionLog is a store that writes a line about every pass of the relay that did something
// (outbox.log). The line says what the pass settled, and so is written when it has.
type actionLog struct {
	relay.Store
	log *slog.Logger
}

// Lead begins a term. Its passes are passes over the log, and over events that come back.
func (a actionLog) Lead(ctx context.Context, worker string) (relay.Leadership, error) {
	l, err := a.Store.Lead(ctx, worker)
	if l == nil || err != nil {
		return nil, err
	}
	return loggedLeadership{l, a.log.With("worker", worker)}, nil
}

type loggedLeadership struct {
	relay.Leadership
	log *slog.Logger
}

// Settle ends passes.
func (l loggedLeadership) Settle(ctx context.Context, rs []*relay.Receipt) error {
	began := time.Now()
	err := l.Leadership.Settle(ctx, rs)
	for _, r := range rs {
		c := r.Counts()
		if c.Processed == 0 {
			continue
		}
		action := "publish"
		if r.Position == 0 {
			action = "return"
		}
		relay.LogAction(ctx, l.log.With("action", action), began, err, slog.Int("batch_size", c.Processed), slog.Int("processed", c.Processed),
			slog.Int("succeeded", r.Sent), slog.Int("failed", c.Failed), slog.Int("exhausted", c.Exhausted),
			slog.Int("scheduled", c.Scheduled), slog.Int("parked", c.Parked))
	}
	return err
}

// ClaimLetters begins a pass that dead-letters.
func (a actionLog) ClaimLetters(ctx context.Context, letterTopic func(string) string, limit int) (relay.LetterClaim, error) {
	began := time.Now()
	claim, err := a.Store.ClaimLetters(ctx, letterTopic, limit)
	if claim == nil || err != nil {
		return nil, err
	}
	return loggedLetters{claim, a.log.With("action", "dead_letter"), began}, nil
}

type loggedLetters struct {
	relay.LetterClaim
	log   *slog.Logger
	began time.Time
}

// Settle ends the pass.
func (c loggedLetters) Settle(ctx context.Context, s *relay.LetterSettlement) error {
	events := len(c.Events())
	err := c.LetterClaim.Settle(ctx, s)
	relay.LogAction(ctx, c.log, c.began, err, slog.Int("batch_size", events), slog.Int("processed", events),
		slog.Int("dead_lettered", len(s.Delivered)), slog.Int("failed", events-len(s.Delivered)))
	return err
}

// Purge is a pass of its own.
func (a actionLog) Purge(ctx context.Context, limits relay.PurgeLimits) (relay.Purged, error) {
	began := time.Now()
	purged, err := a.Store.Purge(ctx, limits)
	if purged.Rows > 0 {
		relay.LogAction(ctx, a.log.With("action", "purge", "kind", string(limits.Kind), "dry_run", limits.DryRun), began, err, slog.Int("processed", purged.Rows))
	}
	return purged, err
}
