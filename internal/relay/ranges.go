package relay

import "slices"

// Range is the ids from First to Last, both included.
type Range struct{ First, Last int64 }

// Len is how many ids that are.
func (r Range) Len() int64 { return r.Last - r.First + 1 }

// Ranges is a set of ids: ranges in ascending order that neither overlap nor touch.
type Ranges []Range

// RangesOf is the set of ids that are given in ascending order.
func RangesOf(ids []int64) Ranges {
	var rs Ranges
	for _, id := range ids {
		rs = rs.push(Range{id, id})
	}
	return rs
}

// push adds a range that begins behind all others begin; it may touch or overlap the last.
func (rs Ranges) push(r Range) Ranges {
	if n := len(rs); n > 0 && r.First <= rs[n-1].Last+1 {
		rs[n-1].Last = max(rs[n-1].Last, r.Last)
		return rs
	}
	return append(rs, r)
}

// Len is how many ids there are.
func (rs Ranges) Len() int64 {
	var n int64
	for _, r := range rs {
		n += r.Len()
	}
	return n
}

// Contains reports whether an id is in the set.
func (rs Ranges) Contains(id int64) bool {
	_, found := slices.BinarySearchFunc(rs, id, func(r Range, id int64) int {
		switch {
		case r.Last < id:
			return -1
		case r.First > id:
			return 1
		}
		return 0
	})
	return found
}

// Union is the set of the ids that are in rs, in other or in both.
func (rs Ranges) Union(other Ranges) Ranges {
	switch {
	case len(other) == 0:
		return rs
	case len(rs) == 0:
		return other
	}
	out := make(Ranges, 0, len(rs)+len(other))
	i, k := 0, 0
	for i < len(rs) || k < len(other) {
		if k == len(other) || i < len(rs) && rs[i].First <= other[k].First {
			out = out.push(rs[i])
			i++
		} else {
			out = out.push(other[k])
			k++
		}
	}
	return out
}

// Minus is the set of the ids that are in rs and not in other.
func (rs Ranges) Minus(other Ranges) Ranges {
	if len(rs) == 0 || len(other) == 0 {
		return rs
	}
	out := make(Ranges, 0, len(rs)+len(other))
	k := 0
	for _, r := range rs {
		for k < len(other) && other[k].Last < r.First {
			k++
		}
		for n := k; n < len(other) && other[n].First <= r.Last; n++ {
			if other[n].First > r.First {
				out = append(out, Range{r.First, other[n].First - 1})
			}
			r.First = other[n].Last + 1
		}
		if r.First <= r.Last {
			out = append(out, r)
		}
	}
	return out
}
