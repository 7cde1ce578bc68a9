package main

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// median of the runs; of an even number the lower one, so that it is a run that happened.
func median(runs []float64) float64 {
	if len(runs) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(runs))
	return sorted[(len(sorted)-1)/2]
}

// paired divides run by run. The sides took turns, so what disturbed both in one turn cancels out.
func paired(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] / b[i]
	}
	return out
}

// inTurns measures each side so many times, A B C A B C …, and returns the samples of each: what else the machine does
// meanwhile falls on all of them.
func inTurns[S, M any](runs int, sides []S, once func(S) (M, error)) ([][]M, error) {
	all := make([][]M, len(sides))
	for range runs {
		for i, s := range sides {
			sample, err := once(s)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], sample)
		}
	}
	return all, nil
}

// about names what an error is about.
func about(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// pick collects one figure of each sample.
func pick[T, V any](samples []T, of func(T) V) []V {
	out := make([]V, len(samples))
	for i, s := range samples {
		out[i] = of(s)
	}
	return out
}

// step is how much wider each bucket of a histogram is than the one before.
const step = 1.005

// histogram counts durations in buckets that grow by half a percent. It is safe for concurrent use.
type histogram struct {
	mu      sync.Mutex
	buckets []int64
	n       int64
	highest time.Duration
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	i := int(math.Log(float64(d)/float64(time.Microsecond)+1) / math.Log(step))
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buckets) <= i {
		h.buckets = append(h.buckets, 0)
	}
	h.buckets[i]++
	h.n++
	h.highest = max(h.highest, d)
}

// addAll adds all that another has.
func (h *histogram) addAll(o *histogram) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buckets) < len(o.buckets) {
		h.buckets = append(h.buckets, 0)
	}
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.n += o.n
	h.highest = max(h.highest, o.highest)
}

// quantile returns in milliseconds what the share q of the durations does not exceed, at most half a
// percent too much; not a number while there are none.
func (h *histogram) quantile(q float64) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n == 0 {
		return math.NaN()
	}
	rank, seen := int64(math.Ceil(q*float64(h.n))), int64(0)
	for i, n := range h.buckets {
		if seen += n; seen >= max(rank, 1) {
			upper := (math.Pow(step, float64(i+1)) - 1) / 1000
			return min(upper, milliseconds(h.highest))
		}
	}
	return milliseconds(h.highest)
}

// take returns what was counted since the last time and begins anew.
func (h *histogram) take() *histogram {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := &histogram{buckets: h.buckets, n: h.n, highest: h.highest}
	h.buckets, h.n, h.highest = nil, 0, 0
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
