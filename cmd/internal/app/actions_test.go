package app

import (
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/relay"
)

func TestRetentionInDays(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for days, want := range map[int]time.Duration{0: 1, 1: day, 36500: 36500 * day} {
		got := Retention(config.Outbox{RetentionDays: days, DeadLetterRetentionDays: 7, IdempotencyRetentionDays: 8})
		if got != (relay.Retention{Published: want, DeadLettered: 7 * day, IdempotencyKeys: 8 * day}) {
			t.Errorf("%d days: %+v", days, got)
		}
		if err := got.Validate(); err != nil {
			t.Error(err)
		}
	}
}
