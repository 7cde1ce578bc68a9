package history

import (
	"strings"
	"testing"
	"time"
)

var zero = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) time.Time { return zero.Add(time.Duration(seconds) * time.Second) }

// timed is a good history with times: each event is written at its number in seconds and read a second
// later, its copies follow a fault, and an event without a key was given up and is investigated.
func timed() History {
	es, rs := good()
	h := History{Aftermath: 5 * time.Second, Patience: 10 * time.Second,
		Faults: []Fault{{"kill", at(28), at(29)}, {"pause", at(20), at(30)}}}
	for i := range es {
		es[i].At, rs[i].At = at(i), at(i+1)
		h.Writes = append(h.Writes, Write{ID: es[i].ID, Result: OK, At: at(i)})
	}
	es[2].Poison, h.DeadLettered, h.Investigated = true, []string{"0", "0"}, []string{"0"}
	h.Committed, h.Reads = es, append(rs[:2:2], rs[3:]...)
	h.Writes = append(h.Writes, Write{ID: "rolled back", Result: Fail}, Write{ID: "never arrived", Result: Unknown})
	h.Reads = append(h.Reads, Read{ID: "a5", Subject: "a", Partition: "t/a", Offset: 90, At: at(29)},
		Read{ID: "a6", Subject: "a", Partition: "t/a", Offset: 91, At: at(35)},
		Read{ID: "b6", Subject: "b", Partition: "t/b", Offset: 92, At: at(29)},
		Read{ID: "b6", Subject: "b", Partition: "t/b", Offset: 91, At: at(25)})
	return h
}

func TestGoodHistoryWithTimes(t *testing.T) {
	t.Parallel()
	v := timed().Check()
	if err := v.Err(); err != nil {
		t.Fatal(err)
	}
	if v.Duplicates != 4 || v.After["kill"] != 1 || v.After["pause"] != 3 {
		t.Errorf("duplicates %d, after %v", v.Duplicates, v.After)
	}
	if v.Delivered != 29 || v.DeadLettered != 1 {
		t.Errorf("%v", v)
	}
}

// A record of a topic's second life may be a copy of one in the first, and its offset says nothing there.
func TestTopicLivesTwice(t *testing.T) {
	t.Parallel()
	h := timed()
	for i := range h.Reads {
		if r := &h.Reads[i]; r.Partition == "t/a" && r.Offset >= 6 {
			r.Life, r.Offset = 1, r.Offset-6
		}
	}
	if err := h.Check().Err(); err != nil {
		t.Fatal(err)
	}
	// Events that a deleted topic had acknowledged need not be found.
	h.Reads = h.Reads[1:]
	if err := h.Check().Err(); err == nil || !strings.Contains(err.Error(), "1 lost (such as a0)") {
		t.Fatal(err)
	}
	h.Committed[0].Destroyed, h.Committed[3].Destroyed = true, true
	if v := h.Check(); v.Err() != nil || v.Destroyed != 1 {
		t.Fatalf("%d destroyed, %v", v.Destroyed, v.Err())
	}
}

// Each forged history breaks one promise; the checker must name exactly that one.
func TestForgedHistoriesWithTimes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forge   func(*History)
		mention string
	}{
		"copy before any fault": {func(h *History) {
			h.Reads = append(h.Reads, Read{ID: "b5", Subject: "b", Partition: "t/b", Offset: 95, At: at(18)})
		}, "1 duplicated without a fault (such as b5)"},
		"copy long after the fault": {func(h *History) { h.Reads[len(h.Reads)-3].At = at(46) }, "1 duplicated without a fault (such as a6)"},
		"copy of what was settled long before": {func(h *History) {
			h.Reads = append(h.Reads, Read{ID: "b0", Subject: "b", Partition: "t/b", Offset: 95, At: at(27)})
		}, "1 duplicated without a fault (such as b0)"},
		"copies and no fault at all":  {func(h *History) { h.Faults = nil }, "4 duplicated without a fault (such as a5, a6, b6)"},
		"acknowledged, then gone":     {func(h *History) { h.Writes = append(h.Writes, Write{ID: "x", Result: OK}) }, "1 lost (such as x)"},
		"failed, and yet there":       {func(h *History) { h.Writes[4].Result = Fail }, "1 phantom (such as b1)"},
		"still waiting":               {func(h *History) { h.Waiting, h.Reads = []string{"b9"}, without(h.Reads, "b9") }, "1 stuck (such as b)"},
		"still waiting, without key":  {func(h *History) { h.Waiting, h.Reads = []string{"9"}, without(h.Reads, "9") }, "1 stuck (such as 9)"},
		"late although nothing broke": {func(h *History) { h.Reads[0].At = at(11) }, "1 stuck (such as a)"},
		"late after the fault":        {func(h *History) { h.Reads[len(h.Reads)-5].At = at(46) }, "1 stuck (such as 9)"},
		"late before the fault":       {func(h *History) { h.Reads[8].At = at(31) }, "1 stuck (such as a)"},
		"never investigated":          {func(h *History) { h.Investigated = []string{} }, "1 not investigated once (such as 0)"},
		"investigated twice":          {func(h *History) { h.Investigated = []string{"0", "0"} }, "1 not investigated once (such as 0)"},
		"investigated for nothing":    {func(h *History) { h.Investigated = []string{"a3", "0", "a3"} }, "1 not investigated once (such as a3)"},
		"copy in another partition":   {func(h *History) { h.Reads[len(h.Reads)-1].Partition = "t/c" }, "1 misplaced (such as b6)"},
		"order across two lives": {func(h *History) {
			for i := range h.Reads {
				if h.Reads[i].ID == "a3" {
					h.Reads[i].Life = 1
				}
			}
		}, "1 reordered (such as a3)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := timed()
			c.forge(&h)
			if err := h.Check().Err(); err == nil || err.Error() != "the history is wrong: "+c.mention {
				t.Fatalf("got %v, want %s", err, c.mention)
			}
		})
	}
}

func without(reads []Read, id string) []Read {
	var out []Read
	for _, r := range reads {
		if r.ID != id {
			out = append(out, r)
		}
	}
	return out
}

// Copies of an event without a key may be in any partition; their times say which was first.
func TestCopiesWithoutKey(t *testing.T) {
	t.Parallel()
	h := timed()
	h.Reads = append(h.Reads, Read{ID: "6", Partition: "t/0", Offset: 3, At: at(33)})
	if v := h.Check(); v.Err() != nil || v.After["pause"] != 4 {
		t.Fatalf("%v, after %v", v.Err(), v.After)
	}
	h.Reads[len(h.Reads)-1].At = at(3)
	if err := h.Check().Err(); err == nil || err.Error() != "the history is wrong: 1 duplicated without a fault (such as 6)" {
		t.Fatal(err)
	}
}
