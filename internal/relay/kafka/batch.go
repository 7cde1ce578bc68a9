package kafka

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
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
	refs    []recordRef        // by record
	headers []kgo.RecordHeader // of all records, in their order
	// homeless counts the records that are in no queue and have not failed; left counts the records without an outcome.
	homeless, left atomic.Int64
	failed         atomic.Bool // whether any has failed
}

// newBatch makes the records of the chosen messages.
func newBatch(number int64, ms []relay.Message, send []int) *batch {
	b := &batch{number: number, empty: make(chan struct{}), queued: make(chan struct{}), done: make(chan struct{}),
		records: make([]kgo.Record, len(send)), refs: make([]recordRef, len(send))}
	b.homeless.Store(int64(len(send)))
	b.left.Store(int64(len(send)))
	n := 0
	for _, i := range send {
		n += len(ms[i].Headers)
	}
	b.headers = make([]kgo.RecordHeader, 0, n)
	now := time.Now()
	for n, i := range send {
		m, r, at := &ms[i], &b.records[n], &b.refs[n]
		at.b, r.Context = b, at
		r.Topic, r.Key, r.Value, r.Timestamp = m.Topic, m.Key, m.Value, now
		if !m.Timestamp.IsZero() {
			r.Timestamp = m.Timestamp
		}
		at.chosen = m.Partition
		first := len(b.headers)
		for k := range m.Headers {
			b.headers = append(b.headers, kgo.RecordHeader{Key: m.Headers[k].Name, Value: m.Headers[k].Value})
		}
		r.Headers = b.headers[first:len(b.headers):len(b.headers)] // a hook may append to it
	}
	return b
}

// recordRef is the context of a record, which leads back to its batch. It never ends: cancelling a record in the client can
// lose it or its order.
type recordRef struct {
	b *batch
	// answer is nil while the record has no outcome; then it is answered, or the flight that was made when the wait
	// ended. err is read after that.
	answer atomic.Pointer[flight]
	err    error
	// partition, of partitions, is where the record goes; partitions is 0 until that is known. They are
	// written before the record is queued, and read after.
	partition, partitions int32
	// chosen is the partition that the message must go to; nil where it has none.
	chosen *int32
	// queued says that the record is in the queue of its partition, or will never be.
	queued atomic.Bool
	// partitionsChanged says that it may go nowhere, because the client has the wrong number of partitions.
	partitionsChanged bool
}

// answered takes the place of a flight where none is needed.
var answered = new(flight)

// recordRefKey is what a recordRef is asked for with.
type recordRefKey struct{}

// Value implements context.Context.
func (at *recordRef) Value(key any) any {
	if key == (recordRefKey{}) {
		return at
	}
	return nil
}

// Deadline implements context.Context.
func (*recordRef) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements context.Context.
func (*recordRef) Done() <-chan struct{} { return nil }

// Err implements context.Context.
func (*recordRef) Err() error { return nil }

var _ context.Context = (*recordRef)(nil)

// recordRefOf returns the reference of one of our records. A hook of Config.Options, for example one that makes spans,
// may have put a context around it.
func recordRefOf(r *kgo.Record) (at *recordRef, ours bool) {
	if at, ours = r.Context.(*recordRef); !ours && r.Context != nil {
		at, ours = r.Context.Value(recordRefKey{}).(*recordRef)
	}
	return at, ours
}

// refOf is recordRefOf for a record of this batch, even if a hook has put another context in the place of ours.
func (b *batch) refOf(r *kgo.Record) *recordRef {
	if at, ours := recordRefOf(r); ours {
		return at
	}
	for n := range b.records {
		if &b.records[n] == r {
			return &b.refs[n]
		}
	}
	return nil
}

// markQueued notes that a record is in the queue of its partition, or will never be.
func (at *recordRef) markQueued() {
	if at.queued.CompareAndSwap(false, true) && at.b.homeless.Add(-1) == 0 {
		close(at.b.queued)
	}
}

// resolve is called once per record, by the client. It returns the record's flight, if there is one.
func (at *recordRef) resolve(err error) *flight {
	if err != nil {
		at.err = err
		at.b.failed.Store(true)
	}
	f := at.answer.Swap(answered)
	if !at.queued.Load() {
		at.markQueued() // after its error can be seen
	}
	if f != nil {
		f.err, f.at = err, time.Now()
		close(f.done)
	}
	return f
}

// close is called after resolve.
func (at *recordRef) close() {
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
	for n := range b.refs {
		at, topic := &b.refs[n], b.records[n].Topic
		var err error
		switch {
		case at.answer.Load() != nil:
			err = at.err
		case !at.queued.Load():
			err = errLookup
		}
		if err != nil && failed[topic] == nil {
			failed[topic] = err
		}
	}
	return failed
}

// strip empties a record that the client is done with: the records of a batch are in one piece, so that one record
// without an answer keeps them all in memory.
func strip(r *kgo.Record) { r.Key, r.Value, r.Headers = nil, nil, nil }

// lookupTimeout bounds the wait for the partitions of a topic that is new to a client, which the rest of
// the batch shares. The client gives a missing topic up before.
const lookupTimeout = 3 * time.Second

// produce buffers the messages, sends them and waits for the outcomes until ctx ends.
func (p *Publisher) produce(ctx context.Context, c *kgo.Client, ms []relay.Message, send []int) *batch {
	b := p.buffer(c, ms, send)
	p.flush(ctx, c, b)
	await(ctx, c, b)
	return b
}

// buffer hands the messages to the client, which sends none of them yet.
func (p *Publisher) buffer(c *kgo.Client, ms []relay.Message, send []int) *batch {
	b := newBatch(p.batches.Add(1), ms, send)
	promise := func(r *kgo.Record, err error) { p.answer(c, b, r, err) }
	for n := range b.records {
		c.Produce(&b.refs[n], &b.records[n], promise)
	}
	return b
}

// flush lets the client send a batch when all of it is in the queues of its partitions.
func (p *Publisher) flush(ctx context.Context, c *kgo.Client, b *batch) {
	if b.homeless.Load() > 0 { // a topic is new to the client
		lookup := time.NewTimer(lookupTimeout)
		select {
		case <-b.queued:
		case <-lookup.C:
		case <-ctx.Done():
		}
		lookup.Stop()
	}
	b.early = b.failures()
	go func() {
		defer close(b.empty)
		if len(b.early) > 0 {
			// A topic that failed may work again by now, and later records of a key would go without the earlier ones.
			p.retire(c)
			c.PurgeTopicsFromProducing(slices.Collect(maps.Keys(b.early))...)
		}
		_ = c.Flush(context.Background()) // ends when the client is empty or closed
		<-b.done
	}()
}

// answer takes the client's word on a record.
func (p *Publisher) answer(c *kgo.Client, b *batch, r *kgo.Record, err error) {
	at := b.refOf(r)
	if at.partitionsChanged {
		err = errPartitionsChanged
	}
	if err != nil {
		p.retireOnRouteError(c, r.Topic, err)
		strip(r)
	}
	if f := at.resolve(err); f != nil {
		strip(r)
		p.stuck.remove(f.topic, f.partition)
	}
	at.close()
}

// patience is how long a batch waits for its last answers when the others are there and no more come: the
// log waits meanwhile, and a record without an answer holds its partition only.
const patience = time.Second

// await returns when every outcome is known, the wait has gone on for too long, or ctx ended. It checks four times
// in each patience, so that what it adds to it is at most a quarter.
func await(ctx context.Context, c *kgo.Client, b *batch) {
	const checks = 4
	check := time.NewTicker(patience / checks)
	defer check.Stop()
	for seen, quiet := 0, 0; ; {
		select {
		case <-b.empty:
			return
		case <-ctx.Done():
			return
		case <-check.C:
			n := b.answers()
			if n != seen {
				seen, quiet = n, 0
				continue
			}
			if quiet++; n > 0 && quiet >= checks {
				return
			}
			nudge(c)
		}
	}
}

// nudge makes a client that flushes look again for records that it has to send. When it has just looked up a topic, it
// queues the topic's records a moment before a flush finds the queues. A record told to go in between would stay there for
// ever.
func nudge(c *kgo.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Flush(ctx)
}

// queueHook tells a batch which of its records are in the queue of a partition.
type queueHook struct{}

// OnProduceRecordPartitioned implements kgo.HookProduceRecordPartitioned.
func (queueHook) OnProduceRecordPartitioned(r *kgo.Record, _ int32) {
	if at, ok := recordRefOf(r); ok {
		at.markQueued()
	}
}
