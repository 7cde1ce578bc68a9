package relay

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestStandstillIsSaid: once when it begins, again when its cause changes, now and then while it lasts, and when
// it is over. An error in between is another thing.
func TestStandstillIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var now Standstill
		var failing error
		store := &fakeStore{back: func(context.Context, int, time.Duration) (Returned, error) { return Returned{Standstill: now}, failing }}
		r := testRelay(t, func(c *Config) { c.Store, c.Logger = store, slog.New(slog.NewTextHandler(&log, nil)) })
		look := func(lasting time.Duration, want ...string) {
			t.Helper()
			log.Reset()
			for end := time.Now().Add(lasting); !time.Now().After(end); time.Sleep(time.Second) {
				if _, err := r.returnHeld(t.Context()); !errors.Is(err, failing) {
					t.Errorf("returnHeld() = %v", err)
				}
			}
			lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
			if log.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(want) {
				t.Errorf("%d lines, want %d:\n%s", len(lines), len(want), log.String())
				return
			}
			for i, line := range lines {
				if !strings.Contains(line, want[i]) {
					t.Errorf("line %d is %s, want %s", i, line, want[i])
				}
			}
		}
		look(time.Hour)
		now = Standstill{"A", "do this"}
		look(time.Minute, `error_code=A err="do this"`)
		now = Standstill{"B", "do that"}
		look(remindEvery-time.Second, "error_code=B")
		look(2*remindEvery-time.Second, "error_code=B", "error_code=B")
		failing = errors.New("no database")
		look(time.Minute)
		now, failing = Standstill{}, nil
		look(time.Hour, `level=INFO msg="ids become final again"`)
	})
}
