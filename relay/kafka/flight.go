package kafka

import (
	"sync"
	"time"

	"github.com/postrider/postrider/relay"
)

// flight is a record whose outcome was not known when its batch had to be settled, or one that was
// delivered and could not be settled. done is closed when err is final, which was at.
type flight struct {
	done chan struct{}
	err  error
	at   time.Time
}

// rememberFor is how long a final outcome is kept for an event that nobody claims again here. Losing
// one costs a duplicate after a fault.
const rememberFor = 10 * time.Minute

// batch collects the outcomes of records in the client.
type batch struct {
	// empty is closed when every outcome is known and the client no longer flushes. Only then can it be
	// used again: a client that flushes sends records as they come.
	empty chan struct{}
	// early has the topics that failed before the batch was whole, and why. None of it is sent to them.
	early map[string]error

	mu   sync.Mutex
	left int
	done chan struct{} // closed when every outcome is known
	// errs and known are by record; late are the flights made when the wait ended.
	errs  []error
	known []bool
	late  map[int]*flight
}

func newBatch(n int) *batch {
	return &batch{left: n, empty: make(chan struct{}), done: make(chan struct{}),
		errs: make([]error, n), known: make([]bool, n), late: map[int]*flight{}}
}

// resolve is called once per record, by the client.
func (b *batch) resolve(i int, err error) {
	b.mu.Lock()
	b.errs[i], b.known[i] = err, true
	b.left--
	if b.left == 0 {
		close(b.done)
	}
	f := b.late[i]
	b.mu.Unlock()
	if f != nil {
		f.err, f.at = err, time.Now()
		close(f.done)
	}
}

// failures are the topics with a record that has failed by now, and why.
func (b *batch) failures(ms []relay.Message, send []int) map[string]error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var failed map[string]error
	for n, i := range send {
		if b.errs[n] != nil && failed[ms[i].Topic] == nil {
			if failed == nil {
				failed = map[string]error{}
			}
			failed[ms[i].Topic] = b.errs[n]
		}
	}
	return failed
}

// flightOf finds the remembered flight of a message.
func (p *Publisher) flightOf(id relay.MessageID) *flight {
	if p.flights.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending[id]
}

func (p *Publisher) remember(id relay.MessageID, f *flight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) >= 1000 && len(p.pending)%1000 == 0 {
		for known, old := range p.pending {
			if final(old) && time.Since(old.at) > rememberFor {
				delete(p.pending, known)
			}
		}
	}
	p.pending[id] = f
	p.flights.Store(int64(len(p.pending)))
}

func (p *Publisher) forget(id relay.MessageID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, id)
	p.flights.Store(int64(len(p.pending)))
}

func final(f *flight) bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// Remember implements relay.Publisher.
func (p *Publisher) Remember(ms []relay.Message) {
	for i := range ms {
		f := &flight{done: make(chan struct{}), at: time.Now()}
		close(f.done)
		p.remember(ms[i].ID, f)
	}
}
