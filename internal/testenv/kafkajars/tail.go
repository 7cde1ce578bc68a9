package kafkajars

import (
	"bytes"
	"strings"
	"sync"
)

// tailBytes is how much of a process's output is kept.
const tailBytes = 64 << 10

// tail keeps the end of the output that is written to it. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write keeps p and forgets the oldest bytes. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailBytes; extra > 0 {
		t.buf = bytes.Clone(t.buf[extra:])
	}
	return len(p), nil
}

// String returns the output that is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// maxLines is how much of an output an error carries: enough for a reason and
// its stack trace.
const maxLines = 40

// lastLines returns the end of s.
func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
}

// reason returns what a broker's log says about its failure: the errors, with
// their stack traces, without the long report of the shutdown that follows
// them. A log without errors is described by its end.
func reason(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		isError := strings.Contains(line, " ERROR ")
		chatter := strings.Contains(line, " INFO ") || strings.Contains(line, " WARN ")
		if isError || (len(lines) > 0 && !chatter) {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
		if len(lines) == maxLines {
			break
		}
	}
	if len(lines) == 0 {
		return lastLines(log)
	}
	return strings.Join(lines, "\n")
}
