package relay

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCleanupWalksToTheEnd(t *testing.T) {
	t.Parallel()
	for _, dry := range []bool{false, true} {
		s := newStock(2500, 1000, 0)
		var asked []PurgeLimits
		store := &fakeStore{purge: func(ctx context.Context, l PurgeLimits) (Purged, error) {
			asked = append(asked, l)
			return s.purge(ctx, l)
		}}
		r := testRelay(t, func(c *Config) { c.Store = store; c.Retention.Published = time.Hour })
		got, err := r.Cleanup(t.Context(), CleanupOptions{DryRun: dry})
		got.DurationMS = 0
		if want := (CleanupResult{Action: ActionCleanup, DryRun: dry, Published: 2500, DeadLettered: 1000}); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		rows := purgeRows
		if dry { // what stays would be counted again
			rows = math.MaxInt32
		}
		if asked[0] != (PurgeLimits{Kind: PurgePublished, Keep: time.Hour, Rows: rows, DryRun: dry}) || !dry && asked[1] != asked[0] {
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
		2500: {Published: 2500, More: true}, // it has not looked at the other kinds
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

// TestActionSendsAllLetters: a claim whose topic takes nothing does not keep the letters of other topics from going. An
// action that never gets anywhere ends.
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
				return &fakeLetters{events: []Event{e}}, nil
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
