package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/relay"
)

// flight is a record whose outcome was not known when its batch had to be settled, or one that was
// delivered and could not be settled. done is closed when err is final, which was at.
type flight struct {
	done chan struct{}
	err  error
	at   time.Time
	// Where the record is on its way to.
	topic                 string
	partition, partitions int32
}

// pruneEvery is how often what was remembered for too long is looked for.
const pruneEvery = time.Minute

// rememberFor is how long a final outcome is kept for an event that nobody claims again here. Losing
// one costs a duplicate after a fault.
const rememberFor = 10 * time.Minute

// batch collects the outcomes of records in the client.
type batch struct {
	number int64
	// empty is closed when every outcome is known and the client no longer flushes. Only then can it be
	// used again: a client that flushes sends records as they come.
	empty chan struct{}
	// queued is closed when every record is in the queue of a partition, or has failed. Only then may the
	// client flush: it looks new topics up on the side, and would send their first records before it has
	// queued the last.
	queued chan struct{}
	// early has the topics with a record that failed, or was in no queue, before the flush, and why.
	// None of the batch is sent to them.
	early map[string]error

	mu   sync.Mutex
	left int
	done chan struct{} // closed when every outcome is known
	// placed says which records are in a queue or have failed, homeless counts the others.
	placed   []bool
	homeless int
	// errs and known are by record; late are the flights made when the wait ended.
	errs   []error
	known  []bool
	places []place
	late   map[int]*flight
}

func newBatch(n int) *batch {
	return &batch{left: n, homeless: n, empty: make(chan struct{}), queued: make(chan struct{}), done: make(chan struct{}),
		placed: make([]bool, n), errs: make([]error, n), known: make([]bool, n), late: map[int]*flight{}}
}

// place is the context of a record, which leads back to its batch.
type place struct {
	context.Context
	b *batch
	n int
	// partition, of partitions, is where the record goes; partitions is 0 until that is known. They are
	// written before the record is settled, and read after.
	partition, partitions int32
	// moved says that it may go nowhere, because the client has the wrong number of partitions.
	moved bool
}

// placeKey is what a place is asked for with.
type placeKey struct{}

// Value implements context.Context.
func (p *place) Value(key any) any {
	if key == (placeKey{}) {
		return p
	}
	return p.Context.Value(key)
}

// placeOf is where one of our records belongs. A hook of Config.Options, such as those that make spans, may have put a
// context around its place.
func placeOf(r *kgo.Record) (at *place, ours bool) {
	if at, ours = r.Context.(*place); !ours && r.Context != nil {
		at, ours = r.Context.Value(placeKey{}).(*place)
	}
	return at, ours
}

// settle notes that a record is in the queue of its partition, or will never be. b.mu is held.
func (b *batch) settle(i int) {
	if b.placed[i] {
		return
	}
	b.placed[i] = true
	b.homeless--
	if b.homeless == 0 {
		close(b.queued)
	}
}

// resolve is called once per record, by the client. It returns the record's flight, if there is one.
func (b *batch) resolve(i int, err error) *flight {
	b.mu.Lock()
	b.settle(i)
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
	return f
}

// answers counts the records with an outcome.
func (b *batch) answers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.known) - b.left
}

// failures are the topics with a record that has failed by now or is in no queue, and why.
func (b *batch) failures(ms []relay.Message, send []int) map[string]error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var failed map[string]error
	for n, i := range send {
		err := b.errs[n]
		if !b.placed[n] {
			err = errLookup
		}
		if err != nil && failed[ms[i].Topic] == nil {
			if failed == nil {
				failed = map[string]error{}
			}
			failed[ms[i].Topic] = err
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
	p.prune()
	return p.pending[id]
}

func (p *Publisher) remember(id relay.MessageID, f *flight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	p.pending[id] = f
	p.flights.Store(int64(len(p.pending)))
}

// prune forgets what has been remembered for too long, now and then. p.mu is held.
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
