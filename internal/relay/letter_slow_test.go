package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// slowCheck is a publisher that takes its time to say what fits.
type slowCheck struct {
	*fakePublisher
	takes time.Duration
}

func (p slowCheck) Check(m *Message, limit int) *Outcome {
	time.Sleep(p.takes)
	return p.fakePublisher.Check(m, limit)
}

// TestLettersThatTakeLongToWrite: to write the letters may take longer than their sending may. When the time to write
// counted as time to send, nothing was ever sent, and no error said so.
func TestLettersThatTakeLongToWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		claim := &fakeLetters{events: []Event{dead(1, 5), dead(2, 5)}}
		pub := &fakePublisher{outcome: func(ctx context.Context, _ Message) Outcome {
			if ctx.Err() != nil {
				return Outcome{Class: Withheld}
			}
			return Outcome{Class: Delivered}
		}}
		r := testRelay(t, func(c *Config) { c.Store, c.Publisher = letterStore(claim), slowCheck{pub, 6 * time.Second} })
		if n, err := r.sendLetters(t.Context()); n != 2 || err != nil || len(claim.out.Delivered) != 2 {
			t.Errorf("%d letters were sent, %v", n, err)
		}
	})
}
