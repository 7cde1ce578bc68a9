package dlq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var errAway = errors.New("the database is away")

// standings answers as it is told to.
type standings struct {
	mu          sync.Mutex
	standing    Standing
	standingErr error
	// closed are portions of closings, each given once.
	closed    [][]Closed
	closedErr error
	// opened is what each look but the first finds.
	opened OpenedGroups
	from   []ClosedPlace
	since  []time.Time
	at     []time.Time
}

func (s *standings) Standing(_ context.Context, limit int) (Standing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
	if limit != watchAges {
		return Standing{}, fmt.Errorf("the limit is %d", limit)
	}
	return s.standing, s.standingErr
}

func (s *standings) Closed(_ context.Context, from ClosedPlace, since time.Time, limit int) ([]Closed, ClosedPlace, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.since = append(s.from, from), append(s.since, since)
	if s.closedErr != nil || limit != watchClosed {
		return nil, from, false, s.closedErr
	}
	to := ClosedPlace{ChangedAt: time.Unix(int64(len(s.from)), 0)}
	if len(s.closed) == 0 {
		return nil, to, false, nil
	}
	got := s.closed[0]
	s.closed = s.closed[1:]
	return got, to, len(s.closed) > 0, nil
}

func (s *standings) Opened(_ context.Context, after time.Time) (OpenedGroups, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closedErr != nil {
		return OpenedGroups{New: 7}, time.Time{}, s.closedErr
	}
	if after.IsZero() {
		return OpenedGroups{}, time.Unix(1, 0), nil
	}
	return s.opened, after.Add(time.Second), nil
}

// fail makes looks fail with err, or no longer.
func (s *standings) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standingErr, s.closedErr = err, err
}

// lag is that of one topic, or the error that looks fail with.
func (s *standings) lag(context.Context) (map[string]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]int64{"dead": 5}, s.closedErr
}

func newTestWatch(t *testing.T, change func(*WatchConfig)) (*Watch, *standings, *prometheus.Registry) {
	t.Helper()
	s, reg := &standings{}, prometheus.NewRegistry()
	cfg := WatchConfig{Standings: s, Registerer: reg}
	if change != nil {
		change(&cfg)
	}
	w, err := NewWatch(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w, s, reg
}

func TestWatchShowsWhatStands(t *testing.T) {
	t.Parallel()
	w, s, reg := newTestWatch(t, func(c *WatchConfig) { c.MaxPendingAge = 24 * time.Hour })
	s.standing = Standing{Pending: map[Reason]int64{Undeliverable: 3, "of_the_future": 1}, Oldest: 2 * time.Hour, AgeSum: 3 * time.Hour,
		Ages: []int64{2, 1, 0, 0, 0, 0, 0, 4}}
	s.closed = [][]Closed{{{Undeliverable, ManuallyResolved, time.Minute}, {ManualDLQ, Cancelled, time.Hour}}, {{Undeliverable, ManuallyResolved, time.Hour}}}
	w.watcher.RunOnce(t.Context())
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP postrider_dlq_pending_entries Pending investigations, by reason.
# TYPE postrider_dlq_pending_entries gauge
postrider_dlq_pending_entries{reason="dependency_cycle_detected"} 0
postrider_dlq_pending_entries{reason="manual_dlq"} 0
postrider_dlq_pending_entries{reason="max_retries_exceeded"} 0
postrider_dlq_pending_entries{reason="of_the_future"} 1
postrider_dlq_pending_entries{reason="staleness_timeout"} 0
postrider_dlq_pending_entries{reason="unclassified"} 0
postrider_dlq_pending_entries{reason="undeliverable"} 3
postrider_dlq_pending_entries{reason="worker_unavailable"} 0
# HELP postrider_dlq_oldest_pending_age_seconds Age of the oldest pending investigation; 0 when there is none.
# TYPE postrider_dlq_oldest_pending_age_seconds gauge
postrider_dlq_oldest_pending_age_seconds 7200
# HELP postrider_dlq_max_pending_age_seconds The setting dlq.max_pending_age_hours: how old a pending investigation may become before the alert about it.
# TYPE postrider_dlq_max_pending_age_seconds gauge
postrider_dlq_max_pending_age_seconds 86400
# HELP postrider_dlq_pending_age_seconds Ages of the investigations that are pending now, of the 10000 oldest at most. It shows a moment: its buckets fall when investigations are closed, so use no rate of it.
# TYPE postrider_dlq_pending_age_seconds histogram
postrider_dlq_pending_age_seconds_bucket{le="3600"} 2
postrider_dlq_pending_age_seconds_bucket{le="14400"} 3
postrider_dlq_pending_age_seconds_bucket{le="43200"} 3
postrider_dlq_pending_age_seconds_bucket{le="86400"} 3
postrider_dlq_pending_age_seconds_bucket{le="259200"} 3
postrider_dlq_pending_age_seconds_bucket{le="604800"} 3
postrider_dlq_pending_age_seconds_bucket{le="2.4192e+06"} 3
postrider_dlq_pending_age_seconds_bucket{le="+Inf"} 7
postrider_dlq_pending_age_seconds_sum 10800
postrider_dlq_pending_age_seconds_count 7
`), "postrider_dlq_pending_entries", "postrider_dlq_oldest_pending_age_seconds", "postrider_dlq_max_pending_age_seconds", "postrider_dlq_pending_age_seconds"); err != nil {
		t.Error(err)
	}
	for status, want := range map[Status]float64{ManuallyResolved: 2, PermanentlyFailed: 0} {
		if got := testutil.ToFloat64(w.metrics.resolved.WithLabelValues(string(status), string(Undeliverable))); got != want {
			t.Errorf("%v investigations became %s, want %v", got, status, want)
		}
	}
	if n := testutil.CollectAndCount(w.metrics.duration); n != 2 {
		t.Errorf("%d series of durations, want 2", n)
	}
	// Two portions are one look: what counts as closed is the same for both.
	if len(s.since) != 2 || !s.since[0].Equal(s.since[1]) || s.from[1] == s.from[0] {
		t.Errorf("looked from %v since %v", s.from, s.since)
	}
	w.watcher.RunOnce(t.Context())
	if last := s.from[len(s.from)-1]; !s.since[len(s.since)-1].Equal(last.ChangedAt) || last.ChangedAt.IsZero() {
		t.Errorf("the next look is from %v since %v", last, s.since[len(s.since)-1])
	}
	s.standing = Standing{}
	w.watcher.RunOnce(t.Context())
	for _, reason := range []Reason{Undeliverable, "of_the_future"} {
		if got := testutil.ToFloat64(w.metrics.pending.WithLabelValues(string(reason))); got != 0 {
			t.Errorf("%v of reason %s are still shown", got, reason)
		}
	}
}

// TestWatchCountsCauses: groups are shown by state, and each that was opened is counted once, from the second look on.
func TestWatchCountsCauses(t *testing.T) {
	t.Parallel()
	w, s, reg := newTestWatch(t, nil)
	s.standing.Groups, s.opened = map[GroupState]int64{GroupNew: 2, GroupMuted: 1}, OpenedGroups{New: 2, Regressed: 1}
	want := func(states, opened string) {
		t.Helper()
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP postrider_dlq_groups Groups of investigations of one cause, by state (new, ongoing, regressed, resolved, muted); up to 10000 of a state are counted.
# TYPE postrider_dlq_groups gauge
`+states+`# HELP postrider_dlq_groups_opened_total Causes that people have not seen: groups that were made (new), or came back after all of them had been closed (regressed), since this process began to watch. Muted groups do not come back. Counted some seconds later, by every process that watches.
# TYPE postrider_dlq_groups_opened_total counter
`+opened), "postrider_dlq_groups", "postrider_dlq_groups_opened_total"); err != nil {
			t.Error(err)
		}
	}
	states := func(fresh, muted int) string {
		return fmt.Sprintf(`postrider_dlq_groups{state="muted"} %d
postrider_dlq_groups{state="new"} %d
postrider_dlq_groups{state="ongoing"} 0
postrider_dlq_groups{state="regressed"} 0
postrider_dlq_groups{state="resolved"} 0
`, muted, fresh)
	}
	opened := func(fresh, regressed int) string {
		return fmt.Sprintf("postrider_dlq_groups_opened_total{kind=\"new\"} %d\npostrider_dlq_groups_opened_total{kind=\"regressed\"} %d\n", fresh, regressed)
	}
	want(states(0, 0), opened(0, 0))
	w.watcher.RunOnce(t.Context())
	want(states(2, 1), opened(0, 0))
	w.watcher.RunOnce(t.Context())
	s.fail(errAway)
	w.watcher.RunOnce(t.Context())
	want(states(2, 1), opened(2, 1))
	s.fail(nil)
	s.standing.Groups = nil
	w.watcher.RunOnce(t.Context())
	want(states(0, 0), opened(4, 2))
}

// An outage is logged once, counted each time, and leaves the figures and their time as they were.
func TestWatchSurvivesOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w, s, _ := newTestWatch(t, func(c *WatchConfig) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			c.Lag = c.Standings.(*standings).lag
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		wait := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		wait(time.Second)
		read := testutil.ToFloat64(w.metrics.readAt)
		s.fail(errAway)
		wait(30 * time.Second)
		for check, want := range map[string]float64{"investigations": 3, "opened_groups": 3, "closed_investigations": 3, "lag": 3} {
			if got := testutil.ToFloat64(w.metrics.errors.WithLabelValues(check)); got != want {
				t.Errorf("%v failed looks at %s, want %v", got, check, want)
			}
			if n := strings.Count(log.String(), "check="+check+" "); n != 1 {
				t.Errorf("%d lines about %s:\n%s", n, check, &log)
			}
		}
		if testutil.ToFloat64(w.metrics.readAt) != read || testutil.ToFloat64(w.metrics.lag.WithLabelValues("dead")) != 5 {
			t.Error("figures changed while nothing could be read")
		}
		s.fail(nil)
		wait(10 * time.Second)
		if testutil.ToFloat64(w.metrics.readAt) <= read || testutil.ToFloat64(w.metrics.lagReadAt) <= read {
			t.Error("the figures are not read again")
		}
		// What fails because the end has come is no failure.
		s.fail(errAway)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		w.watcher.RunOnce(ctx)
		if got := testutil.ToFloat64(w.metrics.errors.WithLabelValues("investigations")); got != 3 {
			t.Errorf("%v failed looks after the end", got)
		}
		for i, at := range s.at[1:5] {
			if pause := at.Sub(s.at[i]); pause != DefaultWatchInterval {
				t.Errorf("a pause of %v", pause)
			}
		}
	})
}

// However many topics there are, the labels stay few, and no record is uncounted.
func TestLagOfManyTopics(t *testing.T) {
	t.Parallel()
	lag := map[string]int64{}
	w, _, reg := newTestWatch(t, func(c *WatchConfig) {
		c.Lag = func(context.Context) (map[string]int64, error) { return lag, nil }
	})
	for n := range 100 {
		lag[fmt.Sprintf("t%03d", n)] = 1
	}
	w.watcher.RunOnce(t.Context())
	if n, err := testutil.GatherAndCount(reg, "postrider_collector_lag_records"); err != nil || n != maxLagTopics+1 {
		t.Errorf("%d series, %v", n, err)
	}
	if first, other := testutil.ToFloat64(w.metrics.lag.WithLabelValues("t000")), testutil.ToFloat64(w.metrics.lag.WithLabelValues("other")); first != 1 || other != 100-maxLagTopics {
		t.Errorf("lag %v and %v", first, other)
	}
	clear(lag)
	w.watcher.RunOnce(t.Context())
	if first, other := testutil.ToFloat64(w.metrics.lag.WithLabelValues("t000")), testutil.ToFloat64(w.metrics.lag.WithLabelValues("other")); first != 0 || other != 0 {
		t.Errorf("lag of topics that are gone: %v and %v", first, other)
	}
}

func TestWatchRefusesBadConfigs(t *testing.T) {
	t.Parallel()
	used := prometheus.NewRegistry()
	for name, c := range map[string]struct {
		cfg  WatchConfig
		want string
	}{
		"no standings":      {WatchConfig{}, "Standings is required"},
		"negative interval": {WatchConfig{Standings: &standings{}, Interval: -1}, "negative"},
		"negative age":      {WatchConfig{Standings: &standings{}, MaxPendingAge: -1}, "negative"},
		"registered before": {WatchConfig{Standings: &standings{}, Registerer: used}, "register metrics"},
	} {
		if name == "registered before" {
			if _, err := NewWatch(c.cfg); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := NewWatch(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
