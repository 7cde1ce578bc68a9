package relay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	dto "github.com/prometheus/client_model/go"

	"github.com/postrider/postrider/relay/outbox"
)

// careful is a claim over events that killed their worker three times.
func careful(first, last int64, events ...outbox.Event) *fakeClaim {
	c := &fakeClaim{attempts: map[int64]int{}, batch: Batch{Events: events, Crashes: 3, SuspectFirst: first, SuspectLast: last}}
	for i := range events {
		c.attempts[events[i].ID] = events[i].Attempts
	}
	return c
}

func attempted(n int) func(*outbox.Event) { return func(e *outbox.Event) { e.Attempts = n } }

func TestTwoDeathsAreNoReasonToBeCareful(t *testing.T) {
	t.Parallel()
	c := careful(1, 2, keyed(1, "a"), keyed(2, "b"))
	c.batch.Crashes = 2
	pub := &fakePublisher{}
	w, _ := cycleOf(t, claimOf(c), pub)
	if _, err := w.runOnce(t.Context()); err != nil || len(pub.sent) != 1 || c.counted != nil {
		t.Errorf("%v; sent %v, counted %v", err, pub.sent, c.counted)
	}
}

func TestCarefulCycle(t *testing.T) {
	t.Parallel()
	failing := func(class Class, ids ...int64) func(context.Context, Message) Outcome {
		return func(_ context.Context, m Message) Outcome {
			if slices.Contains(ids, int64(m.ID.EventID[15])) {
				return Outcome{Class: class, Code: "X"}
			}
			return Outcome{Class: Delivered}
		}
	}
	const killed = " (attempt 6: permanent WORKER_KILLED)"
	for name, c := range map[string]struct {
		claim   *fakeClaim
		outcome func(context.Context, Message) Outcome
		counted []int64
		sent    []int64 // each alone
		want    string
	}{
		"one event is tried, counted first; the others wait": {
			claim:   careful(2, 3, keyed(2, "b"), unkeyed(3), keyed(4, "c"), unkeyed(5)),
			counted: []int64{2}, sent: []int64{2}, want: lines("delivered [2]", "tried through 2", "attempt of 2 taken back"),
		},
		"the smallest id first, whatever the shard": {
			claim:   careful(2, 7, keyed(5, "b"), keyed(7, "b"), keyed(3, "c"), keyed(9, "c")),
			counted: []int64{3}, sent: []int64{3}, want: lines("delivered [3]", "tried through 3", "attempt of 3 taken back"),
		},
		"an event before the suspects goes first, so that none overtakes it": {
			claim:   careful(2, 3, keyed(1, "a"), keyed(3, "a")),
			counted: []int64{1}, sent: []int64{1}, want: lines("delivered [1]", "tried through 1", "attempt of 1 taken back"),
		},
		"what has died with its worker as often as it may is given up unsent": {
			claim:   careful(1, 2, with(keyed(1, "a"), attempted(5)), keyed(2, "a")),
			counted: []int64{1}, want: lines("exhausted 1"+killed, "tried through 1"),
		},
		"even an event with one attempt is tried once alone": {
			claim:   careful(1, 1, with(keyed(1, "a"), func(e *outbox.Event) { e.MaxAttempts = 1 })),
			counted: []int64{1}, sent: []int64{1}, want: lines("delivered [1]", "tried through 1", "attempt of 1 taken back"),
		},
		"and then given up": {
			claim:   careful(1, 1, with(keyed(1, "a"), func(e *outbox.Event) { e.MaxAttempts, e.Attempts = 1, 1 })),
			counted: []int64{1}, want: lines("exhausted 1 (attempt 2: permanent WORKER_KILLED)", "tried through 1"),
		},
		"a failure is counted once": {
			claim: careful(1, 2, with(keyed(1, "a"), attempted(1)), keyed(2, "a")), outcome: failing(Record, 1),
			counted: []int64{1}, sent: []int64{1},
			want: lines("hold #0 on key t/a: retry X, failed 2, probe in 2s", "parked 1 under #0 (attempt 2: record X)", "parked 2 under #0", "tried through 1"),
		},
		"a missing topic is no attempt either": {
			claim: careful(1, 1, keyed(1, "a")), outcome: failing(Route, 1), counted: []int64{1}, sent: []int64{1},
			want: lines("hold #0 on topic t: route X, failed 1, probe in 1s", "parked 1 under #0", "tried through 1", "attempt of 1 taken back"),
		},
		"nor is one that was not sent": {
			claim: careful(1, 1, keyed(1, "a")), outcome: failing(Withheld, 1), counted: []int64{1}, sent: []int64{1},
			want: lines("tried through 1", "attempt of 1 taken back"),
		},
		"an outage stops the topic": {
			claim: careful(1, 3, keyed(1, "a"), keyed(2, "b")), outcome: failing(Infrastructure, 1),
			counted: []int64{1}, sent: []int64{1},
			want: lines("hold #0 on topic t: infrastructure X, failed 1, probe in 250ms", "parked 1 under #0", "parked 2 under #0", "tried through 1", "attempt of 1 taken back"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pub := &fakePublisher{outcome: c.outcome}
			r := testRelay(t, func(cfg *Config) {
				cfg.Store, cfg.Publisher = claimOf(c.claim), pub
				cfg.TopicSettings = ForAll(TopicSettings{Retry: outbox.RetryPolicy{MaxAttempts: 5, Base: outbox.DefaultRetryPolicy().Base, Max: outbox.DefaultRetryPolicy().Max}})
			})
			if _, err := (&worker{relay: r, id: "w/0"}).runOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			var sent []int64
			for _, ms := range pub.sent {
				if len(ms) != 1 {
					t.Errorf("%d events were sent together", len(ms))
				}
				sent = append(sent, idsOf(ms)...)
			}
			if !slices.Equal(sent, c.sent) || !slices.Equal(c.claim.counted, c.counted) {
				t.Errorf("sent %v, want %v; counted %v, want %v", sent, c.sent, c.claim.counted, c.counted)
			}
			if got := describe(c.claim.settled); got != c.want {
				t.Errorf("settlement:\n%s\nwant:\n%s", got, c.want)
			}
			var seconds dto.Metric
			if err := r.metrics.publishSeconds.Write(&seconds); err != nil || seconds.GetHistogram().GetSampleCount() != uint64(len(c.sent)) {
				t.Errorf("the time of %d events is noted, want %d: %v", seconds.GetHistogram().GetSampleCount(), len(c.sent), err)
			}
		})
	}
}

// TestUncountedAttemptIsNotMade: an attempt that cannot be counted before it is made could kill for ever.
func TestUncountedAttemptIsNotMade(t *testing.T) {
	t.Parallel()
	c := careful(1, 3, keyed(2, "b"), keyed(3, "c"))
	c.countErr = errTest
	pub := &fakePublisher{}
	w, _ := cycleOf(t, claimOf(c), pub)
	n, err := w.runOnce(t.Context())
	if n != 0 || !errors.Is(err, errTest) || !strings.Contains(err.Error(), "000000000002") {
		t.Errorf("runOnce() = %d, %v", n, err)
	}
	if len(pub.sent) != 0 || c.abandoned != 1 || c.settled != nil {
		t.Errorf("sent %d, abandoned %d times, settled %v", len(pub.sent), c.abandoned, c.settled)
	}
	if _, ok := c.countCtx.Deadline(); !ok {
		t.Error("counting has no bound")
	}
}

// TestCarefulCycleEndsInTime: the shards are not kept longer than with a whole batch.
func TestCarefulCycleEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := careful(1, 3, keyed(1, "a"), keyed(2, "b"), keyed(3, "c"))
		pub := &fakePublisher{outcome: func(ctx context.Context, _ Message) Outcome {
			<-ctx.Done()
			return Outcome{Class: Infrastructure, Code: "X"}
		}}
		w, _ := cycleOf(t, claimOf(c), pub)
		if _, err := w.runOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := lines("hold #0 on topic t: infrastructure X, failed 1, probe in 250ms", "parked 1 under #0", "parked 2 under #0", "parked 3 under #0", "tried through 1", "attempt of 1 taken back")
		if got := describe(c.settled); got != want || len(pub.sent) != 1 {
			t.Errorf("sent %d; settlement:\n%s\nwant:\n%s", len(pub.sent), got, want)
		}
	})
}
