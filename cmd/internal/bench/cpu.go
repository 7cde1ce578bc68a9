package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticksPerSecond is USER_HZ, which Linux fixes at 100 for what it shows in /proc.
const ticksPerSecond = 100

// cpu is CPU seconds: of the side's process, of all of PostgreSQL, of its backends that serve the writers among it, and of
// the broker.
type cpu struct{ side, database, writers, broker float64 }

// rest is PostgreSQL without the writers' backends.
func (c cpu) rest() float64 { return c.database - c.writers }

// relaying is the side's process and PostgreSQL without the writers' backends.
func (c cpu) relaying() float64 { return c.side + c.rest() }

func (c cpu) minus(o cpu) cpu {
	return cpu{c.side - o.side, c.database - o.database, c.writers - o.writers, c.broker - o.broker}
}

// per100k scales to 100,000 events.
func (c cpu) per100k(events int64) cpu {
	f := 100_000 / float64(events)
	return cpu{c.side * f, c.database * f, c.writers * f, c.broker * f}
}

// cpuSeconds is the CPU time of a process so far, and of all below it when tree is set. The time of ended children counts
// for the process that waited for them.
func cpuSeconds(pid int, tree bool) float64 {
	total := ownSeconds(pid)
	if !tree {
		return total
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		for field := range strings.FieldsSeq(string(raw)) {
			if below, err := strconv.Atoi(field); err == nil {
				total += cpuSeconds(below, true)
			}
		}
	}
	return total
}

// ownSeconds takes the larger of two clocks: the process's own, cut off at ticks of 10 ms, which counts
// ended threads too, and the sum of its live threads', which is exact.
func ownSeconds(pid int) float64 {
	fields := statFields(pid)
	if fields == nil {
		return 0
	}
	own, waited := ticks(fields[11])+ticks(fields[12]), ticks(fields[13])+ticks(fields[14])
	exact := 0.0
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		if first, _, ok := strings.Cut(string(raw), " "); ok {
			ns, _ := strconv.ParseFloat(first, 64)
			exact += ns / 1e9
		}
	}
	return max(own, exact) + waited
}

func ticks(field string) float64 {
	n, _ := strconv.ParseFloat(field, 64)
	return n / ticksPerSecond
}

// statFields are the fields of /proc/PID/stat after the name, from the state on; nil for a process that
// is gone.
func statFields(pid int) []string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name in parentheses may contain anything; the numbers follow the last one.
	return strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
}

// parentOf is the process that started this one.
func parentOf(pid int) (int, error) {
	fields := statFields(pid)
	if fields == nil {
		return 0, fmt.Errorf("process %d is not to be seen in /proc: the bench needs Linux and a PostgreSQL on this machine", pid)
	}
	return strconv.Atoi(fields[1])
}

// memoryOf is the resident memory of a process and the most it ever was, in MiB.
func memoryOf(pid int) (resident, peak float64, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kilobytes, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			resident = kilobytes / 1024
		case "VmHWM:":
			peak = kilobytes / 1024
		}
	}
	return resident, peak, nil
}
