package relay

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// carry finds n events in each look and works on them for the time work. It returns when each look began.
func carry(t *testing.T, i *idle, n int, work, total time.Duration) []time.Time {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	looks := make(chan time.Time, 100_000)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			looks <- time.Now()
			time.Sleep(work)
			i.busy(n)
			i.after(ctx, n)
		}
	})
	time.Sleep(total)
	cancel()
	wg.Wait()
	close(looks)
	var all []time.Time
	for at := range looks {
		all = append(all, at)
	}
	return all
}

// TestLittleWorkIsSpaced: a loop that finds a few events each time does not look as fast as it can.
func TestLittleWorkIsSpaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newIdle(2*time.Millisecond, 50*time.Millisecond, 500)
		looks := carry(t, i, 3, 300*time.Microsecond, time.Second)
		for n := 2; n < len(looks); n++ { // before the first there is none to be apart from
			if pause := looks[n].Sub(looks[n-1]); pause < time.Millisecond/2 {
				t.Fatalf("look %d began %v after the one before", n, pause)
			}
		}
		if len(looks) < 490 || len(looks) > 510 {
			t.Errorf("%d looks in a second, want one every 2 ms", len(looks))
		}
	})
}

// TestTheNextLookIsNotLate: the pause counts from the last look and not from the end of the work, which may
// take longer by itself, and what a look is late the next one is early.
func TestTheNextLookIsNotLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newIdle(2*time.Millisecond, 50*time.Millisecond, 500)
		if looks := carry(t, i, 3, 10*time.Millisecond, time.Second); len(looks) < 100 {
			t.Errorf("one that needs 10 ms looked %d times in a second", len(looks))
		}
	})
}

// TestMuchWorkGoesOnAtOnce: a full half of a batch, or a number of events that is no longer little, is not paced.
func TestMuchWorkGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ full, found int }{
		"half of a large batch": {500, 500}, "half of a small batch": {5, 5}, "much for its pace": {5000, little * paceMost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				i := newIdle(2*time.Millisecond, 50*time.Millisecond, c.full)
				looks := carry(t, i, c.found, 100*time.Microsecond, 100*time.Millisecond)
				if len(looks) < 975 {
					t.Errorf("%d looks in 100 ms of one that needs 0.1 ms, want that it goes on at once", len(looks))
				}
			})
		})
	}
}

// TestLooksAreFurtherApartWhereMuchComes: what a look costs does not depend on what it finds, so at a high rate there
// are fewer, and each finds more. At a rate where a millisecond counts there are as many as ever, and a rate that
// falls brings them back.
func TestLooksAreFurtherApartWhereMuchComes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate     int // events a second
		from, to int // looks a second
	}{{2000, 490, 510}, {3000, 450, 510}, {6000, 110, 140}, {12_000, 45, 60}, {50_000, 45, 200}} {
		t.Run(strconv.Itoa(c.rate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				i := newIdle(2*time.Millisecond, 50*time.Millisecond, 500)
				a := arrivals{start: time.Now(), rate: c.rate}
				a.looks(t, i, time.Second) // until it has found its pace
				if n := a.looks(t, i, time.Second); n < c.from || n > c.to {
					t.Errorf("%d looks in a second, want %d to %d", n, c.from, c.to)
				}
				if waits := a.due(); waits > c.rate/40 {
					t.Errorf("%d events wait at the end", waits)
				}
				a.start, a.rate, a.taken = time.Now(), 1000, 0
				a.looks(t, i, 100*time.Millisecond)
				if n := a.looks(t, i, time.Second); n < 490 {
					t.Errorf("%d looks in a second after the rate has fallen", n)
				}
			})
		})
	}
}

// TestPaceIsOfWhatWasFound: events that come back and end a pause do not count as events that came.
func TestPaceIsOfWhatWasFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newIdle(2*time.Millisecond, 50*time.Millisecond, 500)
		for range 100 {
			time.Sleep(5 * time.Millisecond)
			i.busy(1000)
			i.after(t.Context(), 10)
		}
		if f := i.pace.factor(); f != 1 {
			t.Errorf("at 2,000 a second looks are %v times further apart", f)
		}
	})
}

// arrivals are events that come at a rate and wait until they are found.
type arrivals struct {
	mu    sync.Mutex
	start time.Time
	rate  int
	taken int
}

// due returns how many wait.
func (a *arrivals) due() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(time.Since(a.start).Seconds()*float64(a.rate)) - a.taken
}

// take takes all that wait, at most the limit of a batch.
func (a *arrivals) take() int {
	n := min(a.due(), 1000)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken += n
	return n
}

// looks carries the events that come in the time total, and returns how often it looked.
func (a *arrivals) looks(t *testing.T, i *idle, total time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), total)
	defer cancel()
	var n atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			n.Add(1)
			found := a.take()
			time.Sleep(500 * time.Microsecond)
			if found == 0 {
				i.wait(ctx)
				continue
			}
			i.busy(found)
			i.after(ctx, found)
		}
	})
	wg.Wait()
	return int(n.Load())
}

// TestLittleAfterMuch: looks that went on at once put nothing off.
func TestLittleAfterMuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newIdle(2*time.Millisecond, 50*time.Millisecond, 500)
		for range 1000 {
			i.after(t.Context(), 1000)
		}
		start := time.Now()
		i.after(t.Context(), 1)
		if waited := time.Since(start); waited > 2*time.Millisecond {
			t.Errorf("the next look came after %v", waited)
		}
	})
}

// TestWhoFoundSomethingLooksAgainWhileWritersNotify: the first look may have begun before the event that notified
// was committed, and the next one would be long in coming.
func TestWhoFoundSomethingLooksAgainWhileWritersNotify(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := newFakeNotifier()
		i := newIdle(2*time.Millisecond, 50*time.Millisecond, 500).withNotifier(d, 500*time.Millisecond)
		var p poller
		p.run(ctx, i)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !d.Armed() {
			t.Fatal("writers were not asked to notify")
		}
		start := time.Now()
		i.busy(1)
		i.after(ctx, 1)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the second look came after %v", waited)
		}
	})
}

// TestACrowdLooksAsOftenAsOne: of relays that find events at the same time each looks less often; one that finds none any more
// leaves the others their looks, and so does one whose term ends.
func TestACrowdLooksAsOftenAsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		crowd := &Crowd{}
		all := make([]*idle, 5)
		for n := range all {
			all[n] = newIdle(2*time.Millisecond, 50*time.Millisecond, 500)
			all[n].crowd = crowd
		}
		looks := func(of ...*idle) (sum int) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for _, i := range of {
				wg.Go(func() {
					n := len(carry(t, i, 3, 100*time.Microsecond, time.Second))
					mu.Lock()
					defer mu.Unlock()
					sum += n
				})
			}
			wg.Wait()
			return sum
		}
		looks(all...) // until all are known
		if n := looks(all...); n < 450 || n > 550 {
			t.Errorf("five look %d times a second, want about 500", n)
		}
		for _, i := range all[1:4] {
			time.Sleep(crowdLeave)
			i.poll(t.Context())
		}
		all[4].quit()
		if n := looks(all[0]); n < 450 {
			t.Errorf("the last that finds events looks %d times a second", n)
		}
		many := &Crowd{}
		many.busy.Store(100)
		i := newIdle(2*time.Millisecond, 50*time.Millisecond, 500)
		i.crowd = many
		if n := looks(i); n < 45 {
			t.Errorf("one of a hundred looks %d times a second, want one look in 20 ms", n)
		}
	})
}
