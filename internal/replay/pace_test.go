package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/relay"
)

// TestRateIsKeptProperty replays under virtual time: the rate is kept within five per cent, whatever it is and
// however long the broker takes for each batch, as long as that is less than the batch may.
func TestRateIsKeptProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.Float64Range(0.5, 4000).Draw(rt, "rate")
		slow := time.Duration(rapid.IntRange(0, 80).Draw(rt, "ms")) * time.Millisecond
		n := min(max(int(rate*20), 40), 150)
		problem := "" // rapid must not be told inside of the bubble
		synctest.Test(t, func(t *testing.T) {
			l := newLetters(3, "payments")
			for i := range n {
				l.add(int32(i%3), foreign(i, nil))
			}
			l.chunk = 500
			var first, last time.Time
			sent, before := 0, 0 // before the last batch
			l.answer = func(*relay.Message) relay.Outcome {
				now := time.Now()
				if first.IsZero() {
					first = now
				}
				if now.After(last) {
					last, before = now, sent
				}
				sent++
				return relay.Outcome{}
			}
			l.saving = func() error { time.Sleep(slow); return nil }
			_, res, err := replayAll(t, l, optionsOf(func(o *Options) { o.Rate = rate }))
			if err != nil || res.Sent != int64(n) {
				problem = fmt.Sprintf("%+v, %v", res, err)
				return
			}
			batch := math.Min(5, math.Ceil(rate*paceTick.Seconds())) // replayAll sends five at most
			if slow > 0 && batch/slow.Seconds() < rate*1.05 {
				return // the broker is slower than the rate that is asked for
			}
			took := last.Sub(first).Seconds()
			if got := float64(before) / took; math.Abs(got-rate) > 0.05*rate {
				problem = fmt.Sprintf("%d in %v are %.2f a second, want %.2f", n, last.Sub(first), got, rate)
			}
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// After an outage the rate is kept on, and the backlog is not made up in a rush.
func TestNoRushAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pace{rate: 100}
		sent := 0
		send := func(d time.Duration) {
			for began := time.Now(); time.Since(began) < d; sent += 10 {
				if err := p.wait(t.Context(), 10); err != nil {
					t.Fatal(err)
				}
			}
		}
		send(10 * time.Second)
		time.Sleep(time.Hour)
		before := sent
		send(10 * time.Second)
		if n := sent - before; n < 990 || n > 1120 {
			t.Errorf("%d in ten seconds after an outage", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.wait(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
