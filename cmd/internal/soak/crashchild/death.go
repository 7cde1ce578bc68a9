package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// death kills this process when the chosen step is reached after a time.
type death struct {
	mu    sync.Mutex
	step  string
	after time.Time
	rest  time.Duration // from the first settlement on, as long as after is not known
}

// chooseAfterWork says at which step to die, a time after something was settled.
func (d *death) chooseAfterWork(step string, rest time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.step, d.rest = step, rest
}

// settled notes that something was.
func (d *death) settled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.after.IsZero() && d.rest > 0 {
		d.after = time.Now().Add(d.rest)
	}
}

// choose says at which step to die, from now on or after a time.
func (d *death) choose(step string, after time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.step, d.after = step, after
}

func (d *death) here(step string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.step == step && !d.after.IsZero() && time.Now().After(d.after)
}

// at dies now if this is the step.
func (d *death) at(step string) {
	if d.here(step) {
		die()
	}
}

// during dies a moment after the step began, while it is under way.
func (d *death) during(step string) {
	if d.here(step) {
		go func() {
			time.Sleep(time.Duration(rand.Int64N(int64(3 * time.Millisecond))))
			die()
		}()
	}
}

func die() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

type dyingStore struct {
	relay.Store
	d *death
}

func (s *dyingStore) Lead(ctx context.Context, worker string) (relay.Leadership, error) {
	s.d.during("leading")
	l, err := s.Store.Lead(ctx, worker)
	if l == nil {
		return nil, err
	}
	s.d.at("led")
	return &dyingLeadership{l, s.d}, err
}

func (s *dyingStore) ClaimLetters(ctx context.Context, letterTopic func(string) string, limit int) (relay.LetterClaim, error) {
	c, err := s.Store.ClaimLetters(ctx, letterTopic, limit)
	if c == nil {
		return nil, err
	}
	s.d.at("letters claimed")
	return &dyingLetters{c, s.d}, err
}

type dyingLeadership struct {
	relay.Leadership
	d *death
}

func (l *dyingLeadership) Read(ctx context.Context, q relay.Question) (relay.Page, error) {
	l.d.during("reading")
	page, err := l.Leadership.Read(ctx, q)
	if len(page.Events) > 0 {
		l.d.at("read")
	}
	return page, err
}

func (l *dyingLeadership) Settle(ctx context.Context, rs []*relay.Receipt) error {
	l.d.at("acknowledged")
	l.d.during("settling")
	err := l.Leadership.Settle(ctx, rs)
	if err == nil {
		l.d.settled()
	}
	l.d.at("settled")
	return err
}

func (l *dyingLeadership) Take(ctx context.Context, t relay.Taking) ([]relay.Taken, error) {
	l.d.during("taking")
	taken, err := l.Leadership.Take(ctx, t)
	if len(taken) > 0 {
		l.d.at("taken")
	}
	return taken, err
}

type dyingLetters struct {
	relay.LetterClaim
	d *death
}

func (c *dyingLetters) Settle(ctx context.Context, s *relay.LetterSettlement) error {
	c.d.at("letters acknowledged")
	c.d.during("letters settling")
	return c.LetterClaim.Settle(ctx, s)
}

type dyingPublisher struct {
	relay.Publisher
	d *death
}

func (p *dyingPublisher) Publish(ctx context.Context, ms []relay.Message) []relay.Outcome {
	p.d.during("publishing")
	return p.Publisher.Publish(ctx, ms)
}
