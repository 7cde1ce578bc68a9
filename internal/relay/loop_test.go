package relay

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func testRelay(t *testing.T, change func(*Config)) *Relay {
	t.Helper()
	c := Config{Store: &fakeStore{}, Publisher: &fakePublisher{}}
	if change != nil {
		change(&c)
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// script is a cycle whose results are given in advance; after the last it ends the loop.
type script struct {
	results []int // events found; -1 fails
	stop    context.CancelFunc
	at      []time.Duration
	start   time.Time
}

func (s *script) run(context.Context) (int, error) {
	n := len(s.at)
	s.at = append(s.at, time.Since(s.start))
	if n == len(s.results)-1 {
		s.stop()
	}
	if s.results[n] < 0 {
		return 0, errTest
	}
	return s.results[n], nil
}

func runLoop(t *testing.T, r *Relay, results ...int) []time.Duration {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &script{results: results, stop: cancel, start: time.Now()}
	r.loop(ctx, "publish", s.run, newIdle(2*time.Millisecond, 50*time.Millisecond, 1))
	return s.at
}

func TestLoopDoesNotPauseWhileThereIsWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if at := runLoop(t, testRelay(t, nil), 5, 1, 1000, 1); at[len(at)-1] != 0 {
			t.Errorf("the cycles began at %v", at)
		}
	})
}

func TestLoopPausesWhenThereIsNoWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := runLoop(t, testRelay(t, nil), 0, 0, 0)
		if at[0] != 0 || at[1] != 2*time.Millisecond || at[2] <= 4*time.Millisecond {
			t.Errorf("the cycles began at %v", at)
		}
	})
}

func TestLoopBacksOffAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testRelay(t, nil)
		failures := slices.Repeat([]int{-1}, 40)
		at := runLoop(t, r, slices.Concat(failures, []int{1}, []int{-1, 1})...)
		for n := range 40 {
			pause := at[n+1] - at[n]
			if pause < 25*time.Millisecond || pause > 7500*time.Millisecond {
				t.Errorf("the pause after failure %d is %v", n+1, pause)
			}
			if n > 25 && pause < 2500*time.Millisecond {
				t.Errorf("the pause after failure %d is only %v", n+1, pause)
			}
		}
		if pause := at[41] - at[40]; pause != 0 {
			t.Errorf("after a cycle that worked the pause is %v", pause)
		}
		if pause := at[42] - at[41]; pause > 75*time.Millisecond {
			t.Errorf("the first pause after it worked again is %v", pause)
		}
		if got := testutil.ToFloat64(r.metrics.errors.WithLabelValues("publish")); got != 41 {
			t.Errorf("%v failed cycles are counted, want 41", got)
		}
	})
}

// TestLoopSurvivesASilentDatabase: a query that is never answered must not end the loop's work for good.
func TestLoopSurvivesASilentDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cycles := 0
		start := time.Now()
		testRelay(t, nil).loop(ctx, "publish", func(ctx context.Context) (int, error) {
			cycles++
			if cycles == 1 {
				<-ctx.Done() // half-open connection
				return 0, ctx.Err()
			}
			cancel()
			return 0, nil
		}, newIdle(time.Millisecond, time.Millisecond, 1))
		if took := time.Since(start); cycles != 2 || took > 2*time.Minute {
			t.Errorf("%d cycles in %v", cycles, took)
		}
	})
}

func TestLoopStopsAtOnce(t *testing.T) {
	t.Parallel()
	for name, results := range map[string][]int{"idle": {0}, "failing": {-1}, "busy": {7}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := testRelay(t, nil)
				start := time.Now()
				runLoop(t, r, results...)
				if took := time.Since(start); took != 0 {
					t.Errorf("stopping took %v", took)
				}
				// A cycle that fails because it was told to stop did not fail.
				if got := testutil.ToFloat64(r.metrics.errors.WithLabelValues("publish")); got != 0 {
					t.Errorf("%v failed cycles are counted", got)
				}
			})
		})
	}
}
