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
	if o.runs < 3 || o.events != 500_000 || o.keys != 500 || o.payload != 300 || o.flatPublished != 5_000_000 {
		t.Errorf("the sizes are not those of the targets: %+v", o)
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
	if o.events != 7 || o.flatPublished != 300_000 || !slices.Equal(o.batches, []int{1000, 5000}) {
		t.Errorf("events %d, published %d, batches %v", o.events, o.flatPublished, o.batches)
	}
	o, err = parse([]string{"-hour-seconds", "90"}, io.Discard)
	if err != nil || o.hourDuration != 90*time.Second {
		t.Errorf("an hour of %v, %v", o.hourDuration, err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-scenario drains":      `"drains"`,
		"-scenario ,":           "-scenario",
		"-brokers redpanda":     `"redpanda"`,
		"-batches 1000,x":       `"x"`,
		"-workers 0":            `"0"`,
		"-runs 0":               "-runs",
		"-events -1":            "-events",
		"-payload 3":            "-payload",
		"-flat-pending 10":      "-flat-pending",
		"-flat-failed-keys 9e9": "flat-failed-keys",
		"-flat-parked 5":        "-flat-failed-keys",
		"-hour-days -1":         "-hour-days",
		"-duration 0s":          "-duration",
		"-desk-entries 0":       "-desk-entries",
		"-desk-duration -1s":    "-desk-duration",
		"drain":                 `"drain"`,
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to name %s", args, err, want)
		}
	}
}

func TestLatencyBounds(t *testing.T) {
	t.Parallel()
	o := &options{rate: 2000, slowRate: 5, duration: 20 * time.Second, slowDuration: time.Minute}
	for _, c := range []struct {
		fake, doorbell bool
		want           map[string][2]float64 // p50 and p99 ms; 0 for no bound
	}{
		{true, false, map[string][2]float64{"2000/s, polling": {2, 6}, "5/s, polling": {30, 60}}},
		{false, false, map[string][2]float64{"2000/s, polling": {5, 25}, "5/s, polling": {30, 60}}},
		{true, true, map[string][2]float64{"2000/s, doorbell": {2, 6}, "2000/s, polling": {}, "5/s, doorbell": {3, 10}, "5/s, polling": {30, 60}}},
		{false, true, map[string][2]float64{"2000/s, doorbell": {5, 25}, "2000/s, polling": {}, "5/s, doorbell": {3, 10}, "5/s, polling": {30, 60}}},
	} {
		cases := latencyCases(o, c.fake, c.doorbell)
		if len(cases) != len(c.want) {
			t.Errorf("kfake %v, doorbell %v: %d cases, want %d", c.fake, c.doorbell, len(cases), len(c.want))
		}
		for _, got := range cases {
			want, known := c.want[got.name]
			if !known || bound(got.p50) != want[0] || bound(got.p99) != want[1] {
				t.Errorf("%s: bounds %v and %v, want %v", got.name, bound(got.p50), bound(got.p99), want)
			}
			if on := strings.HasSuffix(got.name, "doorbell"); (got.doorbell == "on") != on {
				t.Errorf("%s: the doorbell is %q", got.name, got.doorbell)
			}
		}
	}
}

func bound(t *target) float64 {
	if t == nil {
		return 0
	}
	return t.Value
}
