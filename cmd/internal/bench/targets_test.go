package main

import (
	"slices"
	"testing"
)

func TestFits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"a*", "b", false}, {"*", "", true},
		{"* c", "ab c", true}, {"a*c", "ac", true}, {"ab*bc", "abc", false},
	} {
		if got := fits(c.pattern, c.text); got != c.want {
			t.Errorf("%q and %q: %v", c.pattern, c.text, got)
		}
	}
}

// Postrider is judged by its defaults, and no other side by its targets.
func TestTargets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scenario, broker, row, settings, figure string
		want                                    *target
	}{
		{"drain", "kafka", "Postrider", "defaults", "of floor", atLeast(0.75)},
		{"drain", "kafka", "Postrider, chosen settings", "outbox.batch_size=5000", "of floor", nil},
		{"drain", "kafka", "a day's poller", "", "of floor", nil},
		{"drain", "kafka", "floor", "", "missing", nil},
		{"steady", "kafka", "Postrider, 2000/s", "defaults", "event p99 ms", atMost(10)},
		{"steady", "kfake", "Postrider, 2000/s", "defaults", "event p99 ms", atMost(6)},
		{"steady", "kfake", "Postrider, quiet, 5/s", "defaults", "event p99 ms", atMost(10)},
		{"steady", "kfake", "Postrider, quiet, 5/s", "defaults", "PostgreSQL beside them", nil},
		{"stale", "kfake", "5 healthy, 1 stale, 4 detectors", "", "all passes s", nil},
		{"stale", "kfake", "5 healthy, 1 stale", "", "all passes s", atMost(2)},
		{"archive", "kfake", "v_dlq_dashboard", "no summary: counted at once", "ms", nil},
	} {
		got := targetOf(c.scenario, c.broker, c.row, c.settings, c.figure)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%v: %+v", c, got)
		}
	}
	for _, b := range targets {
		if _, known := scenarios[b.scenario]; !known {
			t.Errorf("a target of %q, which is no scenario", b.scenario)
		}
		if b.broker != "" && !slices.Contains([]string{"kafka", "kfake"}, b.broker) {
			t.Errorf("a target on %q", b.broker)
		}
	}
}

func TestFilesystem(t *testing.T) {
	t.Parallel()
	mounts := "/dev/a / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n/dev/b /data xfs rw 0 0\noverlay /data overlay rw 0 0\nbroken\n"
	for dir, want := range map[string]string{"/tmp": "ext4", "/dev/shm/x": "tmpfs", "/dev/shmx": "ext4", "/data": "overlay", "/data/y": "overlay"} {
		if got := filesystemIn(mounts, dir); got != want {
			t.Errorf("%s lies on %s, want %s", dir, got, want)
		}
	}
	if got := filesystemIn("", "/tmp"); got != "an unknown filesystem" {
		t.Errorf("without mounts: %s", got)
	}
}
