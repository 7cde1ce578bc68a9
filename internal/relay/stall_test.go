package relay

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestStallIsSaid: once when it begins, again when its cause changes, now and then while it lasts, and when
// it is over.
func TestStallIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var now Stall
		r := testRelay(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		look := func(lasting time.Duration, want ...string) {
			t.Helper()
			log.Reset()
			for end := time.Now().Add(lasting); !time.Now().After(end); time.Sleep(time.Second) {
				r.reminder.hear(r, now)
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
		now = Stall{"A", "do this"}
		look(time.Minute, `error_code=A err="do this"`)
		now = Stall{"B", "do that"}
		look(remindEvery-time.Second, "error_code=B")
		look(2*remindEvery-time.Second, "error_code=B", "error_code=B")
		now = Stall{}
		look(time.Hour, `level=INFO msg="ids become final again"`)
	})
}
