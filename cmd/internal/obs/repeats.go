package obs

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// How warnings that repeat are thinned.
const (
	// firstPause and maxPause bound the time between two lines about one cause; it doubles.
	firstPause = 10 * time.Second
	maxPause   = 5 * time.Minute
	// quietAfter is how long nothing was heard of a cause when the next time is a new beginning.
	quietAfter = 30 * time.Second
	// maxCauses bounds how many causes are remembered; past it only components and messages are told apart.
	maxCauses = 1000
)

// identity are the attributes that tell one cause from another. Other attributes (an error's
// text, an address, a number of events) change while the cause stays the same.
var identity = []string{"component", "loop", "check", "action", "scope", "topic", "id", "error_code"}

// repeats is a handler that thins warnings and errors: an outage says the same many times a second. The
// first line about a cause is written at once. While it goes on there is a line after 10 s, 20 s, 40 s …
// and then every 5 minutes: the newest record, with the number of records since the line before in the
// attribute repeated. So nothing is silent and nothing floods. Information and debugging pass.
type repeats struct {
	next  slog.Handler
	cause map[string]string // the identity among the attributes of With
	group bool              // attributes are in a group now, and tell nothing
	known *causes
}

func newRepeats(next slog.Handler) *repeats {
	return &repeats{next: next, known: &causes{byName: map[string]*cause{}}}
}

// causes is what all handlers that came from one logger remember.
type causes struct {
	mu     sync.Mutex
	byName map[string]*cause
}

// cause is something that was warned of.
type cause struct {
	pause time.Duration // until the next line may be written
	due   time.Time     // when that is
	heard time.Time     // the last time
	count int           // since the last line
	timer *time.Timer   // writes the newest when it is due; nil while there is none
	// newest is the record to write, and next where.
	newest slog.Record
	next   slog.Handler
}

// Enabled implements slog.Handler.
func (h *repeats) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.next = h.next.WithAttrs(attrs)
	if !h.group {
		n.cause = maps.Clone(h.cause)
		for _, a := range attrs {
			if slices.Contains(identity, a.Key) {
				if n.cause == nil {
					n.cause = map[string]string{}
				}
				n.cause[a.Key] = a.Value.String()
			}
		}
	}
	return &n
}

// WithGroup implements slog.Handler.
func (h *repeats) WithGroup(name string) slog.Handler {
	n := *h
	n.next, n.group = h.next.WithGroup(name), h.group || name != ""
	return &n
}

// Handle implements slog.Handler.
func (h *repeats) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.next.Handle(ctx, r)
	}
	if r, now := h.known.heard(h, r); now {
		return h.next.Handle(ctx, r)
	}
	return nil
}

// name is the cause by a record and its handler: exactly, and roughly, without attributes that may have many values.
func (h *repeats) name(r slog.Record) (exact, rough string) {
	parts := map[string]string{}
	maps.Copy(parts, h.cause)
	if !h.group {
		r.Attrs(func(a slog.Attr) bool {
			if slices.Contains(identity, a.Key) {
				parts[a.Key] = a.Value.String()
			}
			return true
		})
	}
	var b strings.Builder
	b.WriteString(r.Message)
	for _, key := range identity {
		b.WriteString("\x00" + parts[key])
	}
	return b.String(), r.Message + "\x00" + parts["component"]
}

// heard returns the record to write now, or keeps it for later.
func (k *causes) heard(h *repeats, r slog.Record) (slog.Record, bool) {
	exact, rough := h.name(r)
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	c := k.find(exact, rough, now)
	before := c.heard
	c.heard = now
	switch {
	case now.Sub(before) >= quietAfter:
		c.pause = firstPause
	case now.Before(c.due):
		c.count++
		c.newest, c.next = r.Clone(), h.next
		if c.timer == nil {
			c.timer = time.AfterFunc(c.due.Sub(now), func() { k.write(c) })
		}
		return r, false
	default:
		c.pause = min(2*c.pause, maxPause)
	}
	// The first record, or one after a while: it goes out, also for the records that still waited.
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	r = c.summary(r, c.count+1)
	c.count, c.due = 0, now.Add(c.pause)
	return r, true
}

// find returns the cause that is known under a name, or begins a new one.
func (k *causes) find(exact, rough string, now time.Time) *cause {
	if c := k.byName[exact]; c != nil {
		return c
	}
	if len(k.byName) >= maxCauses {
		maps.DeleteFunc(k.byName, func(_ string, c *cause) bool { return c.timer == nil && now.Sub(c.heard) >= quietAfter })
	}
	if len(k.byName) >= maxCauses {
		exact = rough
		if c := k.byName[exact]; c != nil {
			return c
		}
	}
	c := &cause{}
	k.byName[exact] = c
	return c
}

// write writes the newest record of a cause that is due.
func (k *causes) write(c *cause) {
	k.mu.Lock()
	if c.count == 0 || time.Now().Before(c.due) {
		k.mu.Unlock()
		return // heard was faster
	}
	r, next := c.summary(c.newest, c.count), c.next
	c.pause = min(2*c.pause, maxPause)
	c.count, c.timer, c.due = 0, nil, time.Now().Add(c.pause)
	c.newest, c.next = slog.Record{}, nil
	k.mu.Unlock()
	// There is no caller that could take an error of the output.
	_ = next.Handle(context.Background(), r)
}

// summary is a record that stands for a number of them.
func (*cause) summary(r slog.Record, of int) slog.Record {
	if of <= 1 {
		return r
	}
	r = r.Clone()
	r.AddAttrs(slog.Int("repeated", of))
	return r
}
