package kafka

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/relay"
)

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
		c.Produce(&b.places[n], &b.records[n], promise)
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
			// Such a topic may work again by now, and later records of a key would go without the earlier ones.
			p.retire(c)
			c.PurgeTopicsFromProducing(slices.Collect(maps.Keys(b.early))...)
		}
		_ = c.Flush(context.Background()) // ends when the client is empty or closed
		<-b.done
	}()
}

// answer takes the client's word on a record.
func (p *Publisher) answer(c *kgo.Client, b *batch, r *kgo.Record, err error) {
	at := b.place(r)
	if at.moved {
		err = errMoved
	}
	if err != nil {
		p.note(c, r.Topic, err)
		strip(r)
	}
	if f := at.resolve(err); f != nil {
		strip(r)
		p.stuck.remove(f.topic, f.partition)
	}
	at.close()
}

// patience is how long a batch waits for its last answers when the others are there and no more come: the
// log waits meanwhile, and what is without an answer holds its partition only.
const patience = time.Second

// await returns when every outcome is known, the wait has gone on for too long, or ctx ended. It looks four times
// in each patience, so that what it adds to it is at most a quarter.
func await(ctx context.Context, c *kgo.Client, b *batch) {
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
			nudge(c)
		}
	}
}

// nudge makes a client that flushes look again for what it has to send. Of a topic that it has just looked up it queues
// the records a moment before a flush finds the queues: what is told to go in between would stay there for ever.
func nudge(c *kgo.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Flush(ctx)
}
