package relay

import (
	"testing"
	"time"

	"github.com/postrider/postrider/retry"
)

// TestBreakersCount counts with a clock of its own: three may fail in one way within ten seconds.
func TestBreakersCount(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Second
	settings := TopicSettings{BreakerEvents: 3, BreakerWindow: window}
	for name, c := range map[string]struct {
		settings TopicSettings
		// x is an event that fails, X one with which it is too many, s a second.
		run string
	}{
		"the fourth in a row":                    {settings, "xxxXX"},
		"the count begins anew after a window":   {settings, "xxxsssssssssssxxxX"},
		"at the end of the window it still runs": {settings, "xxxssssssssssX"},
		"never":                                  {TopicSettings{BreakerEvents: -1, BreakerWindow: window}, "xxxxxxxxxxxx"},
		"one is enough":                          {TopicSettings{BreakerEvents: 1, BreakerWindow: window}, "xX"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1, 0)
			b := newBreakers()
			b.now = func() time.Time { return now }
			for i, step := range c.run {
				if step == 's' {
					now = now.Add(time.Second)
					continue
				}
				if got := b.failed("t", "CODE", &c.settings); got != (step == 'X') {
					t.Errorf("after %q: too many is %v", c.run[:i+1], got)
				}
			}
			if b.failed("u", "CODE", &settings) || b.failed("t", "OTHER", &settings) {
				t.Error("what fails in one way counts for another topic or code")
			}
		})
	}
	var none *breakers
	for range 1000 {
		if none.failed("t", "CODE", &TopicSettings{BreakerEvents: 1, BreakerWindow: time.Hour}) {
			t.Fatal("a plan without a count has a breaker that opens")
		}
	}
}

// breaking are rules by which n of topic t failed lately with each code, and one more than three is too many.
func breaking(n int, s TopicSettings) rules {
	s.BreakerEvents, s.BreakerWindow = 3, time.Hour
	r := rulesOf(s)
	r.breakers = newBreakers()
	for range n {
		for _, code := range []string{"permanent", "record", "INVALID_HEADERS"} {
			r.breakers.failed("t", code, r.settings("t"))
		}
	}
	return r
}

// TestPlanOfABreaker: when too many events of a topic fail in one way, they are parked, with the attempt they spent; the
// others of the topic, and of their own keys, go.
func TestPlanOfABreaker(t *testing.T) {
	t.Parallel()
	bad := func(id int64, key string) Event { return with(keyed(id, key), unencodable) }
	u := func(e *Event) { e.Topic = "u" }
	const (
		refused  = " (attempt 1: permanent permanent)"
		invalid  = " (attempt 1: permanent INVALID_HEADERS)"
		opens    = "hold 100 on failure t permanent: circuit_breaker permanent, failed 1, probe in 30s, new"
		withheld = "retry WITHHELD, failed 0, draining"
	)
	open := onFailure(8, "permanent", Hold{Probes: 1})
	draining := onFailure(8, "permanent", Hold{Probes: 1, Draining: true, through: 9})
	runPlanCases(t, map[string]planCase{
		"up to the bound they are given up": {rules: breaking(0, TopicSettings{}), events: events(keyed(1, "k"), keyed(2, "l"), unkeyed(3)),
			sent: []int64{1, 2, 3}, outcomes: outcomes(Permanent, Permanent, Permanent), want: lines("exhausted 1"+refused, "exhausted 2"+refused, "exhausted 3"+refused)},
		"beyond it they wait, and the next of their keys go when that is written": {rules: breaking(2, TopicSettings{}), events: events(keyed(1, "k"), keyed(2, "l"), unkeyed(3), keyed(4, "l"), keyed(5, "m")),
			sent: []int64{1, 2, 3, 4, 5}, outcomes: outcomes(Permanent, Permanent, Permanent, Withheld, Delivered),
			want: lines("sent 1", opens, "hold 101 on key t/l: "+withheld+", new", "exhausted 1"+refused, "parked 2 behind 100"+refused, "parked 3 behind 100"+refused, "parked 4 behind 101")},
		"unsendable ones, too": {rules: breaking(2, TopicSettings{}), events: events(bad(1, "k"), bad(2, "l"), keyed(3, "l"), keyed(4, "m")),
			sent: []int64{4}, outcomes: outcomes(Delivered),
			want: lines("sent 1", "hold 100 on failure t INVALID_HEADERS: circuit_breaker INVALID_HEADERS, failed 1, probe in 30s, new", "hold 101 on key t/l: "+withheld+", new",
				"exhausted 1"+invalid, "parked 2 behind 100 (attempt 0: permanent INVALID_HEADERS)", "parked 3 behind 101")},
		"the ones that were tried to the end": {rules: breaking(3, TopicSettings{Retry: retry.Policy{MaxAttempts: 1, Base: 1, Max: 1}}), events: events(keyed(1, "k")),
			sent: []int64{1}, outcomes: outcomes(Record), want: lines("hold 100 on failure t record: circuit_breaker record, failed 1, probe in 30s, new", "parked 1 behind 100 (attempt 1: record record)")},
		"another topic is not concerned": {rules: breaking(3, TopicSettings{}), events: events(with(keyed(1, "k"), u), with(keyed(2, "l"), u)),
			sent: []int64{1, 2}, outcomes: outcomes(Permanent, Delivered), want: lines("sent 1", "exhausted 1"+refused)},
		"nor is another way to fail": {rules: breaking(0, TopicSettings{}), events: events(keyed(1, "k"), bad(2, "l")), holds: []Hold{open},
			sent: []int64{1}, outcomes: outcomes(Permanent), want: lines("parked 1 behind 8"+refused, "exhausted 2"+invalid)},
		"open: what goes goes": {rules: breaking(3, TopicSettings{}), events: events(keyed(1, "k"), unkeyed(2)), holds: []Hold{open},
			sent: []int64{1, 2}, outcomes: outcomes(Delivered, Delivered), want: "sent 2"},
		"skipped by hand is no failure": {rules: breaking(3, TopicSettings{}), events: events(keyed(1, "k")), holds: []Hold{onFailure(8, "SKIPPED", Hold{})},
			skips: map[int64]string{1: "x"}, want: lines("exhausted 1 (attempt 1: permanent SKIPPED)", "skipped [1]")},
		"too old is no failure either": {rules: breaking(3, TopicSettings{MaxAge: time.Hour}), events: events(aged(unkeyed(1), 2*time.Hour)), from: []int64{9},
			holds: []Hold{onFailure(8, "MAX_AGE_EXCEEDED", Hold{}), onTopic(9, Hold{Cause: CauseInfrastructure, Age: 2 * time.Hour, through: 1})},
			sent:  []int64{1}, outcomes: outcomes(Infrastructure), want: lines("hold 9 on topic t: infrastructure , failed 0, draining", "exhausted 1 (attempt 1: infrastructure MAX_AGE_EXCEEDED)")},
		"a probe that fails again: the next comes later": {rules: breaking(3, TopicSettings{}), events: events(keyed(1, "k")), holds: []Hold{open}, from: []int64{8},
			sent: []int64{1}, outcomes: outcomes(Permanent),
			want: lines("hold 8 on failure t permanent: circuit_breaker permanent, failed 2, probe in 1m0s", "parked 1 behind 8"+refused)},
		"at most five minutes later": {rules: breaking(3, TopicSettings{}), events: events(keyed(1, "k")), holds: []Hold{onFailure(8, "permanent", Hold{Probes: 1 << 20})}, from: []int64{8},
			sent: []int64{1}, outcomes: outcomes(Permanent),
			want: lines("hold 8 on failure t permanent: circuit_breaker permanent, failed 1048577, probe in 5m0s", "parked 1 behind 8"+refused)},
		"a probe that fails in another way": {rules: breaking(0, TopicSettings{}), events: events(bad(1, "k")), holds: []Hold{open}, from: []int64{8},
			want: lines("exhausted 1" + invalid)},
		"a probe that may be tried again waits for its key": {rules: breaking(3, TopicSettings{}), events: events(keyed(1, "k")), holds: []Hold{open}, from: []int64{8},
			sent: []int64{1}, outcomes: outcomes(Record), want: lines("hold 100 on key t/k: retry record, failed 1, probe in 1s, new", "parked 1 behind 100 (attempt 1: record record)")},
		"one that is delivered lets the others come": {rules: breaking(3, TopicSettings{}), events: events(keyed(1, "k")), holds: []Hold{open}, from: []int64{8},
			sent: []int64{1}, outcomes: outcomes(Delivered), want: lines("gone [1]", "hold 8 on failure t permanent: circuit_breaker , failed 1, draining")},
		"all are tried: the ones that fail again stay": {rules: breaking(3, TopicSettings{}), events: events(keyed(1, "k"), keyed(2, "l"), unkeyed(3)), holds: []Hold{draining}, from: []int64{8, 8, 8},
			sent: []int64{1, 2, 3}, outcomes: outcomes(Permanent, Delivered, Permanent), want: lines("gone [2]", "parked 1 behind 8"+refused, "parked 3 behind 8"+refused)},
		"the setting is off: they are given up": {rules: rulesOf(TopicSettings{BreakerEvents: -1}), events: events(keyed(1, "k"), unkeyed(2)), holds: []Hold{draining}, from: []int64{8, 8},
			sent: []int64{1, 2}, outcomes: outcomes(Permanent, Permanent), want: lines("exhausted 1"+refused, "exhausted 2"+refused)},
		"given up by hand": {rules: breaking(3, TopicSettings{}), giveUp: true, holds: []Hold{open}, from: []int64{8, 8},
			events: events(with(keyed(1, "k"), func(e *Event) { e.LastErrorCode = "permanent"; e.Attempts = 1 }), unkeyed(2)),
			want:   lines("exhausted 1 (attempt 2: permanent permanent)", "exhausted 2 (attempt 1: permanent SKIPPED)")},
		"an outage meets what is tried": {rules: breaking(3, TopicSettings{}), events: events(keyed(1, "k"), keyed(2, "l")), holds: []Hold{draining}, from: []int64{8, 8},
			sent: []int64{1, 2}, outcomes: outcomes(Infrastructure, Permanent),
			want: lines("hold 100 on topic t: infrastructure infrastructure, failed 1, probe in 250ms, new", "parked 1 behind 100", "parked 2 behind 8"+refused)},
		"where keys halt, its key waits with it": {rules: breaking(3, TopicSettings{AfterLastAttempt: PolicyHaltKey}), events: events(keyed(1, "k"), keyed(2, "k")),
			sent: []int64{1, 2}, outcomes: outcomes(Permanent, Withheld),
			want: lines(opens, "hold 101 on key t/k: halted permanent, failed 0, until a release, new", "parked 1 behind 100"+refused, "parked 2 behind 101")},
		"and goes on when it is delivered": {rules: breaking(3, TopicSettings{AfterLastAttempt: PolicyHaltKey}), events: events(keyed(1, "k")), from: []int64{8},
			holds: []Hold{draining, onKey(7, "k", Hold{Cause: CauseHalted, EventID: eventID(1)})}, sent: []int64{1}, outcomes: outcomes(Delivered),
			want: lines("gone [1]", "hold 7 on key t/k: halted , failed 0, draining")},
	})
}
