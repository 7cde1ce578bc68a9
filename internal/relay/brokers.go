package relay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/postrider/postrider/internal/loop"
)

// pingTimeout bounds one question to the brokers.
const pingTimeout = 2 * time.Second

// firstReminder and lastReminder bound the pauses between the lines that say that brokers are still away.
const (
	firstReminder = 10 * time.Second
	lastReminder  = 5 * time.Minute
)

// brokers stops this relay, and only this one, while it reaches no broker at all. That says nothing
// about any topic, so it puts no hold in place for the others: the events stay pending, and another
// relay with a better network may carry them.
type brokers struct {
	mu   sync.Mutex
	back chan struct{} // closed when they are back; nil while they are there
}

// wait returns when the brokers are there, as far as is known, or ctx ends.
func (b *brokers) wait(ctx context.Context) {
	b.mu.Lock()
	back := b.back
	b.mu.Unlock()
	if back == nil {
		return
	}
	select {
	case <-back:
	case <-ctx.Done():
	}
}

// away reports whether the brokers are known to be lost.
func (b *brokers) away() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.back != nil
}

// brokersLost is returned by a cycle that holds no claim and can send nothing. Its loop waits, and not the
// cycle: an outage lasts longer than a cycle may.
type brokersLost struct {
	err error // nil when another worker has found out, and asks
}

func (l *brokersLost) Error() string {
	if l.err == nil {
		return "no broker answers"
	}
	return fmt.Sprintf("no broker answers: %v", l.err)
}

func (l *brokersLost) Unwrap() error { return l.err }

// endure waits until a broker answers or ctx ends.
func (r *Relay) endure(ctx context.Context, l *brokersLost) {
	if l.err == nil {
		r.brokers.wait(ctx)
		return
	}
	r.awaitBrokers(ctx, l.err)
}

// lost returns an error when nothing of a batch went through and no broker answers.
func (r *Relay) lost(ctx context.Context, outcomes []Outcome) error {
	failed := 0
	for i := range outcomes {
		switch outcomes[i].Class {
		case Infrastructure:
			failed++
		case Withheld:
		default:
			return nil
		}
	}
	if failed == 0 {
		return nil
	}
	return r.ping(ctx)
}

// awaitBrokers keeps all workers from claiming until a broker answers or ctx ends. The caller holds no
// claim.
func (r *Relay) awaitBrokers(ctx context.Context, err error) {
	b := &r.brokers
	b.mu.Lock()
	if b.back != nil {
		b.mu.Unlock()
		b.wait(ctx)
		return
	}
	back := make(chan struct{})
	b.back = back
	b.mu.Unlock()
	r.metrics.brokersAway.Set(1)
	r.cfg.Logger.Error("no broker answers: nothing is published until one does; check the broker addresses and the network", "err", err)
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
	began, reminder := time.Now(), firstReminder
	next := began.Add(reminder)
	for ctx.Err() == nil {
		if err = r.ping(ctx); err == nil {
			r.cfg.Logger.Info("brokers answer again", "away", time.Since(began).Round(time.Millisecond).String())
			break
		}
		if now := time.Now(); ctx.Err() == nil && !now.Before(next) {
			r.cfg.Logger.Error("still no broker answers, nothing is published", "away", now.Sub(began).Round(time.Second).String(), "err", err)
			reminder = min(2*reminder, lastReminder)
			next = now.Add(reminder)
		}
		_ = loop.Sleep(ctx, pause.NextBackOff())
	}
	r.metrics.brokersAway.Set(0)
	b.mu.Lock()
	b.back = nil
	b.mu.Unlock()
	close(back)
}

func (r *Relay) ping(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return r.cfg.Publisher.Ping(bounded)
}
