package main

import (
	"sync/atomic"
	"time"
)

// writes knows of each event when its insert was begun and when its commit was answered, by the clock of this process.
// It is safe for concurrent use.
type writes struct {
	base   time.Time
	chunks [writesChunks]atomic.Pointer[[writesChunk]write]
}

// write is one event's times, in nanoseconds since the base; 0 for what has not happened.
type write struct{ began, done atomic.Int64 }

const writesChunk, writesChunks = 1 << 14, 1 << 12

func newWrites() *writes { return &writes{base: time.Now()} }

// now is the time since the base, never 0.
func (w *writes) now() int64 { return int64(time.Since(w.base)) + 1 }

func (w *writes) at(seq int) *write {
	p := &w.chunks[seq/writesChunk]
	c := p.Load()
	if c == nil {
		p.CompareAndSwap(nil, new([writesChunk]write))
		c = p.Load()
	}
	return &c[seq%writesChunk]
}

// begin says that the insert of an event is sent now.
func (w *writes) begin(seq int) { w.at(seq).began.Store(w.now()) }

// end says that its commit was answered just now, and returns how long that took.
func (w *writes) end(seq int) time.Duration {
	e, now := w.at(seq), w.now()
	e.done.Store(now)
	return time.Duration(now - e.began.Load())
}

// times returns when an event's insert was begun and its commit answered.
func (w *writes) times(seq int) (began, done int64) {
	e := w.at(seq)
	return e.began.Load(), e.done.Load()
}
