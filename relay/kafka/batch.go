package kafka

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/relay"
)

// batch collects the outcomes of records in the client. A record that simply goes takes no lock, and nothing is
// allocated for it alone.
type batch struct {
	number int64
	// empty is closed when every outcome is known and the client no longer flushes. Only then can it be
	// used again: a client that flushes sends records as they come.
	empty chan struct{}
	// queued is closed when every record is in the queue of a partition, or has failed. Only then may the
	// client flush: it looks new topics up on the side, and would send their first records before it has
	// queued the last.
	queued chan struct{}
	done   chan struct{} // closed when every outcome is known
	// early has the topics with a record that failed, or was in no queue, before the flush, and why.
	// None of the batch is sent to them.
	early map[string]error

	records []kgo.Record
	places  []place            // by record
	headers []kgo.RecordHeader // of all records, in their order
	// homeless counts the records in no queue that have not failed, left those without an outcome.
	homeless, left atomic.Int64
	failed         atomic.Bool // whether any has failed
}

// newBatch makes the records of the chosen messages.
func newBatch(number int64, ms []relay.Message, send []int) *batch {
	b := &batch{number: number, empty: make(chan struct{}), queued: make(chan struct{}), done: make(chan struct{}),
		records: make([]kgo.Record, len(send)), places: make([]place, len(send))}
	b.homeless.Store(int64(len(send)))
	b.left.Store(int64(len(send)))
	n := 0
	for _, i := range send {
		n += len(ms[i].Headers)
	}
	b.headers = make([]kgo.RecordHeader, 0, n)
	now := time.Now()
	for n, i := range send {
		m, r, at := &ms[i], &b.records[n], &b.places[n]
		at.b, r.Context = b, at
		r.Topic, r.Key, r.Value, r.Timestamp = m.Topic, m.Key, m.Value, now
		first := len(b.headers)
		for k := range m.Headers {
			b.headers = append(b.headers, kgo.RecordHeader{Key: m.Headers[k].Name, Value: m.Headers[k].Value})
		}
		r.Headers = b.headers[first:len(b.headers):len(b.headers)] // a hook may append to it
	}
	return b
}

// place is the context of a record, which leads back to its batch. It never ends: cancelling a record in the client can
// lose it or its order.
type place struct {
	b *batch
	// answer is nil while the record has no outcome; then it is answered, or the flight that was made when the wait
	// ended. err is read after that.
	answer atomic.Pointer[flight]
	err    error
	// partition, of partitions, is where the record goes; partitions is 0 until that is known. They are
	// written before the record is settled, and read after.
	partition, partitions int32
	// settled says that the record is in the queue of its partition, or will never be.
	settled atomic.Bool
	// moved says that it may go nowhere, because the client has the wrong number of partitions.
	moved bool
}

// answered takes the place of a flight where none is needed.
var answered = new(flight)

// placeKey is what a place is asked for with.
type placeKey struct{}

// Value implements context.Context.
func (at *place) Value(key any) any {
	if key == (placeKey{}) {
		return at
	}
	return nil
}

// Deadline implements context.Context.
func (*place) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements context.Context.
func (*place) Done() <-chan struct{} { return nil }

// Err implements context.Context.
func (*place) Err() error { return nil }

var _ context.Context = (*place)(nil)

// placeOf is where one of our records belongs. A hook of Config.Options, such as those that make spans, may have put a
// context around its place.
func placeOf(r *kgo.Record) (at *place, ours bool) {
	if at, ours = r.Context.(*place); !ours && r.Context != nil {
		at, ours = r.Context.Value(placeKey{}).(*place)
	}
	return at, ours
}

// place is placeOf for a record of this batch, even if a hook has put another context in the place of ours.
func (b *batch) place(r *kgo.Record) *place {
	if at, ours := placeOf(r); ours {
		return at
	}
	for n := range b.records {
		if &b.records[n] == r {
			return &b.places[n]
		}
	}
	return nil
}

// settle notes that a record is in the queue of its partition, or will never be.
func (at *place) settle() {
	if at.settled.CompareAndSwap(false, true) && at.b.homeless.Add(-1) == 0 {
		close(at.b.queued)
	}
}

// resolve is called once per record, by the client. It returns the record's flight, if there is one.
func (at *place) resolve(err error) *flight {
	if err != nil {
		at.err = err
		at.b.failed.Store(true)
	}
	f := at.answer.Swap(answered)
	if !at.settled.Load() {
		at.settle() // after its error can be seen
	}
	if f != nil {
		f.err, f.at = err, time.Now()
		close(f.done)
	}
	return f
}

// close is called after resolve.
func (at *place) close() {
	if at.b.left.Add(-1) == 0 {
		close(at.b.done)
	}
}

// answers counts the records with an outcome.
func (b *batch) answers() int { return len(b.records) - int(b.left.Load()) }

// complete reports whether the client is empty.
func (b *batch) complete() bool {
	select {
	case <-b.empty:
		return true
	default:
		return false
	}
}

// delivered reports whether all records were acknowledged.
func (b *batch) delivered() bool { return b.complete() && !b.failed.Load() && len(b.early) == 0 }

// failures are the topics with a record that has failed by now or is in no queue, and why.
func (b *batch) failures() map[string]error {
	if b.homeless.Load() == 0 && !b.failed.Load() {
		return nil
	}
	failed := map[string]error{}
	for n := range b.places {
		at, topic := &b.places[n], b.records[n].Topic
		var err error
		switch {
		case at.answer.Load() != nil:
			err = at.err
		case !at.settled.Load():
			err = errLookup
		}
		if err != nil && failed[topic] == nil {
			failed[topic] = err
		}
	}
	return failed
}

// strip takes out of a record what is no longer needed of it: one without an answer keeps them all in memory, and the
// client is done with this one.
func strip(r *kgo.Record) { r.Key, r.Value, r.Headers = nil, nil, nil }
