package kafka

import (
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// flight is a record whose outcome was not known when its batch had to be settled, or a record that
// was delivered and could not be settled. done is closed when err is final; at is the time of that.
type flight struct {
	done chan struct{}
	err  error
	at   time.Time
	// Where the record is on its way to.
	topic                 string
	partition, partitions int32
}

// pruneEvery is how often flights that were remembered for too long are looked for.
const pruneEvery = time.Minute

// rememberFor is how long a final outcome is kept for an event that is not published again here.
// Losing one costs a duplicate after a fault.
const rememberFor = 10 * time.Minute

// flightsOf finds the remembered flights of messages, by their index.
func (p *Publisher) flightsOf(ms []relay.Message) map[int]*flight {
	if p.flights.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	found := map[int]*flight{}
	for i := range ms {
		if f := p.pending[ms[i].ID]; f != nil {
			found[i] = f
		}
	}
	return found
}

func (p *Publisher) remember(id relay.MessageID, f *flight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	p.pending[id] = f
	p.flights.Store(int64(len(p.pending)))
}

// prune forgets flights that have been remembered for too long, now and then. p.mu is held.
func (p *Publisher) prune() {
	now := time.Now()
	if now.Sub(p.pruned) < pruneEvery {
		return
	}
	p.pruned = now
	for id, f := range p.pending {
		if final(f) && now.Sub(f.at) > rememberFor {
			delete(p.pending, id)
		}
	}
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
