package dlq

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// planNow is now, wherever a plan asks.
var planNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// describeStep says what a step is.
func describeStep(s OperationStep) string {
	parts := []string{string(s.State)}
	if s.Items > 0 {
		parts = append(parts, fmt.Sprintf("%d items", s.Items))
	}
	if s.AllTreated {
		parts = append(parts, "all treated")
	}
	if s.Pause > 0 {
		parts = append(parts, "wait "+s.Pause.String())
	}
	if s.Error != "" {
		parts = append(parts, s.Error)
	}
	return strings.Join(parts, ", ")
}

func runSteps(t *testing.T, cases map[string]struct {
	o    Operation
	want string
}) {
	t.Helper()
	for name, c := range cases {
		if c.o.Kind == "" {
			c.o.Kind = OpRedrive
		}
		if got := describeStep(c.o.NextStep(planNow)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPlanOfACanary: the first few are sent, and the rest waits until what became of all of them is known. Items that are
// skipped say nothing and count for nothing.
func TestPlanOfACanary(t *testing.T) {
	t.Parallel()
	of := func(o Operation) Operation {
		o.State, o.Items, o.Options.Canary = Canary, 100, 5
		return o
	}
	runSteps(t, map[string]struct {
		o    Operation
		want string
	}{
		"it begins with the canary":        {of(Operation{}), "canary, 5 items"},
		"skipped ones are replaced":        {of(Operation{Done: 2, Skipped: 3}), "canary, 3 items"},
		"a rate below it":                  {of(Operation{Options: OperationOptions{Rate: 20}}), "canary, 2 items"},
		"nothing is known":                 {of(Operation{Done: 5}), "canary, wait 500ms"},
		"not all is known":                 {of(Operation{Done: 5, Delivered: 3, CameBack: 1}), "canary, wait 500ms"},
		"all arrived":                      {of(Operation{Done: 5, Delivered: 5}), "running, 1000 items"},
		"few enough came back":             {of(Operation{Done: 10, Delivered: 9, CameBack: 1, State: Running}), "running, 1000 items"},
		"too many came back, all is known": {of(Operation{Done: 5, Delivered: 4, CameBack: 1}), "halted, 1 of 5 became dead letters again, more than 10 %"},
		"too many, but not all is known":   {of(Operation{Done: 5, CameBack: 2}), "canary, wait 500ms"},
		"enough to halt before the rest":   {of(Operation{Done: 5, CameBack: 3}), "halted, 3 of 3 became dead letters again, more than 10 %"},
		"forgiven: it goes on":             {of(Operation{Done: 5, Delivered: 2, CameBack: 3, ForgivenCameBack: 3, ForgivenDelivered: 2}), "running, 1000 items"},
		"it is all that there is":          {of(Operation{Done: 5, Skipped: 95}), "canary, all treated, wait 500ms"},
	})
	for name, c := range map[string]struct {
		o    Operation
		want bool
	}{
		"no canary":                {Operation{Items: 10}, false},
		"to be sent":               {of(Operation{Done: 4}), true},
		"to be waited for":         {of(Operation{Done: 5, Delivered: 4}), true},
		"known":                    {of(Operation{Done: 5, Delivered: 4, CameBack: 1}), false},
		"behind it":                {of(Operation{Done: 6}), false},
		"nothing is left for then": {of(Operation{Done: 3, Skipped: 97}), false},
	} {
		if got := c.o.InCanary(); got != c.want {
			t.Errorf("%s: in the canary: %v", name, got)
		}
	}
}

// TestPlanOfHalting: an operation halts when more than a share of the known outcomes came back dead, from a minimum on.
// Outcomes that a person forgave do not count.
func TestPlanOfHalting(t *testing.T) {
	t.Parallel()
	of := func(o Operation, ratio float64, minimum int) Operation {
		o.State, o.Items, o.Done, o.Options.HaltRatio, o.Options.HaltMinimum = Running, 1000, 500, &ratio, &minimum
		return o
	}
	defaults := func(delivered, cameBack int64) Operation {
		return Operation{State: Running, Items: 1000, Done: 500, Delivered: delivered, CameBack: cameBack}
	}
	const on = "running, 1000 items"
	runSteps(t, map[string]struct {
		o    Operation
		want string
	}{
		"below the minimum":                  {defaults(0, 2), on},
		"at the minimum":                     {defaults(0, 3), "halted, 3 of 3 became dead letters again, more than 10 %"},
		"exactly the share":                  {defaults(27, 3), on},
		"more than the share":                {defaults(26, 3), "halted, 3 of 29 became dead letters again, more than 10 %"},
		"a ratio of 0: the first":            {of(Operation{Delivered: 400, CameBack: 1}, 0, 1), "halted, 1 of 401 became dead letters again, more than 0 %"},
		"a ratio of 0, below the minimum":    {of(Operation{Delivered: 4, CameBack: 3}, 0, 4), on},
		"a ratio of 1: never":                {of(Operation{CameBack: 500}, 1, 1), on},
		"forgiven":                           {of(Operation{CameBack: 7, Delivered: 1, ForgivenCameBack: 7, ForgivenDelivered: 1}, 0.3, 2), on},
		"again after what was forgiven":      {of(Operation{CameBack: 7, Delivered: 1, ForgivenCameBack: 3, ForgivenDelivered: 1}, 0.3, 2), "halted, 4 of 4 became dead letters again, more than 30 %"},
		"nothing is left that could be kept": {Operation{State: Running, Items: 500, Done: 500, CameBack: 400}, "running, all treated, wait 500ms"},
	})
}

// TestPlanOfTheEnd: an operation is completed when all its redrives have ended, or when they took too long. Closing and
// purging leave nothing to wait for.
func TestPlanOfTheEnd(t *testing.T) {
	t.Parallel()
	of := func(o Operation) Operation {
		o.State, o.Items, o.Done = Running, 10, 10
		return o
	}
	const waits, completed = "running, all treated, wait 500ms", "completed, all treated, wait 500ms"
	runSteps(t, map[string]struct {
		o    Operation
		want string
	}{
		"on their way":          {of(Operation{Delivered: 9}), waits},
		"ended":                 {of(Operation{Delivered: 9, CameBack: 1}), completed},
		"an hour":               {of(Operation{TreatedAt: planNow.Add(-time.Hour)}), waits},
		"longer than an hour":   {of(Operation{TreatedAt: planNow.Add(-time.Hour - 1)}), completed},
		"closed":                {of(Operation{Kind: OpResolve}), completed},
		"purged":                {of(Operation{Kind: OpPurge}), completed},
		"all were skipped":      {Operation{State: Running, Items: 10, Skipped: 8, Failed: 2}, completed},
		"a count that is wrong": {Operation{State: Running, Items: 9, Done: 10, Delivered: 10}, completed},
	})
	o := Operation{Kind: OpRedrive, State: Running, Items: 11, Done: 10, Delivered: 10}
	if got := describeStep(o.AwaitRedrives(planNow)); got != completed { // no item is left, whatever the count says
		t.Errorf("one item too many is counted: %s", got)
	}
}

// TestPlanOfARate: a batch is a tenth of a second of the rate, at least one item, and lasts as long as the rate says.
func TestPlanOfARate(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]int{0: 1000, 0.5: 1, 1: 1, 9: 1, 10: 1, 11: 2, 50: 5, 5000: 500, 1e6: 1000} {
		n := batchItems(rate)
		pause := batchPause(rate, n)
		if n != want {
			t.Errorf("a batch at %g a second has %d, want %d", rate, n, want)
		}
		if rate > 0 && (pause.Seconds()*rate < float64(n)*0.999 || pause.Seconds()*rate > float64(n)*1.001) {
			t.Errorf("at %g a second %d take %v", rate, n, pause)
		}
		if rate == 0 && pause != 0 {
			t.Errorf("without a rate there is a pause of %v", pause)
		}
	}
}

// planID is the id of investigation n.
func planID(n int) (id uuid.UUID) {
	id[15] = byte(n)
	return id
}

// TestPlanOfABatch: what becomes of items, by what became of their investigations.
func TestPlanOfABatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rate float64
		why  []SkipReason // of the items from place 11 on; "-" is said of none
		want string
	}{
		"all done":                             {0, []SkipReason{"", ""}, "11 done, 12 done; 2 done, 0 skipped, 0 failed, through 12, pause 0s"},
		"purged: nothing is said of it":        {0, []SkipReason{"", "-"}, "11 done, 12 skipped purged; 1 done, 1 skipped, 0 failed, through 12, pause 0s"},
		"refused by the outbox":                {0, []SkipReason{Refused, ""}, "11 failed refused, 12 done; 1 done, 0 skipped, 1 failed, through 12, pause 0s"},
		"left alone":                           {0, []SkipReason{NotPending, HoldsKey}, "11 skipped not_pending, 12 skipped holds_key; 0 done, 2 skipped, 0 failed, through 12, pause 0s"},
		"its key is in work: a pause":          {0, []SkipReason{"", Busy, ""}, "11 done, 13 done; 2 done, 0 skipped, 0 failed, through 11, pause 500ms"},
		"left for the next batch: no pause":    {0, []SkipReason{"", leftForLater}, "11 done; 1 done, 0 skipped, 0 failed, through 11, pause 0s"},
		"the first waits":                      {0, []SkipReason{Busy, ""}, "12 done; 1 done, 0 skipped, 0 failed, through 0, pause 500ms"},
		"all wait":                             {0, []SkipReason{Busy}, "; 0 done, 0 skipped, 0 failed, through 0, pause 500ms"},
		"a rate counts what was looked at":     {2, []SkipReason{"", NotPending, Busy}, "11 done, 12 skipped not_pending; 1 done, 1 skipped, 0 failed, through 12, pause 1.5s"},
		"and not what is left for later":       {2, []SkipReason{"", leftForLater, leftForLater}, "11 done; 1 done, 0 skipped, 0 failed, through 11, pause 500ms"},
		"a key in work at a rate that is fast": {1000, []SkipReason{Busy, ""}, "12 done; 1 done, 0 skipped, 0 failed, through 0, pause 500ms"},
	} {
		var items []Item
		for i := range c.why {
			items = append(items, Item{Place: int64(11 + i), Entry: planID(i)})
		}
		b := NewOperationBatch(c.rate, items)
		if got := b.Entries(); len(got) != len(items) || got[0] != planID(0) {
			t.Errorf("%s: investigations %v", name, got)
		}
		for i, why := range c.why {
			if why != "-" {
				b.Treat(why, planID(i))
			}
		}
		r := b.Result()
		var treated []string
		for _, i := range r.Treated {
			treated = append(treated, strings.TrimSpace(fmt.Sprint(i.Place, " ", i.State, " ", i.Reason)))
		}
		got := fmt.Sprintf("%s; %d done, %d skipped, %d failed, through %d, pause %v", strings.Join(treated, ", "), r.Done, r.Skipped, r.Failed, r.Through, r.Pause)
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// TestEveryReasonEndsAnItemOrLetsItWait: only what passes by itself keeps an item waiting.
func TestEveryReasonEndsAnItemOrLetsItWait(t *testing.T) {
	t.Parallel()
	for _, why := range SkipReasons() {
		b := NewOperationBatch(0, []Item{{Place: 1, Entry: planID(1)}})
		b.Treat(why, planID(1))
		if r := b.Result(); (len(r.Treated) == 0) != (why == Busy) || r.Done != 0 || (r.Failed == 1) != (why == Refused) {
			t.Errorf("%s: %+v", why, r)
		}
	}
	if slices.Contains(SkipReasons(), leftForLater) {
		t.Error("what only waits for the next batch is reported")
	}
}
