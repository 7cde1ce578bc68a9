package logtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestBuffer(t *testing.T) {
	t.Parallel()
	var b Buffer
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			for range 100 {
				fmt.Fprintln(&b, n)
				_ = b.String()
			}
		})
	}
	writers.Wait()
	for n := range 4 {
		if got := strings.Count(b.String(), fmt.Sprintln(n)); got != 100 {
			t.Errorf("%d lines of writer %d, want 100", got, n)
		}
	}
	fmt.Fprint(&b, "the end")
	if b.Tail(3) != "end" || b.Tail(10_000) != b.String() {
		t.Errorf("Tail: %q", b.Tail(3))
	}
	if all := b.Take(); len(all) != 807 || b.String() != "" || b.Tail(1) != "" {
		t.Errorf("Take: %d bytes, and %q stays", len(all), b.String())
	}
}
