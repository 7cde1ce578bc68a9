package main

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runs []float64
		want float64
	}{{[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 3, 2, 1}, 2}} {
		if got := median(c.runs); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.runs, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of nothing is a number")
	}
}

func TestPaired(t *testing.T) {
	t.Parallel()
	if got := paired([]float64{1, 6}, []float64{2, 3}); !slices.Equal(got, []float64{0.5, 2}) {
		t.Errorf("got %v", got)
	}
}

func TestPer100k(t *testing.T) {
	t.Parallel()
	got := cpu{side: 3, database: 5, writers: 3, broker: 7}.minus(cpu{side: 1, database: 2, writers: 1, broker: 3}).per100k(50_000)
	if want := (cpu{side: 4, database: 6, writers: 4, broker: 8}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got.rest() != 2 {
		t.Errorf("%v s beside the writers, want 2", got.rest())
	}
}

// Whatever the durations: a quantile is at least the exact one, and at most half a percent (and a
// microsecond, where buckets are that narrow) above it.
func TestQuantile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.SliceOfN(rapid.Int64Range(0, 100_000_000), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h histogram
		for _, us := range micros {
			h.add(time.Duration(us) * time.Microsecond)
		}
		slices.Sort(micros)
		exact := float64(micros[max(1, int(math.Ceil(q*float64(len(micros)))))-1]) / 1000
		got := h.quantile(q)
		if got < exact-1e-9*exact || got > exact*step+0.006 {
			t.Fatalf("quantile %v of %v µs is %v ms, exactly %v", q, micros, got, exact)
		}
	})
}

func TestHistogramTakes(t *testing.T) {
	t.Parallel()
	var h histogram
	h.add(-time.Second)
	h.add(3 * time.Millisecond)
	first := h.take()
	if first.n != 2 || first.quantile(1) != 3 || first.quantile(0.5) > 0.01 {
		t.Errorf("%d durations, the longest %v ms, the shorter %v ms", first.n, first.quantile(1), first.quantile(0.5))
	}
	if !math.IsNaN(h.quantile(0.5)) {
		t.Error("something is left")
	}
	h.add(5 * time.Millisecond)
	if h.quantile(1) != 5 {
		t.Errorf("the longest is %v ms after a new beginning, want 5", h.quantile(1))
	}
}

// This process, made to work, is seen to use CPU time, and so is its tree.
func TestCPUSeconds(t *testing.T) {
	t.Parallel()
	pid := os.Getpid()
	own, tree := cpuSeconds(pid, false), cpuSeconds(pid, true)
	deadline := time.Now().Add(3 * time.Minute)
	for x := 0.0; cpuSeconds(pid, false) < own+0.05 || cpuSeconds(pid, true) < tree+0.05; x++ {
		if time.Now().After(deadline) {
			t.Fatalf("the work (%v) is not to be seen: %v s before and after", x, own)
		}
		for i := range 1_000_000 {
			x = math.Sqrt(x + float64(i))
		}
	}
	if cpuSeconds(1<<30, false) != 0 {
		t.Error("a process that does not exist used CPU time")
	}
}

func TestParentAndMemory(t *testing.T) {
	t.Parallel()
	if got, err := parentOf(os.Getpid()); err != nil || got != os.Getppid() {
		t.Errorf("parent %d (%v), want %d", got, err, os.Getppid())
	}
	if _, err := parentOf(1 << 30); err == nil {
		t.Error("a process that does not exist has a parent")
	}
	resident, peak, err := memoryOf(os.Getpid())
	if err != nil || resident < 1 || peak < resident/2 {
		t.Errorf("resident %v MiB, peak %v MiB, %v", resident, peak, err)
	}
	if _, _, err := memoryOf(1 << 30); err == nil {
		t.Error("a process that does not exist has memory")
	}
}
