package relay

import (
	"slices"
	"testing"

	"github.com/postrider/postrider/relay/outbox"
)

// TestPlanSortsEvents is about what happens to an event before anything is sent: it goes, waits under
// a hold, waits for its time, or is given up.
func TestPlanSortsEvents(t *testing.T) {
	t.Parallel()
	keyHold := func(h Hold) *Hold { h.ID, h.Scope, h.Topic, h.Key = 7, ScopeKey, "t", []byte("k"); return &h }
	topicHold := func(h Hold) *Hold { h.ID, h.Scope, h.Topic = 8, ScopeTopic, "t"; return &h }
	through := func(id int64) map[int16]int64 { return map[int16]int64{3: id} }
	const invalid = " (attempt 1: permanent INVALID_HEADERS)"
	for name, c := range map[string]struct {
		events []outbox.Event
		holds  Holds
		sent   []int64
		want   string
	}{
		"nothing held, all go": {
			events: []outbox.Event{unkeyed(1), keyed(2, "k"), keyed(3, "")},
			sent:   []int64{1, 2, 3},
		},
		"a delayed event waits for its time, with or without a key": {
			events: []outbox.Event{with(unkeyed(1), delayed), with(keyed(2, "k"), delayed), keyed(3, "k")},
			sent:   []int64{3},
			want:   lines("scheduled 1 at its own time", "scheduled 2 at its own time"),
		},
		"an event that cannot be encoded is given up, and its key goes on when that is committed": {
			events: []outbox.Event{with(keyed(1, "k"), unencodable), keyed(2, "k"), keyed(3, "l"), with(unkeyed(4), unencodable), unkeyed(5)},
			sent:   []int64{3, 5},
			want:   lines("exhausted 1"+invalid, "exhausted 4"+invalid),
		},
		"a held key waits, others go": {
			events: []outbox.Event{keyed(1, "k"), keyed(2, "other"), unkeyed(3), keyed(4, "k"), keyed(5, "")},
			holds:  holdsOf(keyHold(Hold{Through: through(0)})),
			sent:   []int64{2, 3, 5},
			want:   lines("parked 1 under hold 7", "parked 4 under hold 7"),
		},
		"a hold on the empty key is not one on events without a key": {
			events: []outbox.Event{keyed(1, ""), unkeyed(2), keyed(3, "k")},
			holds:  holdsOf(&Hold{ID: 9, Scope: ScopeKey, Topic: "t", Key: []byte{}, Through: through(0)}),
			sent:   []int64{2, 3},
			want:   "parked 1 under hold 9",
		},
		"the same key of another topic is not held": {
			events: []outbox.Event{with(keyed(1, "k"), func(e *outbox.Event) { e.Topic = "u" })},
			holds:  holdsOf(keyHold(Hold{Through: through(0)})),
			sent:   []int64{1},
		},
		"the probe of a key goes, later ones wait": {
			events: []outbox.Event{keyed(10, "k"), keyed(11, "k")},
			holds:  holdsOf(keyHold(Hold{Through: through(10)})),
			sent:   []int64{10},
			want:   "parked 11 under hold 7",
		},
		"a held topic holds all of its events": {
			events: []outbox.Event{keyed(1, "k"), unkeyed(2), with(unkeyed(3), func(e *outbox.Event) { e.Topic = "u" })},
			holds:  holdsOf(topicHold(Hold{Through: through(0)})),
			sent:   []int64{3},
			want:   lines("parked 1 under hold 8", "parked 2 under hold 8"),
		},
		"a held topic without parked events in this shard holds too": {
			events: []outbox.Event{keyed(1, "k"), unkeyed(2)},
			holds:  holdsOf(topicHold(Hold{Through: map[int16]int64{4: 99}})),
			want:   lines("parked 1 under hold 8", "parked 2 under hold 8"),
		},
		"the probe of a topic goes, later ones wait": {
			events: []outbox.Event{unkeyed(9), keyed(10, "k"), keyed(11, "k"), unkeyed(12)},
			holds:  holdsOf(topicHold(Hold{Through: through(10)})),
			sent:   []int64{9, 10},
			want:   lines("parked 11 under hold 8", "parked 12 under hold 8"),
		},
		"draining: what is back goes, what comes after the rest waits": {
			events: []outbox.Event{keyed(10, "k"), keyed(500, "k"), keyed(501, "other")},
			holds:  holdsOf(topicHold(Hold{Draining: true, Through: through(100)})),
			sent:   []int64{10},
			want:   lines("parked 500 under hold 8", "parked 501 under hold 8"),
		},
		"draining without parked events in this shard: all go": {
			events: []outbox.Event{keyed(10, "k"), unkeyed(11)},
			holds:  holdsOf(topicHold(Hold{Draining: true, Through: map[int16]int64{4: 5}})),
			sent:   []int64{10, 11},
		},
		"a held key of a held topic waits for its key, so that the topic's probe is one that can go": {
			events: []outbox.Event{keyed(1, "k"), keyed(2, "other")},
			holds:  holdsOf(topicHold(Hold{Through: through(0)}), keyHold(Hold{Through: through(0)})),
			want:   lines("parked 1 under hold 7", "parked 2 under hold 8"),
		},
		"the retry of a key waits while its topic is held": {
			events: []outbox.Event{keyed(1, "k"), keyed(2, "k")},
			holds:  holdsOf(topicHold(Hold{Through: through(0)}), keyHold(Hold{Through: through(1)})),
			want:   lines("parked 1 under hold 8", "parked 2 under hold 7"),
		},
		"a delayed event is not parked: as a probe it would prove nothing": {
			events: []outbox.Event{with(unkeyed(1), delayed), with(keyed(2, "k"), delayed), unkeyed(3)},
			holds:  holdsOf(topicHold(Hold{Through: through(0)}), keyHold(Hold{Through: through(0)})),
			want:   lines("scheduled 1 at its own time", "scheduled 2 at its own time", "parked 3 under hold 8"),
		},
		"an unencodable event is not parked either, and does not end the wait of its key, which is met again": {
			events: []outbox.Event{with(unkeyed(1), unencodable), with(keyed(2, "k"), unencodable), keyed(3, "k")},
			holds:  holdsOf(topicHold(Hold{Through: through(0)}), keyHold(Hold{Through: through(0)})),
			want:   lines("exhausted 1"+invalid, "exhausted 2"+invalid),
		},
		"an unencodable probe ends the hold of its key, but proves nothing about the topic": {
			events: []outbox.Event{with(keyed(2, "k"), unencodable)},
			holds:  holdsOf(topicHold(Hold{Through: through(2)}), keyHold(Hold{Through: through(2)})),
			want:   lines("exhausted 2"+invalid, "proven 7"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlan(&Batch{Events: c.events, Holds: c.holds}, rulesOf(TopicSettings{}))
			if got := sentIDs(p); !slices.Equal(got, c.sent) {
				t.Errorf("sent %v, want %v", got, c.sent)
			}
			if got := describe(p.settlement()); got != c.want {
				t.Errorf("settlement:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

func TestPlanAsksThePublisherWhatFits(t *testing.T) {
	t.Parallel()
	tooLarge := func(m *Message, limit int) *Outcome {
		if len(m.Value) > limit {
			return &Outcome{Class: Permanent, Code: "MESSAGE_TOO_LARGE", Message: "over 3"}
		}
		return nil
	}
	payload := func(p string) func(*outbox.Event) { return func(e *outbox.Event) { e.Payload = []byte(p) } }
	b := &Batch{Events: []outbox.Event{with(keyed(1, "k"), payload("123")), with(keyed(2, "k"), payload("1234"))}}
	r := rulesOf(TopicSettings{MaxMessageBytes: 3})
	r.check = tooLarge
	p := newPlan(b, r)
	if got := sentIDs(p); !slices.Equal(got, []int64{1}) {
		t.Errorf("sent %v", got)
	}
	if got, want := describe(p.settlement()), "exhausted 2 (attempt 1: permanent MESSAGE_TOO_LARGE)"; got != want {
		t.Errorf("settlement:\n%s\nwant:\n%s", got, want)
	}
}
