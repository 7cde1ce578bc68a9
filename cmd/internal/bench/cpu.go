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

// cpuSeconds is the CPU time of a process so far, and of all below it when tree is set; children that
// ended are counted by whoever waited for them.
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

func ownSeconds(pid int) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may contain anything; the numbers follow the last one.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	total := 0.0
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
		n, _ := strconv.ParseFloat(fields[i], 64)
		total += n
	}
	return total / ticksPerSecond
}
