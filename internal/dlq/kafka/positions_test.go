package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func fetched(start int64, at ...int64) *kgo.FetchPartition {
	f := &kgo.FetchPartition{LogStartOffset: start}
	for _, o := range at {
		f.Records = append(f.Records, &kgo.Record{Offset: o})
	}
	return f
}

// assign hands partition 0 of a topic over with its committed offset, and returns where reading begins.
func assign(t *testing.T, p *positions, topic string, committed int64) int64 {
	t.Helper()
	offsets, err := p.adjust(t.Context(), map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(committed)}})
	if err != nil {
		t.Fatal(err)
	}
	return offsets[topic][0].EpochOffset().Offset
}

func TestPositionsMissed(t *testing.T) {
	t.Parallel()
	p := newPositions()
	for _, test := range []struct {
		what   string
		f      *kgo.FetchPartition
		missed int64
	}{
		{"nothing is known yet", fetched(5, 5, 6), 0},
		{"the next in turn", fetched(5, 7), 0},
		{"transaction markers in between", fetched(5, 10), 0},
		{"retention behind reading", fetched(11, 11, 12), 0},
		{"retention ahead of reading", fetched(20, 20), 7},
		{"retention, and compaction after it", fetched(30, 35), 9},
	} {
		missed, err := p.read("t", test.f)
		if missed != test.missed || (err != nil) != (missed > 0) {
			t.Errorf("%s: %d, %v, want %d", test.what, missed, err, test.missed)
		}
	}
	if at := assign(t, p, "t", 40); at != 40 {
		t.Errorf("begins at %d", at)
	}
	if missed, err := p.read("t", fetched(39, 40)); missed != 0 {
		t.Errorf("another member read on to 40: %d, %v", missed, err)
	}
}

// TestPositionsOfEmptied: a partition that was emptied has no record that shows it. Records that are counted as missed
// then are not counted again when records come.
func TestPositionsOfEmptied(t *testing.T) {
	t.Parallel()
	p := newPositions()
	begins := func(start, want int64) {
		t.Helper()
		if missed, err := p.begins("t", 0, start); missed != want || (err != nil) != (want > 0) {
			t.Errorf("begins at %d: %d, %v, want %d", start, missed, err, want)
		}
	}
	begins(9, 0) // nothing is known of where reading stands
	assign(t, p, "t", 3)
	begins(0, 0)
	begins(3, 0)
	begins(8, 5)
	begins(8, 0)
	if missed, err := p.read("t", fetched(8, 8)); missed != 0 || err != nil {
		t.Errorf("a record after it: %d, %v", missed, err)
	}
	begins(9, 0) // retention behind reading
	if missed, err := p.read("t", fetched(12, 12)); missed != 3 || err == nil {
		t.Errorf("retention ahead of reading: %d, %v", missed, err)
	}
	begins(50, 37)
	if missed, err := p.read("t", fetched(13, 50)); missed != 0 || err != nil {
		t.Errorf("what was fetched before it was deleted: %d, %v", missed, err)
	}
	begins(50, 0) // it is not counted once more
	p.recreate("t")
	assign(t, p, "t", 3)
	begins(5, 0)
}

// TestPositionsRecreated is about a commit of the old topic's offset that landed on the new topic.
func TestPositionsRecreated(t *testing.T) {
	t.Parallel()
	const start = -2 // kgo's number for the start
	p := newPositions()
	if at := assign(t, p, "t", 3); at != 3 {
		t.Errorf("begins at %d", at)
	}
	p.recreate("t")
	for range 2 { // twice: a rebalance may come before the first commit
		if at := assign(t, p, "t", 3); at != start {
			t.Errorf("begins at %d, not at the start", at)
		}
	}
	if missed, err := p.read("t", fetched(0, 0, 1)); missed != 0 {
		t.Errorf("%d, %v", missed, err)
	}
	if at := assign(t, p, "other", 3); at != 3 {
		t.Errorf("another topic begins at %d", at)
	}
	p.committed("t", 0)
	if at := assign(t, p, "t", 2); at != 2 {
		t.Errorf("begins at %d, not behind the commit of this topic", at)
	}
}
