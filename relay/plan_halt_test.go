package relay

import (
	"testing"

	"github.com/postrider/postrider/relay/outbox"
)

// TestPlanHaltsKeys: with PolicyHaltKey the key of an event that was given up waits for somebody, and
// nothing of a key is given up before its turn.
func TestPlanHaltsKeys(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{AfterLastAttempt: PolicyHaltKey, Retry: outbox.RetryPolicy{MaxAttempts: 2, Base: 1e9, Max: 4e9}})
	last := func(e *outbox.Event) { e.Attempts = 1 }
	bad := func(id int64, key string) outbox.Event { return with(keyed(id, key), unencodable) }
	const (
		invalid = " (attempt 1: permanent INVALID_HEADERS)"
		halted  = "hold #0 on key t/k: halted INVALID_HEADERS, failed 0, until somebody comes, known in shard 3"
		refused = "hold #0 on key t/k: halted permanent, failed 0, until somebody comes, known in shard 3"
	)
	runPlanCases(t, map[string]planCase{
		"given up unsent: the later ones wait, in any state": {
			rules: r, batch: Batch{Events: events(bad(1, "k"), keyed(2, "k"), bad(3, "k"), keyed(4, "l"))},
			sent: []int64{4}, outcomes: outcomes(Delivered),
			want: lines("delivered [4]", "exhausted 1"+invalid, halted, "parked 2 under #0", "parked 3 under #0"),
		},
		"without a key there is nothing to halt": {
			rules: r, batch: Batch{Events: events(with(unkeyed(1), unencodable), unkeyed(2))},
			sent: []int64{2}, outcomes: outcomes(Delivered),
			want: lines("delivered [2]", "exhausted 1"+invalid),
		},
		"refused: what was withheld waits": {
			rules: r, batch: Batch{Events: events(keyed(1, "k"), keyed(2, "k"), keyed(3, "l"))},
			sent: []int64{1, 2, 3}, outcomes: outcomes(Permanent, Withheld, Delivered),
			want: lines("delivered [3]", "exhausted 1 (attempt 1: permanent permanent)", refused, "parked 2 under #0"),
		},
		"an attempt that is not the last does not halt": {
			rules: r, batch: Batch{Events: events(keyed(1, "k"), keyed(2, "k"))},
			sent: []int64{1, 2}, outcomes: outcomes(Record, Withheld),
			want: lines("hold #0 on key t/k: retry record, failed 1, probe in 1s", "parked 1 under #0 (attempt 1: record record)", "parked 2 under #0"),
		},
		"the last attempt": {
			rules: r, batch: Batch{Events: events(with(keyed(1, "k"), last)), Holds: holdsOf(onKey(7, "k", Hold{Cause: CauseRetry, Through: through(1)}))},
			sent: []int64{1}, outcomes: outcomes(Record),
			want: lines("exhausted 1 (attempt 2: record record)",
				"hold #0 on key t/k: halted record, failed 0, until somebody comes, known in shard 3"),
		},
		"it comes after others of its key, which are sent: its turn is when they have arrived": {
			rules: r, batch: Batch{Events: events(keyed(1, "k"), bad(2, "k"), keyed(3, "k"))},
			sent: []int64{1}, outcomes: outcomes(Delivered),
			want: "delivered [1]",
		},
		"behind a hold of its key nothing is given up": {
			rules: r, batch: Batch{Events: events(bad(1, "k"), bad(2, "l")), Holds: holdsOf(onKey(7, "k", Hold{Through: through(0)}))},
			want: lines("exhausted 2"+invalid, "hold #0 on key t/l: halted INVALID_HEADERS, failed 0, until somebody comes, known in shard 3",
				"parked 1 under hold 7"),
		},
		"nor behind one of its topic or partition": {
			rules: r, batch: Batch{Events: events(bad(1, "k"), bad(2, "bb"), with(unkeyed(3), unencodable)),
				Holds: holdsOf(onPartition(9, 1, 4, Hold{Through: through(0)}), onTopic(8, Hold{Through: through(0)}))},
			want: lines("parked 1 under hold 9", "parked 2 under hold 8", "parked 3 under hold 8"),
		},
		"nor behind an event that waits": {
			rules: r, batch: Batch{Events: events(with(keyed(1, "k"), delayed), bad(2, "k"), bad(3, "k"))},
			want: lines("exhausted 2"+invalid, "scheduled 1 at its own time", halted, "parked 3 under #0"),
		},
		"the probe that cannot be sent halts its key": {
			rules: r, batch: Batch{Events: events(bad(1, "k"), keyed(2, "k")), Holds: holdsOf(onKey(7, "k", Hold{Cause: CauseRetry, Through: through(1)}))},
			want: lines("exhausted 1"+invalid, halted, "parked 2 under #0"),
		},
		"what halts it is on its way again, and nothing else": {
			rules: r, batch: Batch{Events: events(keyed(1, "k"), keyed(2, "k")), Holds: holdsOf(onKey(7, "k", Hold{Cause: CauseRedrive, Through: through(1)}))},
			sent: []int64{1}, outcomes: outcomes(Delivered),
			want: lines("delivered [1]", "parked 2 under hold 7", "proven 7"),
		},
		"given up again, it halts again": {
			rules: r, batch: Batch{Events: events(keyed(1, "k")), Holds: holdsOf(onKey(7, "k", Hold{Cause: CauseRedrive, Through: through(1)}))},
			sent: []int64{1}, outcomes: outcomes(Permanent),
			want: lines("exhausted 1 (attempt 1: permanent permanent)", refused),
		},
		"an outage meets it: it waits for its topic, its key for it": {
			rules: r, batch: Batch{Events: events(keyed(1, "k"), keyed(2, "k")), Holds: holdsOf(onKey(7, "k", Hold{Cause: CauseRedrive, Through: through(1)}))},
			sent: []int64{1}, outcomes: outcomes(Infrastructure),
			want: lines("hold #0 on topic t: infrastructure infrastructure, failed 1, probe in 250ms", "parked 2 under hold 7", "parked 1 under #0"),
		},
		"a crowd that is let through in turns halts like any other": {
			rules: r, batch: Batch{Events: events(keyed(1, "k"), keyed(2, "k"), keyed(9, "k")), Holds: holdsOf(onKey(7, "k", Hold{Cause: CauseCrowded, Draining: true, Through: through(2)}))},
			sent: []int64{1, 2}, outcomes: outcomes(Permanent, Withheld),
			want: lines("exhausted 1 (attempt 1: permanent permanent)", refused, "parked 9 under hold 7", "parked 2 under #0"),
		},
	})
}

// TestPlanOfAKeyThatWasHaltedBefore: when the policy changed to continue, a redriven event that is given up
// again lets its key go.
func TestPlanOfAKeyThatWasHaltedBefore(t *testing.T) {
	t.Parallel()
	runPlanCases(t, map[string]planCase{"continue": {
		rules: rulesOf(TopicSettings{}), batch: Batch{Events: events(keyed(1, "k"), keyed(2, "k")), Holds: holdsOf(onKey(7, "k", Hold{Cause: CauseRedrive, Through: through(1)}))},
		sent: []int64{1}, outcomes: outcomes(Permanent),
		want: lines("exhausted 1 (attempt 1: permanent permanent)", "parked 2 under hold 7", "proven 7"),
	}})
}

// TestHaltComesAfterWhatIsSent: an event that cannot be sent halts its key only when the earlier ones of the
// batch are known to have arrived; one of them may have to be tried again, and must not wait behind it.
func TestHaltComesAfterWhatIsSent(t *testing.T) {
	t.Parallel()
	b := &Batch{Events: []outbox.Event{keyed(1, "k"), with(keyed(2, "k"), unencodable), keyed(3, "k"), with(keyed(4, "l"), unencodable)}}
	p := newPlan(b, rulesOf(TopicSettings{AfterLastAttempt: PolicyHaltKey}))
	p.settle(0, &Outcome{Class: Record, Code: "X"})
	if got, want := describe(p.settlement()), lines(
		"exhausted 4 (attempt 1: permanent INVALID_HEADERS)",
		"hold #0 on key t/l: halted INVALID_HEADERS, failed 0, until somebody comes, known in shard 3",
		"hold #1 on key t/k: retry X, failed 1, probe in 1s",
		"parked 1 under #1 (attempt 1: record X)"); got != want {
		t.Errorf("settlement:\n%s\nwant:\n%s", got, want)
	}
}

// TestWithheldIsNotPutBehindALaterEvent: an event that was let through and then withheld stays where it is,
// although a later one of its key was parked meanwhile: that one's hold may have let others pass.
func TestWithheldIsNotPutBehindALaterEvent(t *testing.T) {
	t.Parallel()
	hold := &Hold{ID: 7, Scope: ScopeKey, Topic: "t", Key: []byte("k"), Cause: CauseCrowded, Draining: true, Through: map[int16]int64{3: 9}}
	b := &Batch{Events: []outbox.Event{keyed(3, "k"), keyed(14, "k")}, Holds: holdsOf(hold)}
	p := newPlan(b, rulesOf(TopicSettings{}))
	p.settle(0, &Outcome{Class: Withheld})
	if got, want := describe(p.settlement()), "parked 14 under hold 7"; got != want {
		t.Errorf("settlement:\n%s\nwant:\n%s", got, want)
	}
}
