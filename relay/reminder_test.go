package relay

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// TestLongOutageIsNotSilent: while no broker answers there is a line now and then, more and more rarely, and one
// when they are back.
func TestLongOutageIsNotSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const outage = 20 * time.Minute
		var log bytes.Buffer
		began := time.Now()
		var at []time.Duration // when each line was written, to the nearest ten seconds
		pub := &fakePublisher{outcome: infrastructure}
		lines := 0
		pub.ping = func() error {
			if n := strings.Count(log.String(), "still no broker answers"); n > lines {
				lines = n
				at = append(at, time.Since(began).Round(10*time.Second))
			}
			if time.Since(began) >= outage {
				return nil
			}
			return errors.New("connection refused")
		}
		c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}
		r := testRelay(t, func(cfg *Config) {
			cfg.Store, cfg.Publisher = claimOf(c), pub
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		w := &worker{relay: r, id: "w/0"}
		_, err := w.runOnce(t.Context())
		var lost *brokersLost
		if !errors.As(err, &lost) {
			t.Fatal(err)
		}
		r.endure(t.Context(), lost)
		want := []time.Duration{10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second, 610 * time.Second, 910 * time.Second}
		near := func(a, b time.Duration) bool { return (a - b).Abs() <= 20*time.Second }
		if !slices.EqualFunc(at, want, near) {
			t.Errorf("lines after %v, want about %v", at, want)
		}
		text := log.String()
		if strings.Count(text, `msg="no broker answers`) != 1 || strings.Count(text, `msg="brokers answer again" `) != 1 ||
			!strings.Contains(text, "away=20m") || !strings.Contains(text, "connection refused") {
			t.Errorf("the log:\n%s", text)
		}
	})
}
