package relay

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func rangesFrom(set map[int64]bool) Ranges {
	var ids []int64
	for id, in := range set {
		if in {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return RangesOf(ids)
}

// TestRangesAreSets: union, difference, length and membership are as for sets, whatever touches or overlaps, and
// no result shares memory with its operands.
func TestRangesAreSets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) map[int64]bool {
			return rapid.MapOf(rapid.Int64Range(1, 24), rapid.Just(true)).Draw(t, name)
		}
		a, b := draw("a"), draw("b")
		ra, rb := rangesFrom(a), rangesFrom(b)
		union, minus := map[int64]bool{}, map[int64]bool{}
		for id := int64(0); id < 26; id++ {
			union[id], minus[id] = a[id] || b[id], a[id] && !b[id]
			if ra.Contains(id) != a[id] {
				t.Fatalf("%v contains %d: %v", ra, id, !a[id])
			}
		}
		wantA, wantB := slices.Clone(ra), slices.Clone(rb)
		if got, want := ra.Union(rb), rangesFrom(union); !slices.Equal(got, want) {
			t.Fatalf("%v and %v are %v, want %v", ra, rb, got, want)
		}
		if got, want := ra.Minus(rb), rangesFrom(minus); !slices.Equal(got, want) {
			t.Fatalf("%v without %v is %v, want %v", ra, rb, got, want)
		}
		if !slices.Equal(ra, wantA) || !slices.Equal(rb, wantB) {
			t.Fatalf("they have become %v and %v, they were %v and %v", ra, rb, wantA, wantB)
		}
		if got := ra.Len(); got != int64(len(a)) {
			t.Fatalf("%v has %d ids, want %d", ra, got, len(a))
		}
	})
}

func TestRangesOf(t *testing.T) {
	t.Parallel()
	if got := RangesOf([]int64{1, 2, 3, 5, 7, 8}); !slices.Equal(got, Ranges{{1, 3}, {5, 5}, {7, 8}}) {
		t.Errorf("ranges %v", got)
	}
	if got := RangesOf(nil); got != nil || got.Len() != 0 || got.Contains(1) {
		t.Errorf("of nothing: %v", got)
	}
	if got := (Ranges{{1, 9}}).Minus(Ranges{{3, 3}, {5, 6}}); !slices.Equal(got, Ranges{{1, 2}, {4, 4}, {7, 9}}) {
		t.Errorf("with holes: %v", got)
	}
}
