package cli

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/replay"
)

// TestRoundText: brokers forget offsets, so the first round of a default name may not be the first.
func TestRoundText(t *testing.T) {
	t.Parallel()
	for _, p := range []replay.Plan{{Round: replay.First}, {Round: replay.First, DefaultName: true}, {Round: replay.Resumed, DefaultName: true},
		{Round: replay.Next, DefaultName: true}, {Round: replay.Again, DefaultName: true}} {
		warned := strings.Contains(roundText(&p), "offsets.retention.minutes")
		if warned != (p.DefaultName && p.Round == replay.First) {
			t.Errorf("%s, default name %v: %s", p.Round, p.DefaultName, roundText(&p))
		}
	}
}
