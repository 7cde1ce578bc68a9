// Package logtest lets a test read what the program that it tests writes, while that goes on.
package logtest

import (
	"bytes"
	"sync"
)

// Buffer keeps all that is written to it: a log, or the output of a process. It may be read meanwhile. The zero value
// is empty.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String is all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Tail is the end of it, at most n bytes.
func (b *Buffer) Tail(n int) string {
	all := b.String()
	return all[max(0, len(all)-n):]
}

// Take is all that was written since the last Take.
func (b *Buffer) Take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.buf.Reset()
	return b.buf.String()
}
