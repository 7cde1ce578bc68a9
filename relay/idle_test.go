package relay

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// poller counts the looks of workers that share an idle, each looking whenever wait returns.
type poller struct {
	mu    sync.Mutex
	looks []time.Duration // since the beginning
	start time.Time
}

func (p *poller) run(ctx context.Context, i *idle, workers int) {
	p.start = time.Now()
	for range workers {
		go func() {
			for {
				i.wait(ctx)
				if ctx.Err() != nil {
					return
				}
				p.mu.Lock()
				p.looks = append(p.looks, time.Since(p.start))
				p.mu.Unlock()
			}
		}()
	}
}

func (p *poller) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.looks)
}

// looksIn is how often the workers look in the time after something was done.
func (p *poller) looksIn(d time.Duration, after func()) int {
	before := p.count()
	after()
	time.Sleep(d)
	synctest.Wait()
	return p.count() - before
}

func TestIdlePausesGrowToTheirLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var p poller
		p.run(ctx, newIdle(2*time.Millisecond, 50*time.Millisecond, 1), 1)
		time.Sleep(10 * time.Second)
		cancel()
		synctest.Wait()
		if len(p.looks) < 200 || len(p.looks) > 220 {
			t.Fatalf("%d looks in 10 s, want one every 50 ms and some more in the beginning", len(p.looks))
		}
		if first := p.looks[0]; first != 2*time.Millisecond {
			t.Errorf("the first look came after %v", first)
		}
		last := time.Duration(0)
		for n := 1; n < len(p.looks); n++ {
			pause := p.looks[n] - p.looks[n-1]
			if pause < last || pause > 50*time.Millisecond {
				t.Fatalf("pause %d is %v, after one of %v", n, pause, last)
			}
			last = pause
		}
		if last != 50*time.Millisecond {
			t.Errorf("the last pause was %v", last)
		}
	})
}

func TestManyIdleWorkersPollLikeOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var one, ten poller
		one.run(ctx, newIdle(2*time.Millisecond, 50*time.Millisecond, 1), 1)
		ten.run(ctx, newIdle(2*time.Millisecond, 50*time.Millisecond, 1), 10)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if a, b := one.count(), ten.count(); a != b {
			t.Errorf("one worker looks %d times, ten look %d times", a, b)
		}
		cancel()
	})
}

func TestBusyWakesOneWorkerAndPollsFast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		i := newIdle(2*time.Millisecond, 50*time.Millisecond, 1)
		var p poller
		p.run(ctx, i, 3)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		before := p.count()
		i.busy(1)
		synctest.Wait()
		if woken := p.count() - before; woken != 1 {
			t.Errorf("%d workers looked at once, want 1", woken)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if looks := p.count() - before; looks < 25 {
			t.Errorf("%d looks in the second after there was work, want the short pauses again", looks)
		}
		cancel()
	})
}

func TestBusyIsKeptForWhoeverComes(t *testing.T) {
	t.Parallel()
	i := newIdle(time.Hour, time.Hour, 1)
	i.busy(1)
	i.busy(1) // one wake-up is enough: whoever takes it wakes the next
	<-i.polling
	i.wait(t.Context())
	if len(i.wake) != 0 {
		t.Error("two wake-ups were kept")
	}
}

func TestIdleWorkersStopAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		i := newIdle(time.Hour, time.Hour, 1)
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { i.wait(ctx) })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("stopping took %v", took)
		}
		// The poller gave its turn back.
		i.min, i.pause = 0, 0
		i.wait(t.Context())
	})
}

// TestLittleWorkWakesNobody: one worker after the other would only make the batches smaller.
func TestLittleWorkWakesNobody(t *testing.T) {
	t.Parallel()
	i := newIdle(time.Hour, time.Hour, 10)
	i.busy(9)
	select {
	case <-i.wake:
		t.Error("nine events woke another worker")
	default:
	}
	i.busy(10)
	select {
	case <-i.wake:
	default:
		t.Error("a full batch woke nobody")
	}
}
