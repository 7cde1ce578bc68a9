package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/relay"
)

// lookupTimeout bounds the wait for the partitions of a topic that is new to a client, which the rest of
// the batch shares. The client gives a missing topic up before.
const lookupTimeout = 3 * time.Second

// Publish implements relay.Publisher.
func (p *Publisher) Publish(ctx context.Context, ms []relay.Message) []relay.Outcome {
	out := make([]relay.Outcome, len(ms))
	send, attached := p.sort(ms, out)
	switch {
	case len(send) == 0:
	case ctx.Err() != nil:
		for _, i := range send {
			out[i] = relay.Outcome{Class: relay.Withheld}
		}
	default:
		p.sendOn(ctx, ms, send, out)
	}
	// A record that is still away is not waited for: the shards of the others are locked meanwhile, and
	// whoever asks again gets its outcome then.
	for i, f := range attached {
		if !final(f) {
			out[i] = p.unknown(f)
			continue
		}
		p.forget(ms[i].ID)
		out[i] = p.outcome(f.err)
		out[i].Partition, out[i].Partitions = f.partition, f.partitions
		if suspect(out[i].Class) {
			// It failed among others; the next claim sends it anew.
			out[i] = relay.Outcome{Class: relay.Withheld}
		}
	}
	return out
}

// sort finds the messages whose earlier copy is remembered: those with a final outcome need no
// sending, those without one are attached. New messages with a key on the partition of an attached one are
// withheld, because they would overtake it if it failed. What Check refuses is not sent either: the client
// would refuse it alone, and send later ones of its key.
func (p *Publisher) sort(ms []relay.Message, out []relay.Outcome) (send []int, attached map[int]*flight) {
	send = make([]int, 0, len(ms))
	attached = map[int]*flight{}
	waiting := map[string][]*flight{} // by topic, one for each partition
	if p.flights.Load() > 0 {
		for i := range ms {
			f := p.flightOf(ms[i].ID)
			switch {
			case f == nil:
			case !final(f):
				attached[i] = f
				if !slices.ContainsFunc(waiting[f.topic], f.together) {
					waiting[f.topic] = append(waiting[f.topic], f)
				}
			case f.err == nil:
				p.forget(ms[i].ID)
				out[i] = relay.Outcome{Class: relay.Delivered}
			default:
				p.forget(ms[i].ID) // failed for good in the client: send it anew
			}
		}
	}
	for i := range ms {
		m := &ms[i]
		switch {
		case out[i].Class != "" || attached[i] != nil:
		case m.Key != nil && slices.ContainsFunc(waiting[m.Topic], func(f *flight) bool {
			return p.Partition(m.Key, f.partitions) == f.partition
		}):
			out[i] = relay.Outcome{Class: relay.Withheld}
		case m.Key == nil && p.stuck.all(m.Topic):
			out[i] = relay.Outcome{Class: relay.Infrastructure, Code: CodeUnknownOutcome,
				Message: "no partition of the topic answers" + p.last.suffix()}
		default:
			if o := p.Check(m, 0); o != nil {
				out[i] = *o
			} else {
				send = append(send, i)
			}
		}
	}
	return send, attached
}

// together reports whether two flights go to one partition.
func (f *flight) together(g *flight) bool {
	return f.partition == g.partition && f.partitions == g.partitions
}

// sendOn produces the chosen messages on a client that nobody else uses.
func (p *Publisher) sendOn(ctx context.Context, ms []relay.Message, send []int, out []relay.Outcome) {
	c, err := p.producer(ctx)
	if err != nil {
		o := p.notSent(err)
		for _, i := range send {
			out[i] = o
		}
		return
	}
	b := p.produce(ctx, c, ms, send)
	if complete := p.read(b, ms, send, out); complete {
		b = p.alone(ctx, c, b, ms, send, out)
	} else {
		withholdSuspects(send, out)
	}
	p.release(c, b)
}

// producer takes a client that has a producer id; without one nothing can be sent. A client that was
// refused an id for good fails every record from then on, whatever the broker would say now.
func (p *Publisher) producer(ctx context.Context) (*kgo.Client, error) {
	c, err := p.take()
	if err != nil {
		return nil, err
	}
	if _, _, err = c.ProducerID(ctx); err == nil {
		return c, nil
	}
	var refused *kerr.Error
	if errors.As(err, &refused) {
		p.retire(c)
	}
	p.giveBack(c)
	return nil, fmt.Errorf("no producer id: %w", err)
}

// produce buffers the messages, flushes when all are in the queues of their partitions, and waits for
// the outcomes until ctx ends.
func (p *Publisher) produce(ctx context.Context, c *kgo.Client, ms []relay.Message, send []int) *batch {
	b := newBatch(len(send))
	b.number = p.batches.Add(1)
	records := make([]kgo.Record, len(send))
	places := make([]place, len(send))
	for n, i := range send {
		m := &ms[i]
		r := &records[n]
		r.Topic, r.Key, r.Value = m.Topic, m.Key, m.Value
		// Never a context that can end: cancelling a record in the client can lose it or its order.
		places[n] = place{Context: context.Background(), b: b, n: n}
		r.Context = &places[n]
		if len(m.Headers) > 0 {
			r.Headers = make([]kgo.RecordHeader, len(m.Headers))
			for k := range m.Headers {
				r.Headers[k] = kgo.RecordHeader{Key: m.Headers[k].Name, Value: m.Headers[k].Value}
			}
		}
		c.Produce(r.Context, r, func(_ *kgo.Record, err error) {
			// One record without an answer keeps them all in memory, and the client is done with this one.
			r.Key, r.Value, r.Headers = nil, nil, nil
			if places[n].moved { // not by the record: a hook may have wrapped its context
				err = errMoved
			}
			if err != nil {
				p.note(c, r.Topic, err)
			}
			if f := b.resolve(n, err); f != nil {
				p.stuck.remove(f.topic, f.partition)
			}
		})
	}
	b.places = places
	select {
	case <-b.queued: // at once, unless a topic is new to the client
	case <-time.After(lookupTimeout):
	case <-ctx.Done():
	}
	b.early = b.failures(ms, send)
	go func() {
		defer close(b.empty)
		if len(b.early) > 0 {
			// Such a topic may work again by now, and later records of a key would go without the earlier ones.
			p.retire(c)
			c.PurgeTopicsFromProducing(slices.Collect(maps.Keys(b.early))...)
		}
		_ = c.Flush(context.Background()) // ends when the client is empty or closed
		<-b.done
	}()
	await(ctx, b)
	return b
}

// patience is how long a batch waits for its last answers when the others are there and no more come: the
// shards of all are locked meanwhile, and what is without an answer holds its partition only.
const patience = time.Second

// await returns when every outcome is known, the wait has gone on for too long, or ctx ended. It looks four times
// in each patience, so that what it adds to it is at most a quarter.
func await(ctx context.Context, b *batch) {
	const looks = 4
	look := time.NewTicker(patience / looks)
	defer look.Stop()
	for seen, quiet := 0, 0; ; {
		select {
		case <-b.empty:
			return
		case <-ctx.Done():
			return
		case <-look.C:
			n := b.answers()
			if n != seen {
				seen, quiet = n, 0
				continue
			}
			if quiet++; n > 0 && quiet >= looks {
				return
			}
		}
	}
}

// read takes the outcomes of a batch. A record without one stays in the client, as a flight. It reports
// whether the client is empty.
func (p *Publisher) read(b *batch, ms []relay.Message, send []int, out []relay.Outcome) (complete bool) {
	select {
	case <-b.empty:
		complete = true
	default:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, i := range send {
		switch err := b.early[ms[i].Topic]; {
		case err != nil:
			out[i] = p.notSent(err)
		case b.known[n]:
			out[i] = p.outcome(b.errs[n])
			out[i].Partition, out[i].Partitions = b.places[n].partition, b.places[n].partitions
		default:
			f := &flight{done: make(chan struct{}), topic: ms[i].Topic, partition: b.places[n].partition, partitions: b.places[n].partitions}
			b.late[n] = f
			p.stuck.add(f.topic, f.partition, f.partitions)
			p.remember(ms[i].ID, f)
			out[i] = p.unknown(f)
		}
	}
	return complete
}

// alone sends the suspects again, each by itself: only what fails then is poison. A key stops at its
// first message that does not go for now. It returns the last batch sent.
func (p *Publisher) alone(ctx context.Context, c *kgo.Client, b *batch, ms []relay.Message, send []int, out []relay.Outcome) *batch {
	blocked := map[string]bool{}
	for n, i := range send {
		name := ms[i].Topic + "\x00" + string(ms[i].Key)
		if suspect(out[i].Class) {
			switch {
			case ctx.Err() != nil:
				withholdSuspects(send[n:], out)
				return b
			case ms[i].Key != nil && blocked[name]:
				out[i] = relay.Outcome{Class: relay.Withheld}
			default:
				b = p.produce(ctx, c, ms, []int{i})
				if complete := p.read(b, ms, []int{i}, out); !complete {
					withholdSuspects(send[n+1:], out)
					return b
				}
			}
		}
		// Not even one that is given up lets the next ones pass: that is for whoever commits that it is.
		if ms[i].Key != nil && out[i].Class != relay.Delivered {
			blocked[name] = true
		}
	}
	return b
}

// withholdSuspects takes back the suspicion against messages that could not be tried alone.
func withholdSuspects(send []int, out []relay.Outcome) {
	for _, i := range send {
		if suspect(out[i].Class) {
			out[i] = relay.Outcome{Class: relay.Withheld}
		}
	}
}

// release gives the client back, at once or when its last record has an outcome.
func (p *Publisher) release(c *kgo.Client, b *batch) {
	select {
	case <-b.empty:
		p.giveBack(c)
	default:
		p.leave(c)
		go func() {
			<-b.empty
			p.giveBack(c)
		}()
	}
}

func (p *Publisher) outcome(err error) relay.Outcome {
	class, code := classify(err)
	if class == relay.Delivered {
		return relay.Outcome{Class: class}
	}
	return relay.Outcome{Class: class, Code: code, Message: err.Error()}
}

// notSent is the outcome of messages that never left: it cannot be the fault of any of them.
func (p *Publisher) notSent(err error) relay.Outcome {
	o := p.outcome(err)
	if suspect(o.Class) {
		o.Class = relay.Infrastructure
	}
	if errors.Is(err, errLookup) || errors.Is(err, context.DeadlineExceeded) {
		o.Message += p.last.suffix() // otherwise err says it
	}
	return o
}

func (p *Publisher) unknown(f *flight) relay.Outcome {
	return relay.Outcome{Class: relay.Infrastructure, Code: CodeUnknownOutcome, Partition: f.partition, Partitions: f.partitions,
		Message: fmt.Sprintf("no acknowledgement in time; whether the record arrived is not known%s", p.last.suffix())}
}
