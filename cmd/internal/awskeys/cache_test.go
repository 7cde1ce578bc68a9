package awskeys

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// asking is what a cache asks: it answers after a while, with keys that live for so long, or with an error.
type asking struct {
	after, lives time.Duration
	err          error
	n            int
}

func (a *asking) ask(ctx context.Context) (Keys, error) {
	a.n++
	n, lives, err := a.n, a.lives, a.err
	select {
	case <-ctx.Done():
		return Keys{}, ctx.Err()
	case <-time.After(a.after):
	}
	if err != nil {
		return Keys{}, err
	}
	k := Keys{AccessKeyID: string(rune('A' + n - 1)), SecretAccessKey: "s"}
	if lives > 0 {
		k.Expires = time.Now().Add(lives)
	}
	return k, nil
}

func TestKeysAreKeptAWhile(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		a := &asking{lives: time.Hour}
		c := &cache{ask: a.ask}
		get := func(want string) {
			t.Helper()
			if k, err := c.get(t.Context()); err != nil || k.AccessKeyID != want {
				t.Errorf("got %q, %v, want %q", k.AccessKeyID, err, want)
			}
		}
		get("A")
		time.Sleep(keep - 1)
		get("A")
		time.Sleep(time.Nanosecond)
		get("B") // asked again, though A lives
		a.err = broken
		time.Sleep(keep)
		get("B") // nothing better is to be had
		get("B")
		if a.n != 4 { // and each looks whether there is
			t.Errorf("asked %d times, want 4", a.n)
		}
		time.Sleep(time.Hour - keep - spare)
		if _, err := c.get(t.Context()); !errors.Is(err, broken) {
			t.Errorf("keys that are about to end are used: %v", err)
		}
		a.err, a.lives = nil, time.Minute
		get("F")
		time.Sleep(time.Minute - spare)
		get("G") // F lives, but not long enough to be kept
		a.lives = 0
		time.Sleep(time.Minute)
		get("H")
		time.Sleep(keep - 1)
		get("H")
		a.err = broken
		time.Sleep(time.Nanosecond)
		if _, err := c.get(t.Context()); !errors.Is(err, broken) {
			t.Errorf("keys of which nobody knows whether they live are used: %v", err)
		}
	})
}

// However many callers want keys, one asks; a caller that goes away fails no other, and no caller waits for ever.
func TestOneAsksForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asking{after: time.Second, lives: time.Hour}
		c := &cache{ask: a.ask}
		first, leave := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.get(first); !errors.Is(err, gone) {
				t.Errorf("who goes away gets %v", err)
			}
		})
		synctest.Wait()
		for range 50 {
			all.Go(func() {
				if k, err := c.get(t.Context()); err != nil || k.AccessKeyID != "A" {
					t.Errorf("got %q, %v", k.AccessKeyID, err)
				}
			})
		}
		synctest.Wait()
		leave(gone)
		all.Wait()
		if a.n != 1 {
			t.Errorf("asked %d times", a.n)
		}
		a.after = time.Hour
		time.Sleep(keep)
		begin := time.Now()
		if k, err := c.get(t.Context()); err != nil || k.AccessKeyID != "A" || time.Since(begin) != askTimeout {
			t.Errorf("after %v without an answer: %q, %v", time.Since(begin), k.AccessKeyID, err)
		}
		time.Sleep(time.Hour)
		if _, err := c.get(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without an answer: %v", err)
		}
	})
}
