package obs_test

import (
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/obs"
)

func TestWords(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	log, err := obs.NewLogger(&out, "info", "words")
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("not said")
	log.Info("outbox action", "processed", 3)
	with := log.With("component", "relay").WithGroup("broker").With("host", "a")
	with.Warn("it does not answer\x1b[2J", "err", errors.New("refused\nby b"), slog.Group("seen", "times", 2), slog.Attr{})
	log.Error("nothing more", "why", "")
	want := []string{
		`outbox action: processed 3`,
		`warning: "it does not answer\x1b[2J": component relay, broker.host a, broker.err refused; by b, broker.seen.times 2`,
		`error: nothing more: why ""`,
	}
	got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i, line := range got {
		if clock := regexp.MustCompile(`^\d\d:\d\d:\d\d `); !clock.MatchString(line) || clock.ReplaceAllString(line, "") != want[i] {
			t.Errorf("line %d is %q, want %q after the time", i, line, want[i])
		}
	}
}
