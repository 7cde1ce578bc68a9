package kgolog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestWarningsAndErrorsAreHandedOn(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&log, nil)).With("component", "publisher"))
	l.Log(kgo.LogLevelWarn, "odd", "topic", "t")
	l.Log(kgo.LogLevelError, "bad", "err", errors.New("why"))
	l.Log(kgo.LogLevelError, "moved", "err", fmt.Errorf("heartbeat: %w", kerr.NotCoordinator))
	for _, want := range []string{"level=WARN msg=odd component=publisher topic=t", "level=ERROR msg=bad component=publisher err=why",
		"level=WARN msg=moved component=publisher"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &log)
		}
	}
	log.Reset()
	New(slog.New(slog.NewJSONHandler(&log, nil))).Log(kgo.LogLevelWarn, "odd", "backoff", 297*time.Millisecond)
	if !strings.Contains(log.String(), `"backoff":"297ms"`) {
		t.Errorf("a time in JSON: %s", &log)
	}
	if l.Level() != kgo.LogLevelWarn {
		t.Errorf("level %v lets the client's information through", l.Level())
	}
}
