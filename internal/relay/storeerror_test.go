package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestStoreErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	cause := errors.New("ERROR: no such table")
	e := &StoreError{Class: StorePermanent, Code: "42P01", Hint: "run migrate up", Err: cause}
	if got := fmt.Errorf("claim: %w", e); got.Error() != "claim: ERROR: no such table; run migrate up" || !errors.Is(got, cause) {
		t.Errorf("%v", got)
	}
	if got := (&StoreError{Err: cause}).Error(); got != cause.Error() {
		t.Errorf("without a hint: %s", got)
	}
}

// TestFailedCycleTellsItsCode: the log line and the metric say which kind of failure it was.
func TestFailedCycleTellsItsCode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := testRelay(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		ctx, cancel := context.WithCancel(t.Context())
		cycles := 0
		r.loop(ctx, "return", func(context.Context) (int, error) {
			cycles++
			switch cycles {
			case 1, 2:
				return 0, fmt.Errorf("claim: %w", &StoreError{Class: StoreTransient, Code: "53100", Hint: "make room", Err: errTest})
			case 3:
				return 0, errTest
			}
			cancel()
			return 0, nil
		}, newIdle(1, 1, 1))
		lines := strings.Split(log.String(), "\n")
		if !strings.Contains(lines[0], "error_class=transient error_code=53100") || !strings.Contains(lines[0], "; make room") {
			t.Errorf("the log says %s", lines[0])
		}
		if strings.Contains(lines[2], "error_code") {
			t.Errorf("an error that is not the database's has a code: %s", lines[2])
		}
		if n := testutil.ToFloat64(r.metrics.storeErrors.WithLabelValues("transient", "53100")); n != 2 {
			t.Errorf("%v errors of the database are counted, want 2", n)
		}
		if n := testutil.ToFloat64(r.metrics.errors.WithLabelValues("return")); n != 3 {
			t.Errorf("%v failed cycles are counted, want 3", n)
		}
		if n := testutil.CollectAndCount(r.metrics.storeErrors); n != 1 {
			t.Errorf("%d kinds of database errors are counted", n)
		}
	})
}
