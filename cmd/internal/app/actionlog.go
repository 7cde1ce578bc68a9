package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/postrider/postrider/relay"
)

// actionLog is a store that writes a line about every pass of the relay that did something
// (outbox.log). The line says what the pass settled, and so is written when it has.
type actionLog struct {
	relay.Store
	log *slog.Logger
}

// Claim begins a publishing pass.
func (a actionLog) Claim(ctx context.Context, limits relay.Limits) (relay.Claim, error) {
	began := time.Now()
	claim, err := a.Store.Claim(ctx, limits)
	if claim == nil || err != nil {
		return nil, err
	}
	return loggedClaim{claim, a.log.With("action", "publish", "worker", limits.Worker), began}, nil
}

type loggedClaim struct {
	relay.Claim
	log   *slog.Logger
	began time.Time
}

// Settle ends the pass.
func (c loggedClaim) Settle(ctx context.Context, s *relay.Settlement) error {
	events := len(c.Batch().Events)
	err := c.Claim.Settle(ctx, s)
	relay.LogAction(ctx, c.log, c.began, err, slog.Int("batch_size", events), slog.Int("processed", events),
		slog.Int("succeeded", len(s.Delivered)), slog.Int("failed", s.Failed()), slog.Int("exhausted", len(s.Exhausted)),
		slog.Int("scheduled", len(s.Scheduled)), slog.Int("parked", len(s.Parked)))
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

// Return is a pass of its own.
func (a actionLog) Return(ctx context.Context, limit int, grace time.Duration) (relay.Returned, error) {
	began := time.Now()
	returned, err := a.Store.Return(ctx, limit, grace)
	if returned.Events > 0 || returned.Holds > 0 {
		relay.LogAction(ctx, a.log.With("action", "return"), began, err, slog.Int("processed", returned.Events), slog.Int("holds_ended", returned.Holds))
	}
	return returned, err
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
