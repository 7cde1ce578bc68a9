package history

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func good() ([]Event, []Read) {
	var es []Event
	var rs []Read
	for i := range 10 {
		for _, k := range []string{"a", "b", ""} {
			id := fmt.Sprintf("%s%d", k, i)
			es = append(es, Event{ID: id, Subject: k, Seq: int64(i + 1)})
			rs = append(rs, Read{ID: id, Subject: k, Partition: "t/" + k, Offset: int64(i)})
		}
	}
	return es, rs
}

func TestGoodHistories(t *testing.T) {
	t.Parallel()
	es, rs := good()
	if v := Check(es, rs, nil); v.Err() != nil || v.Duplicates != 0 || v.Delivered != 30 || v.Committed != 30 {
		t.Fatalf("%v, %v", v, v.Err())
	}
	// Copies of what was there before are duplicates and no disorder.
	again := append(rs, Read{ID: "a0", Subject: "a", Partition: "t/a", Offset: 50}, Read{ID: "a3", Subject: "a", Partition: "t/a", Offset: 51})
	if v := Check(es, again, nil); v.Err() != nil || v.Duplicates != 2 || v.Delivered != 30 {
		t.Fatalf("%v, %v", v, v.Err())
	}
	// Poison that was dead-lettered is not lost, and leaves a gap that is no disorder.
	es[0].Poison = true
	if v := Check(es, rs[1:], []string{"a0"}); v.Err() != nil || v.DeadLettered != 1 {
		t.Fatalf("%v, %v", v, v.Err())
	}
	es[0].Poison = false
	// Events without a key may come in any order and partition.
	loose := append([]Read{}, rs...)
	for i := range loose {
		if loose[i].Subject == "" {
			loose[i].Offset, loose[i].Partition = 100-loose[i].Offset, fmt.Sprint("t/", i%3)
		}
	}
	if v := Check(es, loose, nil); v.Err() != nil {
		t.Fatal(v.Err())
	}
}

// Each forged history breaks one promise; the checker must name exactly that one.
func TestForgedHistories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forge   func([]Event, []Read) ([]Event, []Read)
		mention string
	}{
		"lost in the middle": {func(e []Event, r []Read) ([]Event, []Read) { return e, append(r[:9:9], r[10:]...) }, "1 lost (such as a3)"},
		"lost at the end":    {func(e []Event, r []Read) ([]Event, []Read) { return e, r[:27] }, "3 lost (such as a9, b9, 9)"},
		"phantom":            {func(e []Event, r []Read) ([]Event, []Read) { return append(e[:3:3], e[4:]...), r }, "1 phantom (such as a1)"},
		"swapped": {func(e []Event, r []Read) ([]Event, []Read) {
			r[9].Offset, r[12].Offset = r[12].Offset, r[9].Offset
			return e, r
		}, "1 reordered (such as a3)"},
		"late":             {func(e []Event, r []Read) ([]Event, []Read) { r[0].Offset = 70; return e, r }, "1 reordered (such as a0)"},
		"wrong key":        {func(e []Event, r []Read) ([]Event, []Read) { r[0].Subject = "b"; return e, r }, "1 misplaced (such as a0)"},
		"delivered poison": {func(e []Event, r []Read) ([]Event, []Read) { e[3].Poison = true; return e, r }, "1 misjudged (such as a1)"},
		"two partitions": {func(e []Event, r []Read) ([]Event, []Read) {
			return e, append(r, Read{ID: "a0", Subject: "a", Partition: "t/z", Offset: 3})
		}, "1 misplaced (such as a0)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := func(e []Event, r []Read) error { return Check(e, r, nil).Err() }(c.forge(good()))
			if err == nil || err.Error() != "the history is wrong: "+c.mention {
				t.Fatalf("got %v, want %s", err, c.mention)
			}
		})
	}
}

func TestInnocentDeadLetterIsMisjudged(t *testing.T) {
	t.Parallel()
	es, rs := good()
	if err := Check(es, rs[1:], []string{"a0"}).Err(); err == nil || !strings.Contains(err.Error(), "1 misjudged (such as a0)") {
		t.Fatal(err)
	}
}

func TestVerdictReadsWell(t *testing.T) {
	t.Parallel()
	es, rs := good()
	if s := Check(es, rs, nil).String(); !strings.Contains(s, "committed 30, delivered 30, dead-lettered 0, duplicates 0, lost 0") {
		t.Fatal(s)
	}
}

// Any one record taken away is lost; any two neighbours of a subject exchanged are out of order.
func TestNoBreachGoesUnseen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		es, rs := good()
		i := rapid.IntRange(0, len(rs)-1).Draw(t, "which")
		if v := Check(es, append(append([]Read{}, rs[:i]...), rs[i+1:]...), nil); len(v.Lost) != 1 || v.Lost[0] != rs[i].ID {
			t.Fatalf("took %s away, got %v", rs[i].ID, v)
		}
		if rs[i].Subject != "" && i+3 < len(rs) {
			rs[i].Offset, rs[i+3].Offset = rs[i+3].Offset, rs[i].Offset
			if v := Check(es, rs, nil); len(v.Reordered) != 1 {
				t.Fatalf("exchanged %s and %s, got %v", rs[i].ID, rs[i+3].ID, v)
			}
		}
	})
}
