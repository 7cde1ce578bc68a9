package relay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

func infrastructure(context.Context, Message) Outcome {
	return Outcome{Class: Infrastructure, Code: "X"}
}

// TestLostBrokersHoldNothing: a relay that reaches no broker gives its claim back before it waits, puts
// no hold in place, and goes on when a broker answers.
func TestLostBrokersHoldNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}
		pub := &fakePublisher{outcome: infrastructure}
		start := time.Now()
		pub.ping = func() error {
			if time.Since(start) > 20*time.Second {
				return nil
			}
			if time.Since(start) > 0 && c.abandoned != 1 {
				t.Errorf("the relay waits with its shards locked")
			}
			return errors.New("connection refused")
		}
		w, _ := cycleOf(t, claimOf(c), pub)
		if n, err := w.runOnce(t.Context()); n != 0 || err != nil {
			t.Errorf("runOnce() = %d, %v", n, err)
		}
		if c.settled != nil || c.abandoned != 1 {
			t.Errorf("settled %v, abandoned %d times", c.settled, c.abandoned)
		}
		if waited := time.Since(start); waited < 20*time.Second || waited > 25*time.Second {
			t.Errorf("waited %v for brokers that were away for 20 s", waited)
		}
		pub.outcome = nil
		if n, err := w.runOnce(t.Context()); n != 1 || err != nil {
			t.Errorf("then runOnce() = %d, %v", n, err)
		}
	})
}

// TestOtherWorkersWaitForLostBrokers instead of claiming what they cannot send either.
func TestOtherWorkersWaitForLostBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		claims := 0
		pub := &fakePublisher{outcome: infrastructure, ping: func() error { return errTest }}
		store := &fakeStore{claim: func(context.Context, Limits) (Claim, error) {
			claims++
			return &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}, nil
		}}
		w, _ := cycleOf(t, store, pub)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = w.runOnce(ctx)
		}()
		synctest.Wait()
		other := &worker{relay: w.relay, id: "w/1"}
		_, _ = other.runOnce(ctx)
		<-done
		if claims != 2 { // the first, and the other's when ctx ended
			t.Errorf("%d claims while no broker answered", claims)
		}
	})
}

// TestDeadTopicIsNotALostBroker: brokers that answer leave the fault with the topic.
func TestDeadTopicIsNotALostBroker(t *testing.T) {
	t.Parallel()
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}
	w, _ := cycleOf(t, claimOf(c), &fakePublisher{outcome: infrastructure})
	if _, err := w.runOnce(t.Context()); err != nil || c.settled == nil || len(c.settled.Holds) != 1 {
		t.Errorf("%v; settled %+v", err, c.settled)
	}
}

func TestLettersWaitForLostBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		letters := &fakeLetters{events: []outbox.Event{keyed(1, "a")}}
		asked := 0
		pub := &fakePublisher{outcome: infrastructure, ping: func() error {
			if asked++; asked < 5 {
				return errTest
			}
			return nil
		}}
		store := &fakeStore{letters: func(context.Context, func(string) string, int) (LetterClaim, error) { return letters, nil }}
		w, _ := cycleOf(t, store, pub)
		if n, err := w.relay.sendLetters(t.Context()); n != 0 || err != nil {
			t.Errorf("sendLetters() = %d, %v", n, err)
		}
		if letters.settled != 0 || letters.abandoned != 1 || asked != 5 {
			t.Errorf("settled %d, abandoned %d times, asked %d times", letters.settled, letters.abandoned, asked)
		}
	})
}
