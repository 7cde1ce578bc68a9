package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/relay"
)

// Publish implements relay.Publisher.
func (p *Publisher) Publish(ctx context.Context, ms []relay.Message) []relay.Outcome {
	out := make([]relay.Outcome, len(ms))
	send, attached := p.sort(ms, out)
	if len(send) > 0 {
		c := p.take()
		if c == nil {
			for _, i := range send {
				out[i] = relay.Outcome{Class: relay.Infrastructure, Code: CodeClientsBusy,
					Message: "all producers wait for partitions that are away" + p.last.suffix()}
			}
		} else {
			p.sendOn(ctx, c, ms, send, out)
		}
	}
	for i, f := range attached {
		select {
		case <-f.done:
			p.forget(ms[i].ID)
			out[i] = p.outcome(f.err)
			if suspect(out[i].Class) {
				// It failed among others; the next claim sends it anew.
				out[i] = relay.Outcome{Class: relay.Withheld}
			}
		case <-ctx.Done():
			out[i] = p.unknown()
		}
	}
	return out
}

// sort finds the messages whose earlier copy is remembered: those with a final outcome need no
// sending, those without one are attached. New messages of a topic with an attached one are withheld,
// because they would overtake it if it failed.
func (p *Publisher) sort(ms []relay.Message, out []relay.Outcome) (send []int, attached map[int]*flight) {
	send = make([]int, 0, len(ms))
	if p.flights.Load() == 0 {
		for i := range ms {
			send = append(send, i)
		}
		return send, nil
	}
	waiting := map[string]bool{}
	settled := map[int]bool{}
	for i := range ms {
		f := p.flightOf(ms[i].ID)
		switch {
		case f == nil:
		case !final(f):
			if attached == nil {
				attached = map[int]*flight{}
			}
			attached[i] = f
			waiting[ms[i].Topic] = true
		case f.err == nil:
			p.forget(ms[i].ID)
			out[i] = relay.Outcome{Class: relay.Delivered}
			settled[i] = true
		default:
			p.forget(ms[i].ID) // failed for good in the client: send it anew
		}
	}
	for i := range ms {
		switch {
		case settled[i] || attached[i] != nil:
		case waiting[ms[i].Topic]:
			out[i] = relay.Outcome{Class: relay.Withheld}
		default:
			send = append(send, i)
		}
	}
	return send, attached
}

// sendOn produces the chosen messages on a client that nobody else uses, and gives the client back
// when it is empty again.
func (p *Publisher) sendOn(ctx context.Context, c *kgo.Client, ms []relay.Message, send []int, out []relay.Outcome) {
	b, complete := p.produce(ctx, c, ms, send)
	if !complete {
		for n, f := range b.detach() {
			p.remember(ms[send[n]].ID, f)
		}
	}
	b.mu.Lock()
	for n, i := range send {
		if b.known[n] {
			out[i] = p.outcome(b.errs[n])
		} else {
			out[i] = p.unknown()
		}
	}
	b.mu.Unlock()
	blocked := map[string]bool{}
	for _, i := range send {
		name := ms[i].Topic + "\x00" + string(ms[i].Key)
		if suspect(out[i].Class) {
			switch {
			case !complete, ms[i].Key != nil && blocked[name], ctx.Err() != nil:
				out[i] = relay.Outcome{Class: relay.Withheld}
			default:
				complete = p.alone(ctx, c, ms, i, out)
			}
		}
		if o := out[i].Class; ms[i].Key != nil && o != relay.Delivered && o != relay.Permanent {
			blocked[name] = true
		}
	}
	p.purge(c, ms, send, out, complete)
	p.release(c, complete)
}

// produce buffers the messages, flushes, and waits for the outcomes until ctx ends. complete says that
// every outcome is known.
func (p *Publisher) produce(ctx context.Context, c *kgo.Client, ms []relay.Message, send []int) (b *batch, complete bool) {
	b = newBatch(len(send))
	records := make([]kgo.Record, len(send))
	for n, i := range send {
		m := &ms[i]
		r := &records[n]
		r.Topic, r.Key, r.Value = m.Topic, m.Key, m.Value
		if len(m.Headers) > 0 {
			r.Headers = make([]kgo.RecordHeader, len(m.Headers))
			for k := range m.Headers {
				r.Headers[k] = kgo.RecordHeader{Key: m.Headers[k].Name, Value: m.Headers[k].Value}
			}
		}
		// Never a context that can end: cancelling a record in the client can lose it or its order.
		c.Produce(context.Background(), r, func(_ *kgo.Record, err error) { b.resolve(n, err) })
	}
	flushed := make(chan struct{})
	p.flushing.Go(func() {
		defer close(flushed)
		_ = c.Flush(context.Background()) // ends when the client is empty or closed
	})
	select {
	case <-flushed:
		// Only now: a client that still flushes would send the next batch's records as they come.
		<-b.done
		return b, true
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		return b, b.left == 0
	}
}

// alone sends one suspect by itself: only what fails then is poison. It reports whether the outcome
// became known.
func (p *Publisher) alone(ctx context.Context, c *kgo.Client, ms []relay.Message, i int, out []relay.Outcome) bool {
	b, complete := p.produce(ctx, c, ms, []int{i})
	if !complete {
		for _, f := range b.detach() {
			p.remember(ms[i].ID, f)
		}
		out[i] = p.unknown()
		return false
	}
	out[i] = p.outcome(b.errs[0])
	return true
}

// purge makes the client forget topics that are missing or were recreated, so that it looks them up
// again; a recreated one fails for ever otherwise.
func (p *Publisher) purge(c *kgo.Client, ms []relay.Message, send []int, out []relay.Outcome, complete bool) {
	if !complete {
		return // purging fails what is buffered
	}
	seen := map[string]bool{}
	for _, i := range send {
		if t := ms[i].Topic; out[i].Class == relay.Route && !seen[t] {
			seen[t] = true
			c.PurgeTopicsFromProducing(t)
		}
	}
}

// release gives the client back, at once or when its last record has an outcome.
func (p *Publisher) release(c *kgo.Client, complete bool) {
	if complete {
		p.giveBack(c)
		return
	}
	p.flushing.Go(func() {
		_ = c.Flush(context.Background())
		p.giveBack(c)
	})
}

func (p *Publisher) outcome(err error) relay.Outcome {
	class, code := classify(err)
	if class == relay.Delivered {
		return relay.Outcome{Class: class}
	}
	return relay.Outcome{Class: class, Code: code, Message: err.Error()}
}

func (p *Publisher) unknown() relay.Outcome {
	return relay.Outcome{Class: relay.Infrastructure, Code: CodeUnknownOutcome,
		Message: fmt.Sprintf("no acknowledgement in time; whether the record arrived is not known%s", p.last.suffix())}
}
