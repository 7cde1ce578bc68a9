package relay

import (
	"testing"
)

// TestPlanSortsEvents is about what happens to an event before anything is sent: it goes, waits behind a hold, waits
// for its time, or is given up.
func TestPlanSortsEvents(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{})
	const (
		invalid  = " (attempt 1: permanent INVALID_HEADERS)"
		withheld = "hold 100 on key t/k: retry WITHHELD, failed 0, draining, new"
	)
	u := func(e *Event) { e.Topic = "u" }
	all := func(n int) (cs []Class) {
		for range n {
			cs = append(cs, Delivered)
		}
		return cs
	}
	runPlanCases(t, map[string]planCase{
		"nothing held, all go": {rules: r, events: events(unkeyed(1), keyed(2, "k"), keyed(3, "")),
			sent: []int64{1, 2, 3}, outcomes: outcomes(all(3)...), want: "sent 3"},
		"a delayed event waits for its time, with or without a key": {rules: r,
			events: events(with(unkeyed(1), delayed), with(keyed(2, "k"), delayed), keyed(3, "k")),
			sent:   []int64{3}, outcomes: outcomes(Delivered), want: lines("sent 1", "scheduled 1 at its own time", "scheduled 2 at its own time")},
		"an event that cannot be encoded is given up, and its key goes on when that is written": {rules: r,
			events: events(with(keyed(1, "k"), unencodable), keyed(2, "k"), keyed(3, "l"), with(unkeyed(4), unencodable), unkeyed(5), keyed(6, "k")),
			sent:   []int64{3, 5}, outcomes: outcomes(all(2)...),
			want: lines("sent 2", withheld, "exhausted 1"+invalid, "parked 2 behind 100", "exhausted 4"+invalid, "parked 6 behind 100")},
		"a held key waits, others go": {rules: r, holds: []Hold{onKey(7, "k", Hold{})},
			events: events(keyed(1, "k"), keyed(2, "other"), unkeyed(3), keyed(4, "k"), keyed(5, "")),
			sent:   []int64{2, 3, 5}, outcomes: outcomes(all(3)...), want: lines("sent 3", "parked 1 behind 7", "parked 4 behind 7")},
		"a hold on the empty key is not one on events without a key": {rules: r, holds: []Hold{onKey(9, "", Hold{})},
			events: events(keyed(1, ""), unkeyed(2), keyed(3, "k")), sent: []int64{2, 3}, outcomes: outcomes(all(2)...), want: lines("sent 2", "parked 1 behind 9")},
		"the same key of another topic is not held": {rules: r, holds: []Hold{onKey(7, "k", Hold{})},
			events: events(with(keyed(1, "k"), u)), sent: []int64{1}, outcomes: outcomes(Delivered), want: "sent 1"},
		"the event that its key waits for goes, wherever it comes from": {rules: r, holds: []Hold{onKey(7, "k", Hold{EventID: eventID(10)})},
			events: events(keyed(10, "k"), keyed(11, "k")), sent: []int64{10}, outcomes: outcomes(Delivered),
			want: lines("sent 1", "hold 7 on key t/k:  , failed 0, draining", "parked 11 behind 7")},
		"a held topic holds all of its events": {rules: r, holds: []Hold{onTopic(8, Hold{})},
			events: events(keyed(1, "k"), unkeyed(2), with(unkeyed(3), u)), sent: []int64{3}, outcomes: outcomes(Delivered),
			want: lines("sent 1", "parked 1 behind 8", "parked 2 behind 8")},
		"draining: what was let through goes, what comes after the rest waits": {rules: r, holds: []Hold{onTopic(8, Hold{Draining: true, through: 100})},
			events: events(keyed(10, "k"), keyed(500, "k"), keyed(501, "other")), sent: []int64{10}, outcomes: outcomes(Delivered),
			want: lines("sent 1", "parked 500 behind 8", "parked 501 behind 8")},
		"draining, and nothing was let through yet: all wait": {rules: r, holds: []Hold{onTopic(8, Hold{Draining: true})},
			events: events(keyed(10, "k"), unkeyed(11)), want: lines("parked 10 behind 8", "parked 11 behind 8")},
		"a held key of a held topic waits for its key, so that the topic's probe is one that can go": {rules: r,
			holds: []Hold{onTopic(8, Hold{}), onKey(7, "k", Hold{})}, events: events(keyed(1, "k"), keyed(2, "other")),
			want: lines("parked 1 behind 7", "parked 2 behind 8")},
		"the retry of a key waits while its topic is held, and its key behind it": {rules: r, from: []int64{7, 7},
			holds: []Hold{onTopic(8, Hold{}), onKey(7, "k", Hold{Draining: true, through: 2})}, events: events(keyed(1, "k"), keyed(2, "k")),
			want: lines("parked 1 behind 8", "parked 2 behind 8")},
		"a delayed event is not parked: as a probe it would prove nothing": {rules: r, holds: []Hold{onTopic(8, Hold{}), onKey(7, "k", Hold{})},
			events: events(with(unkeyed(1), delayed), with(keyed(2, "k"), delayed), unkeyed(3)),
			want:   lines("scheduled 1 at its own time", "scheduled 2 at its own time", "parked 3 behind 8")},
		"an unencodable event is parked like any other: it is given up in its turn": {rules: r, holds: []Hold{onTopic(8, Hold{}), onKey(7, "k", Hold{})},
			events: events(with(unkeyed(1), unencodable), with(keyed(2, "k"), unencodable), keyed(3, "k")),
			want:   lines("parked 1 behind 8", "parked 2 behind 7", "parked 3 behind 7")},
		"an unencodable probe ends the hold of its key, but proves nothing about the topic": {rules: r, from: []int64{7},
			holds: []Hold{onTopic(8, Hold{through: 2}), onKey(7, "k", Hold{through: 2})}, events: events(with(keyed(2, "k"), unencodable)),
			want: lines("hold 7 on key t/k:  , failed 0, draining", "exhausted 2"+invalid)},
		"one that people gave up goes to the dead letters in its turn": {rules: r, skips: map[int64]string{1: "a mistake", 9: "not here"},
			events: events(keyed(1, "k"), keyed(2, "k"), keyed(3, "l")), sent: []int64{3}, outcomes: outcomes(Delivered),
			want: lines("sent 1", withheld, "exhausted 1 (attempt 1: permanent SKIPPED)", "parked 2 behind 100", "skipped [1]")},
		"one that people gave up and that waits is given up later": {rules: r, skips: map[int64]string{1: "a mistake"}, holds: []Hold{onTopic(8, Hold{})},
			events: events(keyed(1, "k")), want: "parked 1 behind 8"},
		"one after an earlier event of its key that waits for its time waits for nothing": {rules: r,
			events: events(with(keyed(1, "k"), delayed), with(keyed(2, "k"), unencodable), keyed(3, "k")),
			want:   lines(withheld, "scheduled 1 at its own time", "exhausted 2"+invalid, "parked 3 behind 100")},
		"the order of ids decides about a key, whatever could be sent": {rules: r,
			events: events(with(keyed(1, "k"), unencodable), keyed(2, "k"), with(keyed(3, "k"), unencodable)),
			want:   lines(withheld, "exhausted 1"+invalid, "parked 2 behind 100", "parked 3 behind 100")},
	})
}

func TestPlanAsksThePublisherWhatFits(t *testing.T) {
	t.Parallel()
	payload := func(p string) func(*Event) { return func(e *Event) { e.Payload = []byte(p) } }
	r := rulesOf(TopicSettings{MaxMessageBytes: 3})
	r.check = func(m *Message, limit int) *Outcome {
		if len(m.Value) > limit {
			return &Outcome{Class: Permanent, Code: "MESSAGE_TOO_LARGE", Message: "over 3"}
		}
		return nil
	}
	runPlanCases(t, map[string]planCase{"too large": {rules: r, events: events(with(keyed(1, "k"), payload("123")), with(keyed(2, "l"), payload("1234"))),
		sent: []int64{1}, outcomes: outcomes(Delivered), want: lines("sent 1", "exhausted 2 (attempt 1: permanent MESSAGE_TOO_LARGE)")}})
}

// TestPlanRefusesOwnTopics: a service does not write to a topic that is Postrider's own; a task does.
func TestPlanRefusesOwnTopics(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{})
	r.own = func(topic string) string { return map[string]string{"t": "dead letters"}[topic] }
	ofTask := func(e *Event) { e.OfTask = true }
	u := func(e *Event) { e.Topic = "u" }
	runPlanCases(t, map[string]planCase{"own": {rules: r, events: events(unkeyed(1), with(unkeyed(2), ofTask), with(unkeyed(3), u)),
		sent: []int64{2, 3}, outcomes: outcomes(Delivered, Delivered), want: lines("sent 2", "exhausted 1 (attempt 1: permanent RESERVED_TOPIC)")}})
}
