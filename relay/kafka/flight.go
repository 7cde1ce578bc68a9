package kafka

import (
	"sync"
	"time"

	"github.com/postrider/postrider/relay"
)

// flight is a record whose outcome was not known when its batch had to be settled, or one that was
// delivered and could not be settled. done is closed when err is final.
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
	mu   sync.Mutex
	left int
	done chan struct{}
	// errs and known are by record; late are the flights made when the wait ended.
	errs  []error
	known []bool
	late  map[int]*flight
}

func newBatch(n int) *batch {
	return &batch{left: n, done: make(chan struct{}), errs: make([]error, n), known: make([]bool, n)}
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
		f.err = err
		close(f.done)
	}
}

// detach makes flights of the records without an outcome.
func (b *batch) detach() map[int]*flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = map[int]*flight{}
	for i, known := range b.known {
		if !known {
			b.late[i] = &flight{done: make(chan struct{}), at: time.Now()}
		}
	}
	return b.late
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
