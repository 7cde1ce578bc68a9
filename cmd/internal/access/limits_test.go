package access_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := access.NewLimiter(2, 3)
	l.SetClock(func() time.Time { return now })
	for i := range 3 {
		if wait := l.Take("a", 1); wait != 0 {
			t.Errorf("%d of the burst waits %v", i, wait)
		}
	}
	if wait := l.Take("a", 1); wait != 500*time.Millisecond {
		t.Errorf("past the burst: %v", wait)
	}
	if wait := l.Take("b", 3); wait != 0 {
		t.Errorf("another client waits %v", wait)
	}
	now = now.Add(500 * time.Millisecond)
	if wait := l.Take("a", 1); wait != 0 {
		t.Errorf("after the pause that was told: %v", wait)
	}
	now = now.Add(time.Hour)
	if wait := l.Take("a", 100); wait != 0 {
		t.Errorf("more than the burst counts as the burst: %v", wait)
	}
	if wait := l.Take("a", 1); wait == 0 {
		t.Error("the burst was not counted")
	}
	if wait := access.NewLimiter(0, 0).Take("a", 1000); wait != 0 {
		t.Errorf("no limit: %v", wait)
	}
}

func TestManyClientsDoNotGrowTheMemory(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := access.NewLimiter(1, 2)
	l.SetClock(func() time.Time { return now })
	for i := range 25_000 {
		if i%1000 == 0 {
			now = now.Add(time.Second)
		}
		l.Take(fmt.Sprint(i), 1)
	}
	if n := l.Remembered(); n > 10_000 {
		t.Errorf("%d clients", n)
	}
}
