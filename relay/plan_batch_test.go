package relay

import (
	"testing"

	"github.com/postrider/postrider/relay/outbox"
)

// TestPlanSettlesBatches is about outcomes that bear on other events of the same batch.
func TestPlanSettlesBatches(t *testing.T) {
	t.Parallel()
	topicU := func(e *outbox.Event) { e.Topic = "u" }
	key := func(id int64, k string, through int64) *Hold {
		return &Hold{ID: id, Scope: ScopeKey, Topic: "t", Key: []byte(k), Through: map[int16]int64{3: through}}
	}
	topic := &Hold{ID: 8, Scope: ScopeTopic, Topic: "t", Through: map[int16]int64{3: 2}}
	const (
		heldTopic = "hold #0 on topic t: infrastructure infrastructure, failed 1, probe in 250ms"
		heldKey   = "hold #0 on key t/k: retry record, failed 1, probe in 1s"
		failed    = " (attempt 1: record record)"
	)
	for name, c := range map[string]struct {
		events   []outbox.Event
		holds    Holds
		outcomes []Class // of the events that are sent
		want     string
	}{
		"withheld behind a retry: parked behind it": {
			events:   []outbox.Event{keyed(1, "k"), keyed(2, "other"), keyed(3, "k")},
			outcomes: []Class{Record, Delivered, Withheld},
			want:     lines("delivered [2]", heldKey, "parked 1 under #0"+failed, "parked 3 under #0"),
		},
		"withheld behind an unknown outcome: parked under the topic's hold": {
			events:   []outbox.Event{keyed(1, "k"), keyed(2, "k"), unkeyed(3)},
			outcomes: []Class{Infrastructure, Withheld, Withheld},
			want:     lines(heldTopic, "parked 1 under #0", "parked 2 under #0", "parked 3 under #0"),
		},
		"withheld before the topic was found held: claimed again": {
			events:   []outbox.Event{keyed(1, "k"), keyed(2, "other"), keyed(3, "k")},
			outcomes: []Class{Withheld, Infrastructure, Withheld},
			want:     lines(heldTopic, "parked 2 under #0", "parked 3 under #0"),
		},
		"withheld for another topic's sake: claimed again": {
			events:   []outbox.Event{keyed(1, "k"), with(keyed(2, "k"), topicU)},
			outcomes: []Class{Infrastructure, Withheld},
			want:     lines(heldTopic, "parked 1 under #0"),
		},
		"withheld after a given up event: claimed again": {
			events:   []outbox.Event{keyed(1, "k"), keyed(2, "k")},
			outcomes: []Class{Permanent, Withheld},
			want:     "exhausted 1 (attempt 1: permanent permanent)",
		},
		"withheld without a key is not behind the retry of the empty key": {
			events:   []outbox.Event{keyed(1, ""), unkeyed(2)},
			outcomes: []Class{Record, Withheld},
			want:     lines("hold #0 on key t/: retry record, failed 1, probe in 1s", "parked 1 under #0"+failed),
		},
		"many failures of one topic are one hold": {
			events:   []outbox.Event{keyed(1, "k"), keyed(2, "other"), unkeyed(3)},
			outcomes: []Class{Infrastructure, Route, Infrastructure},
			want:     lines(heldTopic, "parked 1 under #0", "parked 2 under #0", "parked 3 under #0"),
		},
		"failures of two topics are two holds": {
			events:   []outbox.Event{keyed(1, "k"), with(keyed(2, "k"), topicU)},
			outcomes: []Class{Infrastructure, Route},
			want: lines(heldTopic, "hold #1 on topic u: route route, failed 1, probe in 1s",
				"parked 1 under #0", "parked 2 under #1"),
		},
		"two keys that retry are two holds": {
			events:   []outbox.Event{keyed(1, "k"), keyed(2, "l")},
			outcomes: []Class{Record, Record},
			want: lines(heldKey, "hold #1 on key t/l: retry record, failed 1, probe in 1s",
				"parked 1 under #0"+failed, "parked 2 under #1"+failed),
		},
		"proven and then renewed: it stays held": {
			events:   []outbox.Event{keyed(1, "a"), keyed(2, "b")},
			holds:    holdsOf(topic),
			outcomes: []Class{Delivered, Infrastructure},
			want:     lines("delivered [1]", heldTopic, "parked 2 under #0"),
		},
		"renewed and then proven: it stays held too": {
			events:   []outbox.Event{keyed(1, "a"), keyed(2, "b")},
			holds:    holdsOf(topic),
			outcomes: []Class{Infrastructure, Delivered},
			want:     lines("delivered [2]", heldTopic, "parked 1 under #0"),
		},
		"a renewed key does not keep another key or its topic held": {
			events:   []outbox.Event{keyed(1, "k"), keyed(2, "l")},
			holds:    holdsOf(key(7, "k", 1), key(9, "l", 2), topic),
			outcomes: []Class{Record, Delivered},
			want:     lines("delivered [2]", heldKey, "parked 1 under #0"+failed, "proven 8", "proven 9"),
		},
		"a renewed topic does not keep a proven key held": {
			events:   []outbox.Event{keyed(1, "k"), keyed(2, "l")},
			holds:    holdsOf(key(7, "k", 1), topic),
			outcomes: []Class{Delivered, Infrastructure},
			want:     lines("delivered [1]", heldTopic, "parked 2 under #0", "proven 7"),
		},
		"what waits under an old hold keeps waiting there when the hold is renewed": {
			events:   []outbox.Event{keyed(1, "k"), keyed(2, "k")},
			holds:    holdsOf(key(7, "k", 1)),
			outcomes: []Class{Record},
			want:     lines(heldKey, "parked 2 under hold 7", "parked 1 under #0"+failed),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlan(&Batch{Events: c.events, Holds: c.holds}, rulesOf(TopicSettings{}))
			if len(p.messages) != len(c.outcomes) {
				t.Fatalf("%d events are sent, want %d", len(p.messages), len(c.outcomes))
			}
			for i, class := range c.outcomes {
				p.settle(i, &Outcome{Class: class, Code: string(class)})
			}
			if got := describe(p.settlement()); got != c.want {
				t.Errorf("settlement:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}
