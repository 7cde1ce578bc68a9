package history

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// nemesis is half an hour as the mixed-fault runs play it: a fault every ten seconds that lasts for five, and
// after each seventh, if there are calms, nothing for the aftermath of 15 s and 18 s more. The first calm is
// from 80 to 98, the second from 178 to 196, the third from 276 to 294.
func nemesis(calms bool) History {
	h := History{Aftermath: 15 * time.Second, Patience: 45 * time.Second}
	for from := 0; from < 1790; from += 10 {
		h.Faults = append(h.Faults, Fault{"cut off", at(from), at(from + 5)})
		if calms && len(h.Faults)%7 == 0 {
			from += 28
		}
	}
	return h
}

// A key that stood still is found, however often something else was broken meanwhile; one that a fault or its
// aftermath kept is not, nor one that a relay's pause kept for up to a minute.
func TestStandingStillUnderFaults(t *testing.T) {
	t.Parallel()
	outage := func(from, to int) []Fault { return append(nemesis(true).Faults, Fault{"down", at(from), at(to)}) }
	for name, c := range map[string]struct {
		faults           []Fault
		written, arrived int
		slowest          time.Duration
		stuck            bool
	}{
		"for all the run":                         {nemesis(true).Faults, 5, 1795, 18 * 18 * time.Second, true},
		"for all the run, and never a calm":       {nemesis(false).Faults, 5, 1795, 0, true},
		"over three calms":                        {nemesis(true).Faults, 79, 294, 54 * time.Second, true},
		"over two calms and half the next":        {nemesis(true).Faults, 79, 286, 46 * time.Second, true},
		"after the last fault":                    {outage(1790, 1800), 1795, 1861, 46 * time.Second, true},
		"without any fault":                       {nil, 10, 56, 46 * time.Second, true},
		"over two calms":                          {nemesis(true).Faults, 75, 200, 36 * time.Second, false},
		"behind a topic that was missing":         {nemesis(true).Faults, 63, 128, 18 * time.Second, false},
		"a minute after the last fault":           {outage(1790, 1800), 1792, 1860, 45 * time.Second, false},
		"an outage over three calms":              {outage(78, 300), 79, 330, 0, false},
		"an outage, and the backlog that it left": {outage(10, 310), 20, 345, 0, false},
		"many faults without calm":                {nemesis(false).Faults, 5, 300, 0, false},
		"before its time":                         {nemesis(true).Faults, 20, 19, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := nemesis(true)
			h.Faults = c.faults
			h.Committed = []Event{{ID: "x1", Subject: "x", Seq: 1, At: at(c.written)}, {ID: "y1", Subject: "y", Seq: 1, At: at(c.written)}}
			h.Reads = []Read{{ID: "x1", Subject: "x", Partition: "t/x", At: at(c.arrived)}, {ID: "y1", Subject: "y", Partition: "t/y", At: at(c.written)}}
			v := h.Check()
			if found := slices.Equal(v.Stuck, []string{"x"}) && slices.Equal(v.Late, []string{"x1"}); found != c.stuck || !found && v.Err() != nil {
				t.Errorf("stuck %v, late %v, %v", v.Stuck, v.Late, v.Err())
			}
			if v.Slowest != c.slowest {
				t.Errorf("calm for %v, want %v", v.Slowest, c.slowest)
			}
		})
	}
}

// Calm is what counting second by second finds.
func TestCalmProperty(t *testing.T) {
	t.Parallel()
	second := rapid.IntRange(0, 60)
	rapid.Check(t, func(t *rapid.T) {
		var h History
		for range rapid.IntRange(0, 6).Draw(t, "faults") {
			from := second.Draw(t, "from")
			h.Faults = append(h.Faults, Fault{"", at(from), at(from + rapid.IntRange(0, 10).Draw(t, "lasts"))})
		}
		aftermath := rapid.IntRange(0, 5).Draw(t, "aftermath")
		written := second.Draw(t, "written")
		arrived := written + rapid.IntRange(0, 30).Draw(t, "way")
		want := 0
		for s := written; s < arrived; s++ {
			if !slices.ContainsFunc(h.Faults, func(f Fault) bool {
				return !f.From.After(at(s)) && f.To.Add(time.Duration(aftermath)*time.Second).After(at(s))
			}) {
				want++
			}
		}
		got := h.episodes(time.Duration(aftermath)*time.Second).calm(at(written), at(arrived))
		if got != time.Duration(want)*time.Second {
			t.Fatalf("calm for %v, want %d s", got, want)
		}
	})
}
