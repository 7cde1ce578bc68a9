package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// settingsOnDisk are settings that a test changes while a process reads them.
type settingsOnDisk struct {
	mu    sync.Mutex
	now   config.Config
	wrong error
}

func (s *settingsOnDisk) read() (config.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.wrong
}

// set makes them have these sources, or be wrong.
func (s *settingsOnDisk) set(wrong error, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong, s.now.Sources = wrong, nil
	for _, name := range names {
		s.now.Sources = append(s.now.Sources, config.Source{Name: name})
	}
}

// TestSettingsAreReadAgain: what is read twice alike counts, or once after a signal. What is half written, broken or gone counts for
// nothing, and other sections count after a restart.
func TestSettingsAreReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := &settingsOnDisk{}
		disk.set(nil, "orders")
		var log logtest.Buffer
		a := &App{options: Options{Config: disk.now, Reload: disk.read}}
		a.knowOwners(disk.now)
		a.fleet = &fleet{app: a, log: slog.New(slog.NewTextHandler(&log, nil)), hangup: make(chan struct{}, 1), sources: disk.now.Sources}
		ctx, stop := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { a.fleet.watchSettings(ctx) })
		defer watching.Wait()
		defer stop()
		synctest.Wait()
		want := func(what, sources, refused string) {
			t.Helper()
			synctest.Wait()
			a.fleet.mu.Lock()
			defer a.fleet.mu.Unlock()
			var names []string
			for _, s := range a.fleet.sources {
				names = append(names, s.Name)
			}
			if got := strings.Join(names, " "); got != sources || (refused == "") != (a.fleet.refused == "") || !strings.Contains(a.fleet.refused, refused) {
				t.Errorf("%s: the sources are %q, want %q; refused %q, want %q", what, got, sources, a.fleet.refused, refused)
			}
		}
		looks := func(n int) { time.Sleep(time.Duration(n)*reloadPause + time.Millisecond) }

		disk.set(nil, "orders", "billing")
		looks(1)
		want("read once", "orders", "")
		looks(1)
		want("read twice", "orders billing", "")

		disk.set(nil) // a file that is being written
		looks(1)
		disk.set(nil, "orders", "billing", "stock")
		looks(1)
		want("half written, and then once whole", "orders billing", "")
		looks(1)
		want("whole", "orders billing stock", "")

		disk.set(errors.New("postrider.yaml:3: unknown key urll"), "orders")
		looks(3)
		want("broken", "orders billing stock", "unknown key urll")
		for range 100 {
			a.Reload()
		}
		want("broken, with many signals", "orders billing stock", "unknown key urll")
		disk.set(nil, "orders")
		a.Reload()
		want("a signal", "orders", "")

		disk.mu.Lock()
		disk.now.Outbox.BatchSize++
		disk.mu.Unlock()
		looks(2)
		want("another section", "orders", "outbox.batch_size")
		if !strings.Contains(log.String(), "these settings have changed and count after a restart: outbox.batch_size") {
			t.Errorf("the log does not say what needs a restart:\n%s", log.String())
		}
	})
}
