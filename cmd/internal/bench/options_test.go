package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	o, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(o.scenarios, "hour") || len(o.scenarios) != len(scenarios)-1 {
		t.Errorf("a run that names none runs %q; it should be all but hour", o.scenarios)
	}
	if o.runs < 3 || o.events != 500_000 || o.keys != 1000 || o.payload != 300 || o.flatPublished != 5_000_000 {
		t.Errorf("the sizes differ from the targets: %+v", o)
	}
	if len(order) != len(scenarios) {
		t.Errorf("order %q does not have every scenario of %q", order, scenarioNames())
	}
}

func TestQuickYieldsToFlags(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-quick", "-events", "7", "-hour-seconds", "90"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.events != 7 || o.flatPublished != 300_000 || !slices.Equal(o.staleHealthy, []int{20_000, 100_000}) {
		t.Errorf("events %d, published %d, stale %v", o.events, o.flatPublished, o.staleHealthy)
	}
	o, err = parse([]string{"-hour-seconds", "90"}, io.Discard)
	if err != nil || o.hourDuration != 90*time.Second {
		t.Errorf("an hour of %v, %v", o.hourDuration, err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-scenario drains":    `"drains"`,
		"-scenario ,":         "-scenario",
		"-brokers redpanda":   `"redpanda"`,
		"-stale-healthy 10,x": `"x"`,
		"-stale-healthy 0":    `"0"`,
		"-sides floor,kafka":  `"kafka"`,
		"-sides ,":            "-sides",
		"-postrider outbox":   `"outbox"`,
		"-postrider a.b=1":    `"a.b=1"`,
		"-takeovers 0":        "-takeovers",
		"-runs 0":             "-runs",
		"-events -1":          "-events",
		"-payload 3":          "-payload",
		"-flat-pending 10":    "-flat-pending",
		"-duration 0s":        "-duration",
		"-api-entries 0":      "-api-entries",
		"-api-duration -1s":   "-api-duration",
		"drain":               `"drain"`,
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to name %s", args, err, want)
		}
	}
}
