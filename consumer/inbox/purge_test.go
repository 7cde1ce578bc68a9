package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/consumer/inbox"
)

// aged puts so many messages into the inbox, one for each hour of age.
func (s *service) aged(n int) {
	s.t.Helper()
	s.exec(`insert into inbox_message (consumer_group, message_id, handled_at) select 'g', 'm' || h, clock_timestamp() - interval '1 hour' * h from generate_series(1, $1::int) h`, n)
}

func TestPurge(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.aged(100)
	for _, c := range []struct {
		olderThan time.Duration
		batch     int
		want      int64
	}{
		{95*time.Hour + 30*time.Minute, 1000, 5},
		{90*time.Hour + 30*time.Minute, 5, 5}, // as many as a batch has
		{50*time.Hour + 30*time.Minute, 7, 40},
		{50*time.Hour + 30*time.Minute, 7, 0},
		{1000 * time.Hour, 1, 0},
		{292 * 365 * 24 * time.Hour, 1, 0}, // as long as a duration can be
	} {
		if got, err := inbox.Purge(t.Context(), s.pool, c.olderThan, c.batch); err != nil || got != c.want {
			t.Errorf("older than %v, batch %d: %d, %v; want %d", c.olderThan, c.batch, got, err, c.want)
		}
	}
	if left := s.count(`select count(*) from inbox_message where handled_at > now() - interval '50 hours 30 minutes'`); left != 50 || s.count(`select count(*) from inbox_message`) != 50 {
		t.Errorf("%d are left", left)
	}
	if got, err := inbox.Purge(t.Context(), inbox.SQL(s.sql), time.Minute, 20); err != nil || got != 50 {
		t.Errorf("through database/sql: %d, %v", got, err)
	}
	// A purged message is new again.
	if first, err := inbox.Once(t.Context(), s.pool, "g", "m1"); err != nil || !first {
		t.Errorf("%v, %v", first, err)
	}
	for _, c := range []struct {
		olderThan time.Duration
		batch     int
	}{{0, 1}, {-time.Second, 1}, {time.Hour, 0}, {time.Hour, inbox.MaxPurgeBatch + 1}} {
		if _, err := inbox.Purge(t.Context(), s.pool, c.olderThan, c.batch); !errors.Is(err, inbox.ErrInvalid) {
			t.Errorf("older than %v, batch %d: %v", c.olderThan, c.batch, err)
		}
	}
}

// Several purge at the same time, beside handlers whose messages are young; each row goes once.
func TestPurgeTogether(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.aged(2000)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var total int64
	for range 4 {
		wg.Go(func() {
			got, err := inbox.Purge(t.Context(), s.pool, 30*time.Minute, 50)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += got
		})
	}
	for _, f := range s.faces(inbox.Options{Group: "g"}) {
		wg.Go(func() {
			for range 20 {
				if _, err := f.process(t.Context(), "young", func(_ context.Context, exec execFunc) error { return exec(putEffect, "g", "young") }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if left := s.count(`select count(*) from inbox_message`); total != 2000 || left != 1 || s.effects("young") != 1 {
		t.Errorf("%d removed, %d left, %d effects", total, left, s.effects("young"))
	}
}

// purges is a database that answers purges as it is told.
type purges struct {
	answer func(n int) (rows int64, err error)
	n      int
	at     []time.Time
}

func (p *purges) QueryRow(context.Context, string, ...any) pgx.Row { return p }

func (p *purges) Scan(to ...any) error {
	p.n++
	p.at = append(p.at, time.Now())
	rows, err := p.answer(p.n)
	*to[0].(*int64), *to[1].(*int64) = rows, rows
	return err
}

func TestRunPurger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		away := errors.New("the database is away")
		db := &purges{answer: func(n int) (int64, error) {
			switch n {
			case 1:
				return 1000, nil // a full batch: there is more
			case 2:
				return 7, nil
			case 3:
				return 0, away
			case 5:
				cancel()
			}
			return 0, nil
		}}
		var log bytes.Buffer
		reg := prometheus.NewRegistry()
		began := time.Now()
		err := inbox.RunPurger(ctx, db, inbox.PurgerOptions{OlderThan: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: inbox.NewMetrics(reg)})
		if err != nil || db.n != 5 {
			t.Errorf("%v after %d statements", err, db.n)
		}
		for n, pause := range map[int]time.Duration{0: 0, 1: 0, 2: 10 * time.Minute, 3: 20 * time.Minute, 4: 30 * time.Minute} {
			if got := db.at[n].Sub(began); got < pause || got > pause+pause/10 {
				t.Errorf("statement %d after %v, want %v and up to a tenth more", n+1, got, pause)
			}
		}
		if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "rows=1007") || !strings.Contains(lines[1], "the database is away") {
			t.Errorf("the log says %q", lines)
		}
		if got := counter(t, reg, "postrider_inbox_purged_total", ""); got != 1007 {
			t.Errorf("%d counted", got)
		}
	})
	for mention, o := range map[string]inbox.PurgerOptions{
		"OlderThan": {}, "Every": {OlderThan: 1, Every: -1}, "Batch": {OlderThan: 1, Batch: -1},
	} {
		if err := inbox.RunPurger(t.Context(), nil, o); !errors.Is(err, inbox.ErrInvalid) || !strings.Contains(err.Error(), mention) {
			t.Errorf("%s: %v", mention, err)
		}
	}
}
