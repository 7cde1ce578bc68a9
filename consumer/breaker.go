package consumer

import (
	"sync"
	"sync/atomic"
	"time"
)

// BreakerEvent says that a topic pauses instead of being given up as a whole, or that it goes on.
type BreakerEvent struct {
	// Topic is the one of Config.Topics; its retry topics pause with it.
	Topic string
	// Paused is false when it goes on.
	Paused bool
	// Until is when one message is tried.
	Until time.Time
	// Consecutive is how many messages were given up with none handled between, Share the share of given up ones among
	// the last.
	Consecutive int
	Share       float64
}

// breaker is the circuit breaker of a topic. It counts in this process alone.
type breaker struct {
	topic string
	cfg   Breaker
	tell  func(BreakerEvent)
	// open is read before every message without the lock.
	open atomic.Bool

	mu             sync.Mutex
	consecutive    int
	handledN, dead float64 // of the last messages; halved when they are as many as the window
	until          time.Time
	pause          time.Duration
	probing        bool
}

func newBreaker(topic string, cfg Breaker, tell func(BreakerEvent)) *breaker {
	return &breaker{topic: topic, cfg: cfg, tell: tell}
}

// handled takes note of n messages that were done.
func (b *breaker) handled(n int) {
	if n == 0 || b.cfg.Off {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.consecutive = 0
	b.handledN += float64(min(n, b.cfg.Window))
	b.age()
}

func (b *breaker) age() {
	if b.handledN+b.dead >= float64(b.cfg.Window) {
		b.handledN, b.dead = b.handledN/2, b.dead/2
	}
}

// recheck is the longest time until a lane that waits for the end of a pause looks again: Resume may have ended it.
const recheck = time.Second

// enter asks whether a message may be tried now. A probe must be ended by probed. Otherwise wait says when to ask again.
func (b *breaker) enter(now time.Time) (ok, probe bool, wait time.Duration) {
	if !b.open.Load() {
		return true, false, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.open.Load():
		return true, false, 0
	case now.Before(b.until):
		return false, false, min(b.until.Sub(now), recheck)
	case b.probing:
		return false, false, recheck
	}
	b.probing = true
	return true, true, 0
}

// admit asks whether a message may be given up now. One that may not is tried again when enter lets it.
func (b *breaker) admit(probe bool, now time.Time) bool {
	if b.cfg.Off {
		return true
	}
	b.mu.Lock()
	if probe {
		defer b.mu.Unlock()
		return true // one each pause, or a truly broken one would keep the topic for ever
	}
	if b.open.Load() {
		b.mu.Unlock()
		return false
	}
	n := b.handledN + b.dead + 1
	share := (b.dead + 1) / n
	if b.consecutive < b.cfg.Consecutive && (n < float64(b.cfg.Window)/10 || share <= b.cfg.Ratio) {
		b.consecutive++
		b.dead++
		b.age()
		b.mu.Unlock()
		return true
	}
	b.pause = b.cfg.Pause
	event := b.shut(now)
	b.mu.Unlock()
	b.tell(event)
	return false
}

// shut pauses the topic for b.pause. b.mu is held.
func (b *breaker) shut(now time.Time) BreakerEvent {
	b.open.Store(true)
	b.until = now.Add(b.pause)
	share := 0.0
	if n := b.handledN + b.dead; n > 0 {
		share = b.dead / n
	}
	return BreakerEvent{Topic: b.topic, Paused: true, Until: b.until, Consecutive: b.consecutive, Share: share}
}

// probed ends a probe: the topic goes on, or pauses for longer.
func (b *breaker) probed(handled bool, now time.Time) {
	b.mu.Lock()
	b.probing = false
	var event BreakerEvent
	switch {
	case !b.open.Load():
		b.mu.Unlock()
		return
	case handled:
		b.open.Store(false)
		b.consecutive, b.handledN, b.dead = 0, 0, 0
		event = BreakerEvent{Topic: b.topic}
	default:
		b.pause = min(2*b.pause, b.cfg.MaxPause)
		event = b.shut(now)
	}
	b.mu.Unlock()
	b.tell(event)
}

// release gives a probe back that came to nothing because its partition went away.
func (b *breaker) release() {
	b.mu.Lock()
	b.probing = false
	b.mu.Unlock()
}

// resume ends the pause now.
func (b *breaker) resume() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open.Load() {
		return false
	}
	b.until = time.Time{}
	return true
}
