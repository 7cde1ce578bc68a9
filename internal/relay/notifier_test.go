package relay

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// fakeNotifier is a notifier whose writers and connection are played by a test.
type fakeNotifier struct {
	mu        sync.Mutex
	alive     bool
	refuses   bool
	until     time.Time
	armings   []time.Time
	listening bool
	notified  chan struct{}
}

func newFakeNotifier() *fakeNotifier {
	return &fakeNotifier{alive: true, notified: make(chan struct{}, 1)}
}

func (d *fakeNotifier) Listen(ctx context.Context) {
	d.set(func() { d.listening = true })
	<-ctx.Done()
	d.set(func() { d.listening = false })
}

func (d *fakeNotifier) hears() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.listening
}

func (d *fakeNotifier) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *fakeNotifier) Notified() <-chan struct{} { return d.notified }

func (d *fakeNotifier) Alive() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.alive
}

func (d *fakeNotifier) Armed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.alive && time.Now().Before(d.until)
}

func (d *fakeNotifier) Arm(context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armings = append(d.armings, time.Now())
	if d.refuses || !d.alive {
		return false
	}
	d.until = time.Now().Add(10 * time.Second)
	return true
}

// asked are the times at which writers were asked to notify.
func (d *fakeNotifier) asked() []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.armings)
}

// write is a writer that commits: it notifies if it was asked to.
func (d *fakeNotifier) write() {
	if d.Armed() {
		d.notify()
	}
}

func (d *fakeNotifier) notify() {
	select {
	case d.notified <- struct{}{}:
	default:
	}
}

// listening is a poller that waits with a notifier, in a bubble.
func listening(t *testing.T, d *fakeNotifier) (*poller, *idle) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	i := newIdle(2*time.Millisecond, 50*time.Millisecond, 1).withNotifier(d, 500*time.Millisecond)
	p := &poller{}
	p.run(ctx, i)
	return p, i
}

// soon is long enough for a goroutine that was woken to look, and nothing beside the pauses.
const soon = time.Microsecond

func TestNotificationWakesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFakeNotifier()
		p, _ := listening(t, d)
		time.Sleep(5 * time.Second)
		for range 20 {
			time.Sleep(73 * time.Millisecond)
			synctest.Wait()
			if n := p.looksIn(soon, d.write); n != 1 {
				t.Fatalf("%d looks after a notification, want 1", n)
			}
		}
	})
}

func TestIdleRelayLooksSeldomWhileWritersNotify(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFakeNotifier()
		p, _ := listening(t, d)
		time.Sleep(5 * time.Second)
		// Two a second, and one after each time that writers were asked again.
		if n := p.looksIn(20*time.Second, func() {}); n < 40 || n > 46 {
			t.Errorf("%d looks in 20 s, want some 42", n)
		}
		if n := len(d.asked()); n < 3 || n > 5 {
			t.Errorf("writers were asked %d times in 25 s, want every 10 s", n)
		}
	})
}

// TestLookAfterArming: an event that was written before writers notified, and so did not notify, is found by the
// look that follows at once.
func TestLookAfterArming(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFakeNotifier()
		p, i := listening(t, d)
		time.Sleep(time.Second)
		d.set(func() { d.until, d.armings = time.Time{}, nil }) // a burst ended it
		i.busy(1)
		d.notify()
		start := time.Now()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(d.asked()) != 1 {
			t.Fatalf("writers were asked %d times", len(d.asked()))
		}
		armed := d.asked()[0]
		if quiet := armed.Sub(start); quiet < calm || quiet > 2*calm {
			t.Errorf("writers were asked after %v of quiet, want soon after %v", quiet, calm)
		}
		looked := false
		for _, at := range p.looks {
			looked = looked || p.start.Add(at).Equal(armed)
		}
		if !looked {
			t.Errorf("no loop looked when writers began to notify, at %v: %v", armed.Sub(p.start), p.looks)
		}
	})
}

// TestLostNotification: what committed without a notification after writers were asked, because it was written before, waits
// no longer than half of the time since, and never longer than the longest pause.
func TestLostNotification(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, time.Second, 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := newFakeNotifier()
			p, i := listening(t, d)
			i.busy(1)
			for len(d.asked()) == 0 {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			time.Sleep(late)
			synctest.Wait()
			committed, before := time.Now(), p.count()
			for p.count() == before {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			if waited := time.Since(committed); waited > min(500*time.Millisecond, calm+late/2) {
				t.Errorf("an event that committed %v after waited %v", late, waited)
			}
		})
	}
}

// TestPollingWithoutANotifier: a notifier that does not work, or that may not be armed, costs nothing but a
// question now and then.
func TestPollingWithoutANotifier(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play       func(*fakeNotifier)
		atLeast    int
		atMost     int
		minArmings int
		maxArmings int
	}{
		"dead":    {func(d *fakeNotifier) { d.alive = false }, 190, 220, 0, 0},
		"refused": {func(d *fakeNotifier) { d.refuses = true }, 190, 220, 30, 41},
		"dies in between": {func(d *fakeNotifier) {
			time.AfterFunc(3*time.Second, func() { d.set(func() { d.alive = false }); d.notify() })
		}, 145, 180, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newFakeNotifier()
				c.play(d)
				p, _ := listening(t, d)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if n := p.count(); n < c.atLeast || n > c.atMost {
					t.Errorf("%d looks in 10 s, want %d to %d", n, c.atLeast, c.atMost)
				}
				if n := len(d.asked()); n < c.minArmings || n > c.maxArmings {
					t.Errorf("writers were asked %d times, want %d to %d", n, c.minArmings, c.maxArmings)
				}
			})
		})
	}
}

// TestBusyRelayDoesNotArm: while there is work every few milliseconds writers are left alone.
func TestBusyRelayDoesNotArm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFakeNotifier()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		i := newIdle(2*time.Millisecond, 50*time.Millisecond, 1).withNotifier(d, 500*time.Millisecond)
		i.busy(1)
		for range 500 {
			i.wait(ctx)
			i.busy(1)
		}
		if len(d.asked()) != 0 {
			t.Errorf("writers were asked %d times to wake a busy relay", len(d.asked()))
		}
	})
}

// TestBurstEndsNotifying: when writers are told to stop, a poller that slept long polls fast, even if the look that the
// notification woke ended before that was known.
func TestBurstEndsNotifying(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newFakeNotifier()
		p, i := listening(t, d)
		time.Sleep(5 * time.Second)
		i.busy(0)
		d.set(func() { d.until, d.refuses = time.Time{}, true })
		d.notify()
		time.Sleep(soon)
		synctest.Wait()
		if n := p.looksIn(20*time.Millisecond, func() {}); n < 4 {
			t.Errorf("%d looks in the 20 ms after a burst", n)
		}
	})
}

// TestRunListens: a running relay listens and stops listening, and says so.
func TestRunListens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, reg := newFakeNotifier(), prometheus.NewRegistry()
		r := testRelay(t, func(c *Config) { c.Store, c.Notifier, c.Registerer = newMemory(), d, reg })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if !d.hears() || !d.Armed() {
			t.Errorf("listening %v, armed %v", d.hears(), d.Armed())
		}
		for _, alive := range []string{"1", "0"} {
			d.set(func() { d.alive = alive == "1" })
			if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP postrider_outbox_notifier_alive 1 while writers can wake this relay, 0 while it only polls.
# TYPE postrider_outbox_notifier_alive gauge
postrider_outbox_notifier_alive `+alive+"\n"), "postrider_outbox_notifier_alive"); err != nil {
				t.Error(err)
			}
		}
		stop()
		if err := <-ended; err != nil || d.hears() {
			t.Errorf("Run() = %v, listening %v", err, d.hears())
		}
	})
}
