package relay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

func TestActionCountsWhatIsSettled(t *testing.T) {
	t.Parallel()
	claims := []*fakeClaim{
		{batch: Batch{Events: []outbox.Event{keyed(1, "a"), keyed(2, "b"), with(keyed(3, "c"), unencodable), with(keyed(4, "d"), delayed)}}},
		{batch: Batch{Events: []outbox.Event{keyed(5, "a"), unkeyed(6)}}},
		{batch: Batch{Events: []outbox.Event{keyed(7, "a")}}, settleErr: errTest},
	}
	var asked []Limits
	store := &fakeStore{claim: func(_ context.Context, l Limits) (Claim, error) {
		asked = append(asked, l)
		if len(asked) > len(claims) {
			return nil, nil
		}
		return claims[len(asked)-1], nil
	}}
	pub := &fakePublisher{outcome: func(_ context.Context, m Message) Outcome {
		switch m.ID.EventID[15] {
		case 2:
			return Outcome{Class: Record, Code: "X"}
		case 6:
			return Outcome{Class: Record, Code: "X"}
		}
		return Outcome{Class: Delivered}
	}}
	r := testRelay(t, func(c *Config) { c.Store, c.Publisher, c.Workers = store, pub, 1 })
	got, err := r.ProcessPending(t.Context(), ActionOptions{Limit: 10})
	if !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), "processPending: settle 1 events: ") {
		t.Errorf("the error is %v", err)
	}
	got.DurationMS = 0
	want := ActionResult{Action: ActionProcessPending, BatchSize: 1000, Processed: 6, Succeeded: 2, Failed: 3, Exhausted: 1, Scheduled: 2, Parked: 1}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// What one claim did not use of the limit is there for the next.
	for i, left := range []int{10, 6, 4} {
		if asked[i].Events != left || asked[i].Shards != left {
			t.Errorf("claim %d is limited by %+v, want %d", i, asked[i], left)
		}
	}
	if strings.HasPrefix(asked[0].Worker, r.cfg.Worker+"/") {
		t.Errorf("the action claims as %s, which is a worker of the relay", asked[0].Worker)
	}
}

// The limit is never passed, whatever a claim would give.
func TestActionKeepsToItsLimit(t *testing.T) {
	t.Parallel()
	next := int64(0)
	store := &fakeStore{claim: func(_ context.Context, l Limits) (Claim, error) {
		var events []outbox.Event
		for range min(l.Events, 3) {
			next++
			events = append(events, unkeyed(next))
		}
		return &fakeClaim{batch: Batch{Events: events}}, nil
	}}
	for _, limit := range []int{1, 3, 10} {
		r := testRelay(t, func(c *Config) { c.Store, c.Workers = store, 1 })
		if got, err := r.ProcessPending(t.Context(), ActionOptions{Limit: limit}); err != nil || got.Processed != limit {
			t.Errorf("with a limit of %d: %+v, %v", limit, got, err)
		}
	}
}

// A topic that stays away is not probed for ever.
func TestRetriesEndWithoutProgress(t *testing.T) {
	t.Parallel()
	returns, ready := 0, false
	store := &fakeStore{
		back: func(context.Context, int, time.Duration) (Returned, error) {
			returns++
			ready = true
			return Returned{Events: 1}, nil
		},
		claim: func(context.Context, Limits) (Claim, error) {
			if !ready {
				return nil, nil
			}
			ready = false
			return &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}, nil
		},
	}
	worked := 3
	pub := &fakePublisher{outcome: func(context.Context, Message) Outcome {
		if worked--; worked >= 0 {
			return Outcome{Class: Delivered}
		}
		return Outcome{Class: Route, Code: "UNKNOWN_TOPIC_OR_PARTITION"}
	}}
	r := testRelay(t, func(c *Config) { c.Store, c.Publisher, c.Workers = store, pub, 1 })
	got, err := r.ProcessRetries(t.Context(), ActionOptions{})
	if err != nil || returns != 4 || got.Returned != 4 || got.Succeeded != 3 || got.Parked != 1 || got.Failed != 0 {
		t.Errorf("%+v, %v after %d returns", got, err, returns)
	}
}

func TestActionsEnd(t *testing.T) {
	t.Parallel()
	away := &fakePublisher{ping: func() error { return errTest }}
	r := testRelay(t, func(c *Config) {
		c.Publisher = away
		c.Store = &fakeStore{claim: func(context.Context, Limits) (Claim, error) {
			t.Error("it claims although no broker answers")
			return nil, nil
		}}
	})
	if _, err := r.ProcessPending(t.Context(), ActionOptions{}); !errors.Is(err, ErrNoBrokers) || !errors.Is(err, errTest) {
		t.Errorf("without brokers: %v", err)
	}
	r = testRelay(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, action := range map[string]func(context.Context, ActionOptions) (ActionResult, error){"processPending": r.ProcessPending, "processRetries": r.ProcessRetries} {
		if _, err := action(ctx, ActionOptions{}); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s, canceled: %v", name, err)
		}
		if _, err := action(t.Context(), ActionOptions{Limit: -1}); err == nil || !strings.Contains(err.Error(), "the limit is -1") {
			t.Errorf("%s with a limit of -1: %v", name, err)
		}
	}
}

// The brokers go away in the middle: the action gives back what it has and ends.
func TestActionEndsWhenBrokersGo(t *testing.T) {
	t.Parallel()
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}
	pings := 0
	pub := &fakePublisher{
		outcome: func(context.Context, Message) Outcome { return Outcome{Class: Infrastructure, Code: "X"} },
		ping: func() error {
			if pings++; pings > 1 {
				return errTest
			}
			return nil
		},
	}
	r := testRelay(t, func(cfg *Config) { cfg.Store, cfg.Publisher, cfg.Workers = claimOf(c), pub, 1 })
	if got, err := r.ProcessPending(t.Context(), ActionOptions{}); !errors.Is(err, ErrNoBrokers) || got.Processed != 0 || c.settled != nil || c.abandoned != 1 {
		t.Errorf("%+v, %v; settled %v, abandoned %d times", got, err, c.settled, c.abandoned)
	}
}

func TestCleanupWalksToTheEnd(t *testing.T) {
	t.Parallel()
	for _, dry := range []bool{false, true} {
		s := newStock(2500, 1000, 0)
		var asked []PurgeLimits
		store := &fakeStore{purge: func(ctx context.Context, l PurgeLimits) (Purged, error) {
			asked = append(asked, l)
			got, err := s.purge(ctx, l)
			got.Next = "next of " + string(l.Kind)
			return got, err
		}}
		r := testRelay(t, func(c *Config) { c.Store = store; c.Retention.Published = time.Hour })
		got, err := r.Cleanup(t.Context(), CleanupOptions{DryRun: dry})
		got.DurationMS = 0
		if want := (CleanupResult{Action: ActionCleanup, DryRun: dry, Published: 2500, DeadLettered: 1000}); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		if asked[0] != (PurgeLimits{Kind: PurgePublished, Keep: time.Hour, Rows: purgeRows, Restart: !dry, DryRun: dry}) ||
			asked[1] != (PurgeLimits{Kind: PurgePublished, Keep: time.Hour, Rows: purgeRows, DryRun: dry, From: "next of published"}) {
			t.Errorf("it asked for %+v and %+v", asked[0], asked[1])
		}
	}
}

// A cleanup with a bound removes no more, and says that there may be more; a dry run with the same bound counts the same.
func TestCleanupIsBounded(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]CleanupResult{
		1:    {Published: 1, More: true},
		1000: {Published: 1000, More: true},
		1500: {Published: 1500, More: true},
		2500: {Published: 2500, More: true}, // of the other kinds nobody has looked
		3000: {Published: 2500, DeadLettered: 500, More: true},
		4000: {Published: 2500, DeadLettered: 1000},
		0:    {Published: 2500, DeadLettered: 1000},
	} {
		for _, dry := range []bool{false, true} {
			store := &fakeStore{purge: newStock(2500, 1000, 0).purge}
			got, err := Cleanup(t.Context(), store, Retention{}, CleanupOptions{DryRun: dry, MaxRows: most})
			want.Action, want.DryRun, got.DurationMS = ActionCleanup, dry, 0
			if err != nil || got != want {
				t.Errorf("at most %d, dry %v: %+v, %v, want %+v", most, dry, got, err, want)
			}
		}
	}
}

func TestCleanupWaitsForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := 100
		store := &fakeStore{purge: func(_ context.Context, l PurgeLimits) (Purged, error) {
			if l.Kind != PurgePublished {
				return Purged{Rows: 2}, nil
			}
			if busy--; busy >= 0 {
				if !l.Restart {
					t.Error("it forgot to begin at the beginning")
				}
				return Purged{Busy: true}, nil
			}
			return Purged{Rows: 1}, nil
		}}
		if got, err := Cleanup(t.Context(), store, Retention{}, CleanupOptions{}); err != nil || got.Published != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		busy = 1 << 30
		began := time.Now()
		got, err := Cleanup(t.Context(), store, Retention{}, CleanupOptions{})
		if got.Published != 0 || got.DeadLettered != 2 || got.IdempotencyKeys != 2 {
			t.Errorf("the other kinds waited, too: %+v", got)
		}
		if err == nil || !strings.Contains(err.Error(), "pg_stat_activity") || time.Since(began) < busyLimit || time.Since(began) > busyLimit+time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Cleanup(ctx, store, Retention{}, CleanupOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a deadline: %v", err)
		}
		if _, err := Cleanup(t.Context(), store, Retention{Published: -1}, CleanupOptions{}); err == nil || !strings.Contains(err.Error(), "retention of published rows is -1ns") {
			t.Errorf("a retention of -1ns: %v", err)
		}
	})
}

// TestActionSendsAllLetters: a claim whose topic takes nothing does not keep those of others from going; one that
// never gets anywhere ends the action.
func TestActionSendsAllLetters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claims    []string // the topics of the letters of each
		want, all int
	}{
		"the first topic takes nothing":     {claims: []string{"bad", "good", "good"}, want: 2, all: 3},
		"nine in a row":                     {claims: slices.Concat(slices.Repeat([]string{"bad"}, 9), []string{"good"}, slices.Repeat([]string{"bad"}, 9), []string{"good"}), want: 2, all: 20},
		"more in a row than it goes on for": {claims: slices.Repeat([]string{"bad"}, 50), all: barrenLetters},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			store := &fakeStore{letters: func(context.Context, func(string) string, int) (LetterClaim, error) {
				if n == len(c.claims) {
					return nil, nil
				}
				n++
				e := keyed(int64(n), "k")
				e.Topic = c.claims[n-1]
				return &fakeLetters{events: []outbox.Event{e}}, nil
			}}
			pub := &fakePublisher{outcome: func(_ context.Context, m Message) Outcome {
				if m.Topic == "bad" {
					return Outcome{Class: Route, Code: "X"}
				}
				return Outcome{Class: Delivered}
			}}
			r := testRelay(t, func(cfg *Config) {
				cfg.Store, cfg.Publisher = store, pub
				cfg.TopicSettings = func(topic string) TopicSettings { return TopicSettings{DLQTopic: topic} }
			})
			got, err := r.ProcessPending(t.Context(), ActionOptions{})
			if err != nil || got.DeadLettered != c.want || n != c.all {
				t.Errorf("%+v, %v after %d claims; want %d letters of %d claims", got, err, n, c.want, c.all)
			}
		})
	}
}
