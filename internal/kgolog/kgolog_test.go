package kgolog

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestWarningsAndErrorsAreHandedOn(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&log, nil)).With("component", "publisher"))
	l.Log(kgo.LogLevelWarn, "odd", "topic", "t")
	l.Log(kgo.LogLevelError, "bad", "err", errors.New("why"))
	for _, want := range []string{"level=WARN msg=odd component=publisher topic=t", "level=ERROR msg=bad component=publisher err=why"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &log)
		}
	}
	if l.Level() != kgo.LogLevelWarn {
		t.Errorf("level %v lets the client's information through", l.Level())
	}
}
