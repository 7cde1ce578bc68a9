package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// counting answers how often it was asked, after a while.
type counting struct {
	asked int
	takes time.Duration
	fails error
}

func (c *counting) ask(ctx context.Context) (int, error) {
	c.asked++
	n := c.asked
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return n, c.fails
}

func TestARecentAnswerIsSharedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recent[int]
		c := &counting{takes: 300 * time.Millisecond}
		got := make(chan int, 5)
		for range 5 { // at once: one asks, the others wait for it
			go func() {
				n, err := r.get(t.Context(), c.ask)
				if err != nil {
					t.Error(err)
				}
				got <- n
			}()
		}
		for range 5 {
			if n := <-got; n != 1 {
				t.Errorf("the answer of question %d", n)
			}
		}
		// A second after it was asked, not after it came.
		for _, step := range []struct {
			pause time.Duration
			want  int
		}{{699 * time.Millisecond, 1}, {time.Millisecond, 2}, {0, 2}} {
			time.Sleep(step.pause)
			if n, err := r.get(t.Context(), c.ask); n != step.want || err != nil {
				t.Errorf("after %v: the answer of question %d, want %d, %v", step.pause, n, step.want, err)
			}
		}
	})
}

// TestAFailureIsForWhoAskedAlone: who waited asks again, also when the first one gave up.
func TestAFailureIsForWhoAskedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recent[int]
		c := &counting{takes: 300 * time.Millisecond}
		hasty, giveUp := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer giveUp()
		first := make(chan error, 1)
		go func() {
			_, err := r.get(hasty, c.ask)
			first <- err
		}()
		synctest.Wait()
		if n, err := r.get(t.Context(), c.ask); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first: %v", err)
		}
		time.Sleep(time.Second)
		broken := errors.New("broken")
		c.fails = broken
		if _, err := r.get(t.Context(), c.ask); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		c.fails = nil
		if n, err := r.get(t.Context(), c.ask); n != 4 || err != nil {
			t.Errorf("a failure was kept: %d, %v", n, err)
		}
	})
}

func TestWhoWaitsForAnAnswerMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recent[int]
		c := &counting{takes: time.Second}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if n, err := r.get(t.Context(), c.ask); n != 1 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}()
		synctest.Wait()
		hasty, giveUp := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer giveUp()
		if _, err := r.get(hasty, c.ask); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		<-done
		if c.asked != 1 {
			t.Errorf("asked %d times", c.asked)
		}
	})
}

// TestASlowAnswerIsForThoseWhoWaited: an answer that took longer than it is kept answers the callers that waited for it, and
// no later caller.
func TestASlowAnswerIsForThoseWhoWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recent[int]{age: 30 * time.Second}
		c := &counting{takes: 40 * time.Second}
		got := make(chan int, 4)
		for range 4 {
			go func() {
				n, err := r.get(t.Context(), c.ask)
				if err != nil {
					t.Error(err)
				}
				got <- n
			}()
		}
		for range 4 {
			if n := <-got; n != 1 {
				t.Errorf("a caller that waited has the answer of question %d", n)
			}
		}
		if n, err := r.get(t.Context(), c.ask); n != 2 || err != nil {
			t.Errorf("a later caller has the answer of question %d, %v", n, err)
		}
	})
}

func TestAPanicKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	var r recent[int]
	func() {
		defer func() { _ = recover() }()
		_, _ = r.get(t.Context(), func(context.Context) (int, error) { panic("broken") })
	}()
	if n, err := r.get(t.Context(), func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
