package obs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/testenv/logtest"
)

// logLines is a log in JSON.
type logLines struct{ logtest.Buffer }

type logLine struct {
	Level, Msg, Topic, Err string
	N, Repeated            int
}

// take returns the lines since the last take.
func (l *logLines) take(t *testing.T) []logLine {
	t.Helper()
	var lines []logLine
	for text := range strings.Lines(l.Take()) {
		var line logLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		lines = append(lines, line)
	}
	return lines
}

func newLog(t *testing.T) (*slog.Logger, *logLines) {
	t.Helper()
	var out logLines
	log, err := NewLogger(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	return log, &out
}

// An outage of ten minutes that is noticed ten times a second.
func TestRepeatsAreThinned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(t)
		log = log.With("component", "relay")
		began := time.Now()
		said, total, newest := 0, 0, 0
		var at []time.Duration
		for range 6000 {
			total++
			log.Error("no broker answers", "n", total)
			synctest.Wait()
			for _, line := range out.take(t) {
				at = append(at, time.Since(began))
				said += max(1, line.Repeated)
				newest = line.N
			}
			time.Sleep(100 * time.Millisecond)
		}
		want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second}
		if len(at) != len(want) {
			t.Fatalf("lines at %v, want %v", at, want)
		}
		for i, w := range want {
			if at[i] < w || at[i] > w+200*time.Millisecond {
				t.Errorf("line %d after %v, want %v", i, at[i], w)
			}
		}
		// What was held back at the end is said when its time comes, without anything more happening.
		time.Sleep(maxPause)
		synctest.Wait()
		for _, line := range out.take(t) {
			said += max(1, line.Repeated)
			newest = line.N
		}
		if said != total || newest != total {
			t.Errorf("the lines stand for %d, the newest is %d, of %d", said, newest, total)
		}
	})
}

// A second outage is a new beginning, and says at once what it is.
func TestQuietIsANewBeginning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(t)
		for range 3 {
			for n := range 600 { // a minute of it
				out.take(t)
				log.Warn("away")
				if got := out.take(t); n == 0 && len(got) != 1 {
					t.Fatalf("the first line of an outage: %v", got)
				}
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(quietAfter)
		}
	})
}

// A rare record is never held back, and a record that was held back is not forgotten.
func TestRareAndLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(t)
		for range 20 {
			log.Warn("rare")
			if got := out.take(t); len(got) != 1 || got[0].Repeated != 0 {
				t.Fatalf("%v", got)
			}
			time.Sleep(quietAfter)
		}
		log.Warn("twice", "n", 1)
		log.Warn("twice", "n", 2)
		if got := out.take(t); len(got) != 1 || got[0].N != 1 {
			t.Fatalf("%v", got)
		}
		time.Sleep(firstPause + time.Second)
		synctest.Wait()
		if got := out.take(t); len(got) != 1 || got[0].N != 2 || got[0].Repeated != 0 {
			t.Fatalf("%v", got)
		}
	})
}

// Causes do not hide each other, and information always passes.
func TestCausesAreToldApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(t)
		relay, collector := log.With("component", "relay"), log.With("component", "collector")
		for range 5 {
			relay.Warn("held", "topic", "a", "error_code", "X", "n", 1)
			relay.Warn("held", "topic", "b", "error_code", "X")
			relay.Warn("held", "topic", "a", "error_code", "Y")
			relay.With("topic", "c").Warn("held")
			collector.Warn("held", "topic", "a", "error_code", "X")
			relay.Info("works again")
		}
		got := map[string]int{}
		for _, line := range out.take(t) {
			got[line.Msg]++
		}
		if got["held"] != 5 || got["works again"] != 5 {
			t.Errorf("lines: %v", got)
		}
	})
}

// However many causes there are, the log and the memory stay bounded, and all are counted.
func TestManyCauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(t)
		const events = 5000
		for n := range events {
			log.Warn("event given up", "id", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		said := 0
		lines := out.take(t)
		for _, line := range lines {
			said += max(1, line.Repeated)
		}
		if len(lines) > maxCauses+2 || said != events {
			t.Errorf("%d lines stand for %d of %d", len(lines), said, events)
		}
		h := log.Handler().(*repeats)
		log.Warn("event given up", "id", events)
		if n := len(h.known.byName); n > maxCauses/2 {
			t.Errorf("%d causes are remembered when all is quiet", n)
		}
	})
}

func TestRepeatsInParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 500 {
					log.Warn("flood", "err", errors.New("x"))
					time.Sleep(37 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		time.Sleep(maxPause)
		synctest.Wait()
		said := 0
		for _, line := range out.take(t) {
			said += max(1, line.Repeated)
		}
		if said != 4000 {
			t.Errorf("the lines stand for %d", said)
		}
	})
}

func TestErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	log, out := newLog(t)
	refused := "failed to connect to `user=u`:\n\t127.0.0.1:1: refused\n\t127.0.0.1:1: refused\n\t127.0.0.1:2: refused"
	log.Info("x", "err", fmt.Errorf("claim: %w", errors.New(refused)))
	if got := out.take(t)[0].Err; got != "claim: failed to connect to `user=u`: 127.0.0.1:1: refused; 127.0.0.1:2: refused" {
		t.Errorf("%q", got)
	}
	for in, want := range map[string]string{"plain  text": "plain  text", "": "", "\n\n": "", "a\nb\na\n": "a; b", "a:\r\n\tb  c": "a: b c"} {
		if got := OneLine(in); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

// The handler keeps to the rules of slog, for what it passes and what it thins alike.
func TestHandlerRules(t *testing.T) {
	t.Parallel()
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelError} {
		var out *bytes.Buffer
		slogtest.Run(t, func(*testing.T) slog.Handler {
			out = new(bytes.Buffer)
			return raised{newRepeats(slog.NewJSONHandler(out, nil)), level}
		}, func(t *testing.T) map[string]any {
			var line map[string]any
			if err := json.Unmarshal(out.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			return line
		})
	}
}

// raised hands records on with another level.
type raised struct {
	*repeats
	level slog.Level
}

func (h raised) Handle(ctx context.Context, r slog.Record) error {
	r.Level = h.level
	return h.repeats.Handle(ctx, r)
}

func (h raised) WithAttrs(attrs []slog.Attr) slog.Handler {
	return raised{h.repeats.WithAttrs(attrs).(*repeats), h.level}
}

func (h raised) WithGroup(name string) slog.Handler {
	return raised{h.repeats.WithGroup(name).(*repeats), h.level}
}
