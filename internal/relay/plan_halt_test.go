package relay

import (
	"testing"

	"github.com/postrider/postrider/retry"
)

// TestPlanHaltsKeys: with PolicyHaltKey the key of an event that was given up waits for an operator, and no event of a key
// is given up before its turn.
func TestPlanHaltsKeys(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{AfterLastAttempt: PolicyHaltKey, Retry: retry.Policy{MaxAttempts: 2, Base: 1e9, Max: 4e9}})
	last := func(e *Event) { e.Attempts = 1 }
	bad := func(id int64, key string) Event { return with(keyed(id, key), unencodable) }
	const (
		invalid = " (attempt 1: permanent INVALID_HEADERS)"
		halted  = "hold 100 on key t/k: halted INVALID_HEADERS, failed 0, until a release, new"
		refused = "hold 100 on key t/k: halted permanent, failed 0, until a release, new"
		again   = "hold 7 on key t/k: halted permanent, failed 0, until a release"
		gone    = "exhausted 1 (attempt 1: permanent permanent)"
	)
	redrive := onKey(7, "k", Hold{Cause: CauseRedrive, EventID: eventID(1)})
	runPlanCases(t, map[string]planCase{
		"given up unsent: the later ones wait, in any state": {rules: r, events: events(bad(1, "k"), keyed(2, "k"), bad(3, "k"), keyed(4, "l")),
			sent: []int64{4}, outcomes: outcomes(Delivered), want: lines("sent 1", halted, "exhausted 1"+invalid, "parked 2 behind 100", "parked 3 behind 100")},
		"without a key there is nothing to halt": {rules: r, events: events(with(unkeyed(1), unencodable), unkeyed(2)),
			sent: []int64{2}, outcomes: outcomes(Delivered), want: lines("sent 1", "exhausted 1"+invalid)},
		"refused: what was withheld waits": {rules: r, events: events(keyed(1, "k"), keyed(2, "k"), keyed(3, "l")),
			sent: []int64{1, 2, 3}, outcomes: outcomes(Permanent, Withheld, Delivered), want: lines("sent 1", refused, gone, "parked 2 behind 100")},
		"an attempt that is not the last does not halt": {rules: r, events: events(keyed(1, "k"), keyed(2, "k")),
			sent: []int64{1, 2}, outcomes: outcomes(Record, Withheld),
			want: lines("hold 100 on key t/k: retry record, failed 1, probe in 1s, new", "parked 1 behind 100 (attempt 1: record record)", "parked 2 behind 100")},
		"the last attempt": {rules: r, events: events(with(keyed(1, "k"), last)), holds: []Hold{onKey(7, "k", Hold{Cause: CauseRetry, EventID: eventID(1)})}, from: []int64{7},
			sent: []int64{1}, outcomes: outcomes(Record),
			want: lines("hold 7 on key t/k: halted record, failed 0, until a release", "exhausted 1 (attempt 2: record record)")},
		"an unsendable one after others of its key, which are sent": {rules: r, events: events(keyed(1, "k"), bad(2, "k"), keyed(3, "k")),
			sent: []int64{1}, outcomes: outcomes(Delivered), want: lines("sent 1", halted, "exhausted 2"+invalid, "parked 3 behind 100")},
		"behind a hold of its key nothing is given up": {rules: r, events: events(bad(1, "k"), bad(2, "l")), holds: []Hold{onKey(7, "k", Hold{})},
			want: lines("hold 100 on key t/l: halted INVALID_HEADERS, failed 0, until a release, new", "parked 1 behind 7", "exhausted 2"+invalid)},
		"nor behind one of its topic or partition": {rules: r, events: events(bad(1, "k"), bad(2, "bb"), with(unkeyed(3), unencodable)),
			holds: []Hold{onPartition(9, 1, 4, Hold{}), onTopic(8, Hold{})}, want: lines("parked 1 behind 9", "parked 2 behind 8", "parked 3 behind 8")},
		"the probe that cannot be sent halts its key": {rules: r, events: events(bad(1, "k"), keyed(2, "k")), from: []int64{7, 7},
			holds: []Hold{onKey(7, "k", Hold{Cause: CauseRetry, through: 2})},
			want:  lines("hold 7 on key t/k: halted INVALID_HEADERS, failed 0, until a release", "exhausted 1"+invalid, "parked 2 behind 7")},
		"what halts it is on its way again, and nothing else": {rules: r, events: events(keyed(1, "k")), holds: []Hold{redrive}, from: []int64{7},
			sent: []int64{1}, outcomes: outcomes(Delivered), want: lines("gone [1]", "hold 7 on key t/k: redrive , failed 0, draining")},
		"new events of the key wait for it": {rules: r, events: events(keyed(2, "k")), holds: []Hold{redrive}, want: "parked 2 behind 7"},
		"given up again, it halts again": {rules: r, events: events(keyed(1, "k")), holds: []Hold{redrive}, from: []int64{7},
			sent: []int64{1}, outcomes: outcomes(Permanent), want: lines(again, gone)},
		"an outage meets it: it waits for its topic, its key for it": {rules: r, events: events(keyed(1, "k")), holds: []Hold{redrive}, from: []int64{7},
			sent: []int64{1}, outcomes: outcomes(Infrastructure),
			want: lines("hold 100 on topic t: infrastructure infrastructure, failed 1, probe in 250ms, new", "parked 1 behind 100")},
		"back from there it goes, because its key waits for it": {rules: r, events: events(keyed(1, "k")), from: []int64{8},
			holds: []Hold{redrive, onTopic(8, Hold{Cause: CauseInfrastructure, through: 1})}, sent: []int64{1}, outcomes: outcomes(Delivered),
			want: lines("gone [1]", "hold 7 on key t/k: redrive , failed 0, draining", "hold 8 on topic t: infrastructure , failed 0, draining")},
		"its key halts while others of it are let through": {rules: r, events: events(keyed(1, "k"), keyed(2, "k")), from: []int64{7, 7},
			holds: []Hold{onKey(7, "k", Hold{Cause: CauseRetry, Draining: true, through: 2})},
			sent:  []int64{1, 2}, outcomes: outcomes(Permanent, Withheld), want: lines(again, gone, "parked 2 behind 7")},
		"skipped, its key goes on": {rules: r, events: events(keyed(1, "k"), keyed(2, "k")), skips: map[int64]string{1: "x"},
			want: lines("hold 100 on key t/k: retry WITHHELD, failed 0, draining, new", "exhausted 1 (attempt 1: permanent SKIPPED)", "parked 2 behind 100", "skipped [1]")},
		"another of a halted key fails, which was on its way: it stays halted": {rules: r, events: events(keyed(5, "k")), from: []int64{0},
			holds: []Hold{onKey(7, "k", Hold{Cause: CauseHalted, EventID: eventID(1), through: 5})}, sent: []int64{5}, outcomes: outcomes(Record),
			want: lines("parked 5 behind 7 (attempt 1: record record)")},
	})
}

// TestPlanOfAKeyThatWasHaltedBefore: when the policy changed to continue, a redriven event that is given up again lets
// its key go.
func TestPlanOfAKeyThatWasHaltedBefore(t *testing.T) {
	t.Parallel()
	runPlanCases(t, map[string]planCase{"continue": {
		rules: rulesOf(TopicSettings{}), events: events(keyed(1, "k")), holds: []Hold{onKey(7, "k", Hold{Cause: CauseRedrive, EventID: eventID(1)})}, from: []int64{7},
		sent: []int64{1}, outcomes: outcomes(Permanent),
		want: lines("hold 7 on key t/k: redrive , failed 0, draining", "exhausted 1 (attempt 1: permanent permanent)"),
	}})
}

// TestHaltComesAfterWhatIsSent: an event that cannot be sent halts its key only when the earlier ones of the batch are
// known to have arrived; one of them may have to be tried again, and must not wait behind it.
func TestHaltComesAfterWhatIsSent(t *testing.T) {
	t.Parallel()
	bad := func(id int64, key string) Event { return with(keyed(id, key), unencodable) }
	runPlanCases(t, map[string]planCase{"an earlier one fails": {
		rules: rulesOf(TopicSettings{AfterLastAttempt: PolicyHaltKey}), events: events(keyed(1, "k"), bad(2, "k"), keyed(3, "k"), bad(4, "l")),
		sent: []int64{1}, outcomes: outcomes(Record),
		want: lines("hold 100 on key t/k: retry record, failed 1, probe in 1s, new",
			"hold 101 on key t/l: halted INVALID_HEADERS, failed 0, until a release, new",
			"parked 1 behind 100 (attempt 1: record record)", "parked 2 behind 100", "parked 3 behind 100", "exhausted 4 (attempt 1: permanent INVALID_HEADERS)"),
	}})
}
