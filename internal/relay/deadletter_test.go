package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func letterStore(c *fakeLetters) *fakeStore {
	return &fakeStore{letters: func(context.Context, func(string) string, int) (LetterClaim, error) {
		if c == nil {
			return nil, nil
		}
		return c, nil
	}}
}

// dead is an exhausted event with a payload of this many bytes.
func dead(id int64, payload int) Event {
	return with(keyed(id, fmt.Sprint(id)), func(e *Event) {
		e.Payload, e.Episode = make([]byte, payload), 1
	})
}

func describeHolds(hs []HoldChange) string {
	if len(hs) != 1 {
		return strings.Repeat("hold ", len(hs))
	}
	h := &hs[0]
	return fmt.Sprintf("%s %s: %s %s %q of %d, probe in %v", h.Scope, h.Topic, h.Cause, h.Code, h.Error, h.EventID[15], h.ProbeIn)
}

// fitsOf tells how whole the letters of each publish were: i inline, r payload referred to, b bare.
func fitsOf(pub *fakePublisher) []string {
	var out []string
	for _, ms := range pub.sent {
		var b strings.Builder
		for i := range ms {
			switch {
			case ms[i].Key == nil:
				b.WriteByte('b')
			case ms[i].Value == nil:
				b.WriteByte('r')
			default:
				b.WriteByte('i')
			}
		}
		out = append(out, b.String())
	}
	return out
}

func TestLettersAreSentAndSettled(t *testing.T) {
	t.Parallel()
	// refused until its letter is this whole: the classes by id.
	refuse := func(class Class, least fit, ids ...int64) func(context.Context, Message) Outcome {
		return func(_ context.Context, m Message) Outcome {
			at := whole
			if m.Value == nil {
				at = withoutPayload
			}
			if m.Key == nil {
				at = bare
			}
			if slices.Contains(ids, int64(m.ID.EventID[15])) && at < least {
				return Outcome{Class: class, Code: "X", Message: "why"}
			}
			return Outcome{Class: Delivered}
		}
	}
	never := bare + 1
	for name, c := range map[string]struct {
		events    []Event
		limit     int // of the publisher's check
		outcome   func(context.Context, Message) Outcome
		delivered []int64
		fits      []string
		hold      string
		postponed []int64
	}{
		"all are taken": {events: []Event{dead(1, 5), dead(2, 5)}, delivered: []int64{1, 2}, fits: []string{"ii"}},
		"what the client would refuse is a reference": {events: []Event{dead(1, 50), dead(2, 5)}, limit: 10, delivered: []int64{1, 2}, fits: []string{"ri"}},
		"the topic takes less than the client": {events: []Event{dead(1, 5), dead(2, 5), dead(3, 5)}, outcome: refuse(Permanent, withoutPayload, 2),
			delivered: []int64{1, 3, 2}, fits: []string{"iii", "r"}},
		"and less still": {events: []Event{dead(1, 5), dead(2, 5)}, outcome: refuse(Permanent, bare, 1, 2),
			delivered: []int64{1, 2}, fits: []string{"ii", "rr", "bb"}},
		"the topic takes nothing of one": {events: []Event{dead(1, 5), dead(2, 5)}, outcome: refuse(Permanent, never, 1),
			delivered: []int64{2}, fits: []string{"ii", "r", "b"}, postponed: []int64{1}},
		"refused for now": {events: []Event{dead(1, 5), dead(2, 5)}, outcome: refuse(Record, never, 2),
			delivered: []int64{1}, fits: []string{"ii"}, postponed: []int64{2}},
		"no such topic": {events: []Event{dead(1, 5)}, outcome: refuse(Route, never, 1),
			fits: []string{"i"}, hold: `dead_letter postrider.dlq: route X "why" of 1, probe in 5s`},
		"an outage": {events: []Event{dead(1, 5)}, outcome: refuse(Infrastructure, never, 1),
			fits: []string{"i"}, hold: `dead_letter postrider.dlq: infrastructure X "why" of 1, probe in 1s`},
		"the first failure names the hold": {events: []Event{dead(1, 5), dead(2, 5)}, outcome: refuse(Route, never, 1, 2),
			fits: []string{"ii"}, hold: `dead_letter postrider.dlq: route X "why" of 1, probe in 5s`},
		"withheld is no failure": {events: []Event{dead(1, 5), dead(2, 5)}, outcome: refuse(Withheld, never, 2),
			delivered: []int64{1}, fits: []string{"ii"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &fakeLetters{events: c.events}
			pub := &fakePublisher{limit: c.limit, outcome: c.outcome}
			r := testRelay(t, func(cfg *Config) { cfg.Store, cfg.Publisher = letterStore(claim), pub })
			n, err := r.sendLetters(t.Context())
			if n != len(c.delivered) || err != nil {
				t.Errorf("sendLetters() = %d, %v", n, err)
			}
			if !slices.Equal(claim.out.Delivered, c.delivered) || claim.settled != 1 {
				t.Errorf("settled %d times, delivered %v, want %v", claim.settled, claim.out.Delivered, c.delivered)
			}
			if !slices.Equal(claim.out.Postponed, c.postponed) || claim.out.PostponeFor != time.Minute {
				t.Errorf("postponed %v for %v, want %v", claim.out.Postponed, claim.out.PostponeFor, c.postponed)
			}
			if lifted := len(claim.out.Lifted) == 1; lifted != (c.hold == "") {
				t.Errorf("lifted %v, hold %q", claim.out.Lifted, c.hold)
			}
			if got := fitsOf(pub); !slices.Equal(got, c.fits) {
				t.Errorf("letters %v, want %v", got, c.fits)
			}
			if got := describeHolds(claim.out.Holds); got != c.hold {
				t.Errorf("hold %s, want %s", got, c.hold)
			}
			if got := testutil.ToFloat64(r.metrics.deadLettered); int(got) != len(c.delivered) {
				t.Errorf("%v dead letters are counted", got)
			}
		})
	}
}

func TestLettersGoToTheirTopic(t *testing.T) {
	t.Parallel()
	store := &fakeStore{letters: func(_ context.Context, letterTopic func(string) string, limit int) (LetterClaim, error) {
		if topic := letterTopic("t"); topic != "dead" || limit < 1 {
			t.Errorf("claimed %d letters for %q", limit, letterTopic("t"))
		}
		return &fakeLetters{events: []Event{dead(1, 1)}}, nil
	}}
	pub := &fakePublisher{}
	r := testRelay(t, func(c *Config) {
		c.Store, c.Publisher, c.TopicSettings = store, pub, ForAll(TopicSettings{DLQTopic: "dead"})
	})
	if _, err := r.sendLetters(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := pub.sent[0][0]; m.Topic != "dead" || !m.ID.Letter {
		t.Errorf("sent %+v", m)
	}
}

func TestLetterFailures(t *testing.T) {
	t.Parallel()
	t.Run("nothing to do", func(t *testing.T) {
		t.Parallel()
		pub := &fakePublisher{}
		r := testRelay(t, func(c *Config) { c.Store, c.Publisher = letterStore(nil), pub })
		if n, err := r.sendLetters(t.Context()); n != 0 || err != nil || pub.sent != nil {
			t.Errorf("sendLetters() = %d, %v; sent %v", n, err, pub.sent)
		}
	})
	t.Run("the claim", func(t *testing.T) {
		t.Parallel()
		store := &fakeStore{letters: func(context.Context, func(string) string, int) (LetterClaim, error) { return nil, errTest }}
		r := testRelay(t, func(c *Config) { c.Store = store })
		if n, err := r.sendLetters(t.Context()); n != 0 || !errors.Is(err, errTest) {
			t.Errorf("sendLetters() = %d, %v", n, err)
		}
	})
	t.Run("settling: what was acknowledged is remembered as it was sent", func(t *testing.T) {
		t.Parallel()
		claim := &fakeLetters{events: []Event{dead(1, 5), dead(2, 50), dead(3, 5)}, settleErr: errTest}
		pub := &fakePublisher{limit: 10, outcome: func(_ context.Context, m Message) Outcome {
			if m.ID.EventID[15] == 3 {
				return Outcome{Class: Route, Code: "X"}
			}
			return Outcome{Class: Delivered}
		}}
		r := testRelay(t, func(c *Config) { c.Store, c.Publisher = letterStore(claim), pub })
		n, err := r.sendLetters(t.Context())
		if n != 0 || !errors.Is(err, errTest) {
			t.Errorf("sendLetters() = %d, %v", n, err)
		}
		if got := idsOf(pub.remembered); !slices.Equal(got, []int64{1, 2}) || !pub.remembered[0].ID.Letter {
			t.Errorf("remembered %v", pub.remembered)
		}
	})
}

// TestLettersEndInTime: a stop in the middle does not lose the outcome, and nothing waits for ever.
func TestLettersEndInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		claim := &fakeLetters{events: []Event{dead(1, 5)}}
		pub := &fakePublisher{outcome: func(ctx context.Context, _ Message) Outcome {
			stop()
			<-ctx.Done()
			return Outcome{Class: Infrastructure, Code: "X", Message: "why"}
		}}
		r := testRelay(t, func(c *Config) { c.Store, c.Publisher = letterStore(claim), pub })
		start := time.Now()
		if _, err := r.sendLetters(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 10*time.Second || len(claim.out.Holds) != 1 {
			t.Errorf("it took %v; hold %v", took, claim.out.Holds)
		}
	})
}

func TestStuckLettersAreLogged(t *testing.T) {
	t.Parallel()
	log, logged := capturedLog()
	pub := &fakePublisher{outcome: func(context.Context, Message) Outcome {
		return Outcome{Class: Route, Code: "UNKNOWN_TOPIC_OR_PARTITION", Message: "gone"}
	}}
	claim := &fakeLetters{events: []Event{dead(1, 5), dead(2, 5)}}
	r := testRelay(t, func(c *Config) { c.Store, c.Publisher, c.Logger = letterStore(claim), pub, log })
	if _, err := r.sendLetters(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"level=ERROR", "dead letters cannot be sent", "topic=postrider.dlq", "error_code=UNKNOWN_TOPIC_OR_PARTITION", "waiting=2"} {
		if !strings.Contains(logged(), want) {
			t.Errorf("the log lacks %s:\n%s", want, logged())
		}
	}
}
