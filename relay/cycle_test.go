package relay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/relay/outbox"
)

func cycleOf(t *testing.T, store Store, pub Publisher) (*worker, *Relay) {
	t.Helper()
	r := testRelay(t, func(c *Config) { c.Store, c.Publisher = store, pub })
	return &worker{relay: r, id: "w/0"}, r
}

func TestCycleClaimsPublishesSettles(t *testing.T) {
	t.Parallel()
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a"), unkeyed(2), keyed(3, "a")}}}
	pub := &fakePublisher{}
	w, r := cycleOf(t, claimOf(c), pub)
	n, err := w.runOnce(t.Context())
	if n != 3 || err != nil {
		t.Fatalf("runOnce() = %d, %v", n, err)
	}
	if len(pub.sent) != 1 || !slices.Equal(idsOf(pub.sent[0]), []int64{1, 2, 3}) {
		t.Errorf("sent %v", pub.sent)
	}
	if got := describe(c.settled); got != "delivered [1 2 3]" {
		t.Errorf("settlement:\n%s", got)
	}
	if c.marked != 1 || c.abandoned != 0 || pub.remembered != nil {
		t.Errorf("marked %d times, abandoned %d times, remembered %v", c.marked, c.abandoned, pub.remembered)
	}
	if got := testutil.ToFloat64(r.metrics.outcomes.WithLabelValues("delivered")); got != 3 {
		t.Errorf("%v deliveries are counted", got)
	}
	if got := testutil.ToFloat64(r.metrics.inFlight); got != 0 {
		t.Errorf("%v events are counted as in flight afterwards", got)
	}
}

func TestCycleAsksForItsShare(t *testing.T) {
	t.Parallel()
	first := map[int]bool{}
	for workers, shards := range map[int]int{1: 64, 4: 16, 5: 12, 64: 1} {
		store := &fakeStore{claim: func(_ context.Context, l Limits) (Claim, error) {
			if l.Worker != "w/0" || l.Shards != shards || l.Events != 77 || l.First < 0 || l.First >= outbox.Shards {
				t.Errorf("%d workers claim %+v", workers, l)
			}
			first[l.First] = true
			return nil, nil
		}}
		r := testRelay(t, func(c *Config) { c.Store, c.Workers, c.BatchSize = store, workers, 77 })
		for range 50 {
			if n, err := (&worker{relay: r, id: "w/0"}).runOnce(t.Context()); n != 0 || err != nil {
				t.Fatalf("runOnce() = %d, %v", n, err)
			}
		}
	}
	if len(first) < 20 {
		t.Errorf("200 claims began at only %d different shards", len(first))
	}
}

func TestCycleWithoutEvents(t *testing.T) {
	t.Parallel()
	c := &fakeClaim{}
	w, _ := cycleOf(t, claimOf(c), &fakePublisher{})
	if n, err := w.runOnce(t.Context()); n != 0 || err != nil || c.abandoned != 1 || c.settled != nil {
		t.Errorf("runOnce() = %d, %v; abandoned %d times, settled %v", n, err, c.abandoned, c.settled)
	}
}

// TestCycleWithoutMessages: what is only parked or given up needs no marker and no broker.
func TestCycleWithoutMessages(t *testing.T) {
	t.Parallel()
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{with(keyed(1, "a"), unencodable), with(keyed(2, "a"), delayed)}}}
	pub := &fakePublisher{}
	w, _ := cycleOf(t, claimOf(c), pub)
	n, err := w.runOnce(t.Context())
	if n != 2 || err != nil || c.marked != 0 || pub.sent != nil {
		t.Errorf("runOnce() = %d, %v; marked %d times, sent %v", n, err, c.marked, pub.sent)
	}
	want := lines("exhausted 1 (attempt 1: permanent INVALID_HEADERS)", "scheduled 2 at its own time")
	if got := describe(c.settled); got != want {
		t.Errorf("settlement:\n%s\nwant:\n%s", got, want)
	}
}

func TestCycleFailures(t *testing.T) {
	t.Parallel()
	mixed := func(_ context.Context, m Message) Outcome {
		if m.ID.EventID[15] == 2 {
			return Outcome{Class: Infrastructure, Code: "X"}
		}
		return Outcome{Class: Delivered}
	}
	for name, c := range map[string]struct {
		claim      *fakeClaim
		mention    string
		sent       int
		abandoned  int
		remembered []int64
	}{
		"the claim": {nil, "claim: ", 0, 0, nil},
		// Sending what nobody could see to be in work would hide who died over it.
		"the marker": {&fakeClaim{markErr: errTest}, "mark the batch: ", 0, 1, nil},
		// What was acknowledged must not be sent again from here, whatever became of the commit.
		"settling": {&fakeClaim{settleErr: errTest}, "settle 3 events: ", 1, 0, []int64{1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pub := &fakePublisher{outcome: mixed}
			store := &fakeStore{claim: func(context.Context, Limits) (Claim, error) { return nil, errTest }}
			abandoned := func() int { return 0 }
			if c.claim != nil {
				c.claim.batch.Events = []outbox.Event{keyed(1, "a"), keyed(2, "b"), keyed(3, "c")}
				store, abandoned = claimOf(c.claim), func() int { return c.claim.abandoned }
			}
			w, _ := cycleOf(t, store, pub)
			n, err := w.runOnce(t.Context())
			if n != 0 || !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), c.mention) {
				t.Errorf("runOnce() = %d, %v; want 0 and %q…", n, err, c.mention)
			}
			if len(pub.sent) != c.sent || abandoned() != c.abandoned {
				t.Errorf("sent %d times, abandoned %d times", len(pub.sent), abandoned())
			}
			if got := idsOf(pub.remembered); !slices.Equal(got, c.remembered) {
				t.Errorf("remembered %v, want %v", got, c.remembered)
			}
		})
	}
}

// TestCycleFinishesWhenToldToStop: what was handed to the broker is settled, within bounds.
func TestCycleFinishesWhenToldToStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}
		pub := &fakePublisher{outcome: func(ctx context.Context, _ Message) Outcome {
			stop()
			<-ctx.Done() // the bound of publishing
			return Outcome{Class: Infrastructure, Code: "X"}
		}}
		w, _ := cycleOf(t, claimOf(c), pub)
		start := time.Now()
		n, err := w.runOnce(ctx)
		if n != 1 || err != nil || c.settled == nil {
			t.Errorf("runOnce() = %d, %v, settled %v", n, err, c.settled)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("it took %v, want the publish timeout of 10 s", took)
		}
		for name, bounded := range map[string]context.Context{"marking": c.markCtx, "settling": c.settleCtx} {
			if _, ok := bounded.Deadline(); !ok {
				t.Errorf("%s has no bound", name)
			}
		}
	})
}

// TestCycleTellsWhatItGaveUp: nothing may be given up or held without a line in the log.
func TestCycleTellsWhatItGaveUp(t *testing.T) {
	t.Parallel()
	log, logged := capturedLog()
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{with(unkeyed(1), unencodable), keyed(2, "b")}}}
	pub := &fakePublisher{outcome: func(context.Context, Message) Outcome {
		return Outcome{Class: Route, Code: "UNKNOWN_TOPIC_OR_PARTITION", Message: "gone"}
	}}
	r := testRelay(t, func(cfg *Config) { cfg.Store, cfg.Publisher, cfg.Logger = claimOf(c), pub, log })
	if _, err := (&worker{relay: r, id: "w/0"}).runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`msg="event given up"`, "id=1", "error_code=INVALID_HEADERS",
		"msg=held", "scope=topic", "topic=t", "cause=route", "error_code=UNKNOWN_TOPIC_OR_PARTITION", "next_probe_in=1s",
	} {
		if !strings.Contains(logged(), want) {
			t.Errorf("the log lacks %s:\n%s", want, logged())
		}
	}
}

// TestCycleWaitsForWhoLostTheShards: a worker of this process still sends what this one has claimed, because it lost
// its locks. Told to stop, this one gives the batch back instead of sending it, too.
func TestCycleWaitsForWhoLostTheShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}
		pub := &fakePublisher{}
		w, r := cycleOf(t, claimOf(c), pub)
		end := r.inWork.begin(&c.batch)
		time.AfterFunc(time.Second, stop)
		if n, err := w.runOnce(ctx); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("runOnce() = %d, %v", n, err)
		}
		if len(pub.sent) != 0 || c.abandoned != 1 || c.settled != nil {
			t.Errorf("sent %v, given back %d times, settled %v", pub.sent, c.abandoned, c.settled)
		}
		end()
		if n, err := w.runOnce(t.Context()); n != 1 || err != nil || c.settled == nil {
			t.Errorf("then runOnce() = %d, %v", n, err)
		}
	})
}

// TestCycleSaysWhatItMoved: events that stay where they are, here because a transaction is open, are no reason to
// look again at once.
func TestCycleSaysWhatItMoved(t *testing.T) {
	t.Parallel()
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a"), keyed(2, "b"), keyed(3, "c")}, Final: 1}}
	r := testRelay(t, func(cfg *Config) {
		cfg.Store, cfg.TopicSettings = claimOf(c), ForAll(TopicSettings{CommitOrder: true})
	})
	if n, err := (&worker{relay: r, id: "w/0"}).runOnce(t.Context()); n != 1 || err != nil || describe(c.settled) != "delivered [1]" {
		t.Errorf("runOnce() = %d, %v; %s", n, err, describe(c.settled))
	}
}

// TestCommitOrderNeedsNoConfig: a relay that was not told that a topic is in commit order asks what is final as soon
// as it meets that topic. Otherwise its events would stand still, and nobody would be told.
func TestCommitOrderNeedsNoConfig(t *testing.T) {
	t.Parallel()
	var asked []bool
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}
	store := &fakeStore{claim: func(_ context.Context, l Limits) (Claim, error) {
		asked = append(asked, l.CommitOrder)
		c.batch.Final = map[bool]int64{true: 1}[l.CommitOrder]
		return c, nil
	}}
	r := testRelay(t, func(cfg *Config) {
		cfg.Store, cfg.TopicSettings = store, ForAll(TopicSettings{CommitOrder: true})
	})
	w := &worker{relay: r, id: "w/0"}
	for n := range 2 {
		if got, err := w.runOnce(t.Context()); got != n || err != nil {
			t.Errorf("cycle %d: runOnce() = %d, %v", n, got, err)
		}
	}
	if !slices.Equal(asked, []bool{false, true}) || c.settled == nil {
		t.Errorf("asked what is final: %v, settled %v", asked, c.settled)
	}
}
