package main

import "strings"

// target is what a figure must be.
type target struct {
	Op    string  `json:"op"` // ">=" or "<="
	Value float64 `json:"value"`
}

func atLeast(v float64) *target { return &target{">=", v} }
func atMost(v float64) *target  { return &target{"<=", v} }

func (t *target) met(v float64) bool {
	if t.Op == ">=" {
		return v >= t.Value
	}
	return v <= t.Value
}

// bound is what the median of a figure must be.
type bound struct {
	scenario string
	broker   string // kind of the broker; any where it is empty
	row      string // the case; with a star for anything
	settings string // of the case, in the same way; any where it is empty
	figure   string
	target   *target
}

// What several tables ask for.
const (
	once     = 0.0 // copies, missing, out of order
	noSlower = 1.2 // of what it costs in a small table
	viewMs   = 100 // a view that people look at
	memory30 = 100 // MiB of a relay, whatever it does
)

// targets are all that is asked of the figures, the first that fits counting. Postrider is judged by its defaults. Where the
// source of a number is not the sentence behind it, it is what was reached and must not be lost.
var targets = []bound{
	// What a sketch of the log without exceptions, holds and dead letters reached was 0.76 of the floor and more.
	{"drain", "kafka", postriderName, "defaults", "of floor", atLeast(0.75)},
	{"drain", "kafka", postriderName, "defaults", "times " + pollerSide.name, atLeast(2)},
	{"drain", "kafka", postriderName, "defaults", "times " + logicalSide.name, atLeast(1.4)},
	{"drain", "kafka", postriderName, "defaults", "times Debezium, tuned", atLeast(4)},
	{"drain", "", postriderName, "defaults", "PostgreSQL", atMost(0.13)},
	{"drain", "", postriderName, "defaults", "peak MiB", atMost(memory30)},
	{"drain", "", postriderName + "*", "", "copies", atMost(once)},
	{"drain", "", postriderName + "*", "", "missing", atMost(once)},
	{"drain", "", postriderName + "*", "", "out of order", atMost(once)},

	{"slow", "", postriderName, "defaults", "times " + pollerSide.name, atLeast(2)},
	{"slow", "", postriderName + "*", "", "copies", atMost(once)},
	{"slow", "", postriderName + "*", "", "missing", atMost(once)},
	{"slow", "", postriderName + "*", "", "out of order", atMost(once)},

	// Columns that every outbox needs, and nothing else.
	{"writers", "", ours.name, "nothing running", "of a bare table", atLeast(0.90)},
	{"writers", "", postriderName + ", " + ours.name, "defaults", "of a bare table", atLeast(0.78)},
	{"writers", "", postriderName + "*", "", "copies", atMost(once)},
	{"writers", "", postriderName + "*", "", "missing", atMost(once)},
	{"writers", "", postriderName + "*", "", "out of order", atMost(once)},
	{"inserts", "", ours.name, "", "least µs", atMost(30)},
	{"inserts", "", published.name, "", "least µs", atMost(45)},

	// A tenth above what commits take with nothing running, and latencies that no one waits for.
	{"steady", "kfake", postriderName + ", quiet*", "defaults", "event p50 ms", atMost(3)},
	{"steady", "kafka", postriderName + ", quiet*", "defaults", "event p50 ms", atMost(3)},
	{"steady", "", postriderName + ", quiet*", "defaults", "event p99 ms", atMost(10)},
	{"steady", "kfake", postriderName + ",*", "defaults", "event p50 ms", atMost(2)},
	{"steady", "kfake", postriderName + ",*", "defaults", "event p99 ms", atMost(6)},
	{"steady", "kafka", postriderName + ",*", "defaults", "event p50 ms", atMost(2)},
	{"steady", "kafka", postriderName + ",*", "defaults", "event p99 ms", atMost(10)},
	{"steady", "", postriderName + ", quiet*", "", "commit p50 ms", nil},
	{"steady", "", postriderName + ",*", "defaults", "commit p50 ms", atMost(0.65)},
	{"steady", "", postriderName + ", quiet*", "", "PostgreSQL beside them", nil}, // a hundred events: what it takes while idle
	{"steady", "", postriderName + ",*", "defaults", "PostgreSQL beside them", atMost(5)},
	{"steady", "", postriderName + ", quiet*", "", "CPU s per 100k: side", nil},
	{"steady", "", postriderName + ",*", "defaults", "CPU s per 100k: side", atMost(8)},
	{"steady", "", postriderName + ", quiet*", "", "WAL bytes an event", nil},
	{"steady", "", postriderName + ",*", "defaults", "WAL bytes an event", atMost(600)},
	{"steady", "", postriderName + ",*", "", "copies", atMost(once)},
	{"steady", "", postriderName + ",*", "", "missing", atMost(once)},
	{"steady", "", postriderName + ",*", "", "out of order", atMost(once)},

	{"takeover", "", postriderName, "", "takeover ms", atMost(1000)},
	{"takeover", "", postriderName, "", "missing", atMost(once)},
	{"takeover", "", postriderName, "", "out of order", atMost(once)},
	{"hotkey", "", postriderName + ", beside*", "defaults", "p99, of alone", atMost(2)},
	{"hotkey", "", postriderName + "*", "", "copies", atMost(once)},
	{"hotkey", "", postriderName + "*", "", "missing", atMost(once)},
	{"hotkey", "", postriderName + "*", "", "out of order", atMost(once)},
	// Others wait no longer than it takes to read past the rest, at two thirds of what a drain reaches.
	{"burst", "", postriderName + ", beside*", "defaults", "others' longest ms", atMost(5000)},
	{"burst", "", postriderName + "*", "", "copies", atMost(once)},
	{"burst", "", postriderName + "*", "", "missing", atMost(once)},
	{"burst", "", postriderName + "*", "", "out of order", atMost(once)},

	{"flat", "", "*", "", "time, of small", atMost(1.1)},
	{"flat", "", "*", "", "CPU of relay and PostgreSQL, of small", atMost(1.1)},
	{"faults", "", "*", "", "of all well", atLeast(0.9)},
	{"memory", "", "*", "", "peak MiB (VmHWM)", atMost(memory30)},
	{"idle", "", "*", "", "process, % of a core", atMost(2)},
	{"sources", "", "*", "", "process, % of a core", atMost(10)},
	{"sources", "", "*", "defaults*", "PostgreSQL, more than with nothing connected", atMost(5)},
	{"sources", "", "*", "", "connections each", atMost(1)},
	{"sources", "", "*", "", "MiB each", atMost(1)},
	{"busy", "", "*", "", "p99, of one source's", atMost(1.5)},
	{"busy", "", "*", "", "copies", atMost(once)},
	{"busy", "", "*", "", "missing", atMost(once)},
	{"busy", "", "*", "", "out of order", atMost(once)},
	{"killed", "", "kill -9", "", "all move after ms", atMost(2000)},
	{"killed", "", "kill -9, the home away", "", "all move after ms", atMost(15_000)},
	{"killed", "", "cut off", "", "all move after ms", atMost(10_000)},
	{"killed", "", "*", "", "missing", atMost(once)},
	{"killed", "", "*", "", "out of order", atMost(once)},
	{"commands", "", "answered by the source", "", "p95 ms", atMost(100)},
	{"telemetry", "", "metrics and traces", "", "of off", atLeast(0.95)},
	{"hour", "", "*", "", "events/s, of the first line", atLeast(0.98)},
	{"hour", "", "*", "", "p99, of the first line", atMost(1.5)},
	{"hour", "", "*", "", "CPU of relay and PostgreSQL, of the first line", atMost(1.2)},

	{"consumer", "", "*", "", "of poll loop", atLeast(0.8)},
	{"consumer", "", "*", "", "times in order of offset", atLeast(20)},
	{"stale", "", "*", "", "pass ms", atMost(20)},
	{"stale", "", "*", "", "pass, of the smallest", atMost(noSlower)},
	{"stale", "", "* detectors", "", "all passes s", nil},
	{"stale", "", "*", "", "all passes s", atMost(2)},
	{"stale", "", "*", "", "passes, of the smallest", atMost(noSlower)},
	{"stale", "", "*", "", "throughput, of one", atLeast(1)},
	{"archive", "", "nothing archived", "", "others' longest wait ms", nil},
	{"archive", "", "*", "", "others' longest wait ms", atMost(50)},
	{"archive", "", "v_archive_statistics", "", "ms", atMost(viewMs)},
	{"archive", "", "v_*", "summary of at most 5 minutes", "ms", atMost(viewMs)},
	{"redrive", "", "*", "no rate", "investigations/s", atLeast(5000)},
	{"redrive", "", "*", "", "off the rate %", atMost(5)},
	{"collector", "", "*", "", "letters/s", atLeast(10_000)},
	{"api", "", "the mix", "", "p95 ms", atMost(20)},
	{"api", "", "the mix", "", "p99 ms", atMost(50)},
	{"api", "", "*", "alone, *", "p95 ms", atMost(100)},
	{"api", "", "v_dlq_dashboard", "", "longest ms", atMost(viewMs)},

	// What people wait for without noticing, and what open screens may cost.
	{"console", "", "*", "* a second", "p95 ms", atMost(50)},
	{"console", "", "* screens", "first page", "more than one, % of a core", atMost(5)},
}

// targetOf is what a figure must be, nil where nothing is asked.
func targetOf(scenario, broker, row, settings, figure string) *target {
	for _, b := range targets {
		if b.scenario == scenario && b.figure == figure && (b.broker == "" || b.broker == broker) && fits(b.row, row) && (b.settings == "" || fits(b.settings, settings)) {
			return b.target
		}
	}
	return nil
}

// fits compares a text with a pattern; one star in the pattern stands for anything.
func fits(pattern, text string) bool {
	begin, end, open := strings.Cut(pattern, "*")
	if !open {
		return pattern == text
	}
	return len(text) >= len(begin)+len(end) && strings.HasPrefix(text, begin) && strings.HasSuffix(text, end)
}
