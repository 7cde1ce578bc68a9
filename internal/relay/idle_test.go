package relay

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// poller counts looks: one whenever wait returns.
type poller struct {
	mu    sync.Mutex
	looks []time.Duration // since the beginning
	start time.Time
}

func (p *poller) run(ctx context.Context, i *idle) {
	p.start = time.Now()
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

func (p *poller) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.looks)
}

// looksIn is how often it looks in the time after something was done.
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
		p.run(ctx, newIdle(2*time.Millisecond, 50*time.Millisecond, 1))
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

// TestBusyEndsAPause: a goroutine that says that there is work ends the pause, and the pauses are short again. If no
// goroutine waits, the call is kept, once.
func TestBusyEndsAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		i := newIdle(2*time.Millisecond, 50*time.Millisecond, 1)
		var p poller
		p.run(ctx, i)
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		if n := p.looksIn(0, func() { i.busy(1) }); n != 1 {
			t.Errorf("%d looks at once, want 1", n)
		}
		if n := p.looksIn(time.Second, func() {}); n < 25 {
			t.Errorf("%d looks in the second after there was work, want the short pauses again", n)
		}
		kept := newIdle(time.Hour, time.Hour, 1)
		kept.busy(1)
		kept.busy(1)
		kept.wait(t.Context())
		if len(kept.wake) != 0 {
			t.Error("two wake-ups were kept")
		}
	})
}

// TestIdleStopsAtOnce when its context ends.
func TestIdleStopsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		i := newIdle(time.Hour, time.Hour, 1)
		start := time.Now()
		time.AfterFunc(time.Second, cancel)
		i.wait(ctx)
		if took := time.Since(start); took != time.Second {
			t.Errorf("stopping took %v", took-time.Second)
		}
	})
}

// TestLittleWorkWakesNobody: a little work ends no pause; the next look finds it.
func TestLittleWorkWakesNobody(t *testing.T) {
	t.Parallel()
	i := newIdle(time.Hour, time.Hour, 10)
	i.busy(9)
	select {
	case <-i.wake:
		t.Error("nine events ended a pause")
	default:
	}
	i.busy(10)
	select {
	case <-i.wake:
	default:
		t.Error("a full batch woke no loop")
	}
}
