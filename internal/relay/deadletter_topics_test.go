package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// toTopics sends the letters of topic x to x.dlq.
func toTopics(topic string) TopicSettings { return TopicSettings{DLQTopic: topic + ".dlq"} }

// TestLettersOfSeveralTopics: how one dead-letter topic treats its letters does not affect the letters of the others.
func TestLettersOfSeveralTopics(t *testing.T) {
	t.Parallel()
	of := func(topic string, id int64) Event {
		e := dead(id, 5)
		e.Topic = topic
		return e
	}
	for name, c := range map[string]struct {
		events    []Event
		outcome   func(Message) Outcome
		delivered []int64
		postponed []int64
		held      string
		lifted    string
	}{
		"each to its own": {
			events:    []Event{of("a", 1), of("b", 2), of("a", 3)},
			delivered: []int64{1, 2, 3}, lifted: "a.dlq b.dlq",
		},
		"one is missing": {
			events: []Event{of("a", 1), of("b", 2), of("a", 3)},
			outcome: func(m Message) Outcome {
				if m.Topic == "a.dlq" {
					return Outcome{Class: Route, Code: "X"}
				}
				return Outcome{Class: Delivered}
			},
			delivered: []int64{2}, held: "a.dlq route", lifted: "b.dlq",
		},
		"one is away, one missing": {
			events: []Event{of("a", 1), of("b", 2), of("c", 3)},
			outcome: func(m Message) Outcome {
				return map[string]Outcome{"a.dlq": {Class: Route, Code: "X"}, "b.dlq": {Class: Infrastructure, Code: "Y"}, "c.dlq": {Class: Delivered}}[m.Topic]
			},
			delivered: []int64{3}, held: "a.dlq route, b.dlq infrastructure", lifted: "c.dlq",
		},
		"a topic that takes one and then nothing is held": {
			events: []Event{of("a", 1), of("a", 2)},
			outcome: func(m Message) Outcome {
				if m.ID.EventID[15] == 2 {
					return Outcome{Class: Infrastructure, Code: "X"}
				}
				return Outcome{Class: Delivered}
			},
			delivered: []int64{1}, held: "a.dlq infrastructure",
		},
		"one letter is refused, its topic is there": {
			events: []Event{of("a", 1), of("a", 2), of("b", 3)},
			outcome: func(m Message) Outcome {
				switch m.ID.EventID[15] {
				case 1:
					return Outcome{Class: Record, Code: "POLICY_VIOLATION"}
				case 3:
					return Outcome{Class: Withheld}
				}
				return Outcome{Class: Delivered}
			},
			delivered: []int64{2}, postponed: []int64{1}, lifted: "a.dlq",
		},
		"only refused ones: their topics are there, too": {
			events:    []Event{of("a", 1), of("b", 2)},
			outcome:   func(Message) Outcome { return Outcome{Class: Permanent, Code: "X"} },
			postponed: []int64{1, 2}, lifted: "a.dlq b.dlq",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &fakeLetters{events: c.events}
			pub := &fakePublisher{}
			if c.outcome != nil {
				pub.outcome = func(_ context.Context, m Message) Outcome { return c.outcome(m) }
			}
			log, logged := capturedLog()
			r := testRelay(t, func(cfg *Config) {
				cfg.Store, cfg.Publisher, cfg.TopicSettings, cfg.Logger = letterStore(claim), pub, toTopics, log
			})
			if n, err := r.sendLetters(t.Context()); n != len(c.delivered) || err != nil {
				t.Errorf("sendLetters() = %d, %v", n, err)
			}
			var held []string
			for _, h := range claim.out.Holds {
				held = append(held, h.Topic+" "+string(h.Cause))
			}
			slices.Sort(held)
			slices.Sort(claim.out.Lifted)
			slices.Sort(claim.out.Postponed)
			got := fmt.Sprintf("delivered %v, postponed %v, held %q, lifted %q", claim.out.Delivered, claim.out.Postponed, strings.Join(held, ", "), strings.Join(claim.out.Lifted, " "))
			if want := fmt.Sprintf("delivered %v, postponed %v, held %q, lifted %q", c.delivered, c.postponed, c.held, c.lifted); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
			for _, id := range c.postponed {
				if !strings.Contains(logged(), fmt.Sprintf("a dead letter was refused, the event stays\" component=relay worker=%s id=%d", r.cfg.Worker, id)) {
					t.Errorf("the log does not name the refused letter %d:\n%s", id, logged())
				}
			}
			for _, m := range pub.sent[0] {
				if e := eventWith(c.events, m.ID.EventID[15]); m.Topic != e.Topic+".dlq" {
					t.Errorf("the letter of topic %s went to %s", e.Topic, m.Topic)
				}
			}
		})
	}
}

func eventWith(es []Event, id byte) *Event {
	return &es[slices.IndexFunc(es, func(e Event) bool { return e.EventID[15] == id })]
}

// TestLettersWithoutABroker: when nothing of the first batch goes through and no broker answers, the events
// are given back, and no topic is held.
func TestLettersWithoutABroker(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	claim := &fakeLetters{events: []Event{dead(1, 5)}}
	pub := &fakePublisher{ping: func() error { stop(); return errTest }, outcome: func(context.Context, Message) Outcome {
		return Outcome{Class: Infrastructure, Code: "X"}
	}}
	r := testRelay(t, func(c *Config) { c.Store, c.Publisher = letterStore(claim), pub })
	if n, err := r.sendLetters(ctx); n != 0 || !errors.Is(err, errTest) || claim.settled != 0 || claim.abandoned != 1 {
		t.Errorf("sendLetters() = %d, %v; settled %d times, given back %d times", n, err, claim.settled, claim.abandoned)
	}
}
