package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
)

// Check implements relay.Publisher: a record over the limit would be refused by the client, alone,
// while later records of its key went out.
func (p *Publisher) Check(m *relay.Message, limit int) *relay.Outcome {
	setting := "the topic's max_message_bytes"
	if largest := int(p.maxBatch.Load()); limit <= 0 || limit >= largest {
		limit, setting = largest, "kafka max_message_bytes"
		if limit < p.cfg.MaxMessageBytes {
			setting = fmt.Sprintf("kafka max_request_bytes, or what brokers cut, less %d", requestRoom)
		}
	}
	if surelyFits(m, limit) {
		return nil
	}
	n := encodedSize(m)
	if n <= limit {
		return nil
	}
	return &relay.Outcome{Class: relay.Permanent, Code: "MESSAGE_TOO_LARGE",
		Message: fmt.Sprintf("the record is %d bytes, the limit is %d (%s)", n, limit, setting)}
}

// Publish implements relay.Publisher.
func (p *Publisher) Publish(ctx context.Context, ms []relay.Message) []relay.Outcome {
	return p.publish(ctx, &p.own, ms)
}

func (p *Publisher) publish(ctx context.Context, s *Share, ms []relay.Message) []relay.Outcome {
	send, attached, out := p.sort(ms)
	switch {
	case len(send) == 0:
	case ctx.Err() != nil:
		out = made(out, ms)
		for _, i := range send {
			out[i] = relay.Outcome{Class: relay.Withheld}
		}
	default:
		out = p.sendOn(ctx, s, ms, send, out)
	}
	if out == nil {
		return p.allDelivered(len(ms))
	}
	// A record that is still away is not waited for: the others would wait with it, and
	// the caller gets its outcome when it publishes the message again.
	for i, f := range attached {
		if !final(f) {
			out[i] = p.unknown(f)
			continue
		}
		p.forget(ms[i].ID)
		out[i] = p.outcome(f.err)
		out[i].Partition, out[i].Partitions = f.partition, f.partitions
		if suspect(out[i].Class) {
			// It failed among others; it is sent anew when it is tried again.
			out[i] = relay.Outcome{Class: relay.Withheld}
		}
	}
	return out
}

// sort finds the messages whose earlier copy is remembered: a message with a final outcome needs no
// sending, a message without one is attached. New messages with a key on the partition of an attached one are
// withheld, because they would overtake it if it failed. A message that Check refuses is not sent either: the
// client would refuse it alone, and send later ones of its key.
//
// out is nil if nothing is known of any message yet.
func (p *Publisher) sort(ms []relay.Message) (send []int, attached map[int]*flight, out []relay.Outcome) {
	send = make([]int, 0, len(ms))
	var waiting map[string][]*flight // by topic, one for each partition
	if flights := p.flightsOf(ms); len(flights) > 0 {
		out = made(out, ms)
		attached, waiting = p.attach(ms, flights, out)
	}
	for i := range ms {
		m := &ms[i]
		switch {
		case out != nil && (out[i].Class != "" || attached[i] != nil):
		case len(waiting) > 0 && slices.ContainsFunc(waiting[m.Topic], func(f *flight) bool { return p.isOn(m, f) }):
			out[i] = relay.Outcome{Class: relay.Withheld}
		case m.Key == nil && m.Partition == nil && p.stuck.all(m.Topic):
			out = made(out, ms)
			out[i] = relay.Outcome{Class: relay.Infrastructure, Code: CodeUnknownOutcome,
				Message: "no partition of the topic answers" + p.last.suffix()}
		default:
			if o := p.Check(m, 0); o != nil {
				out = made(out, ms)
				out[i] = *o
			} else {
				send = append(send, i)
			}
		}
	}
	return send, attached, out
}

// made returns the outcomes of messages. They are allocated when the first outcome is known that is not just an
// acknowledgement.
func made(out []relay.Outcome, ms []relay.Message) []relay.Outcome {
	if out == nil {
		out = make([]relay.Outcome, len(ms))
	}
	return out
}

// allDelivered returns the outcomes of n messages that were delivered. All batches that were delivered share them.
func (p *Publisher) allDelivered(n int) []relay.Outcome {
	if shared := p.delivered.Load(); shared != nil && len(*shared) >= n {
		return (*shared)[:n:n]
	}
	out := make([]relay.Outcome, n)
	for i := range out {
		out[i].Class = relay.Delivered
	}
	p.delivered.Store(&out)
	return out
}

// attach takes the known outcomes of remembered flights. The flights without an outcome are attached; waiting has, by
// topic, one of them for each partition.
func (p *Publisher) attach(ms []relay.Message, flights map[int]*flight, out []relay.Outcome) (attached map[int]*flight,
	waiting map[string][]*flight) {
	attached, waiting = map[int]*flight{}, map[string][]*flight{}
	for i := range ms {
		f := flights[i]
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
	return attached, waiting
}

// isOn reports whether a message goes to the partition of a flight. A message without a key goes to any, unless its writer
// chose one.
func (p *Publisher) isOn(m *relay.Message, f *flight) bool {
	switch {
	case m.Partition != nil:
		return *m.Partition == f.partition
	case m.Key != nil:
		return p.Partition(m.Key, f.partitions) == f.partition
	}
	return false
}

// together reports whether two flights go to one partition.
func (f *flight) together(g *flight) bool {
	return f.partition == g.partition && f.partitions == g.partitions
}

// sendOn produces the chosen messages on a client that no other batch uses. It returns out with their outcomes; nil if it
// was nil and all were delivered.
func (p *Publisher) sendOn(ctx context.Context, s *Share, ms []relay.Message, send []int, out []relay.Outcome) []relay.Outcome {
	c, err := p.producer(ctx)
	if err != nil {
		out = made(out, ms)
		o := p.notSent(err)
		for _, i := range send {
			out[i] = o
		}
		return out
	}
	p.rested(ctx, c)
	if send, out = p.noSuchPartition(ctx, c, ms, send, out); len(send) == 0 {
		p.giveBack(c)
		return out
	}
	b := p.produce(ctx, c, ms, send)
	p.reseed(c) // it knows the brokers of these topics by now
	if out == nil && b.delivered() {
		p.release(s, c, b)
		return nil
	}
	out = made(out, ms)
	early := b.early
	if complete := p.read(b, ms, send, out); complete {
		b = p.alone(ctx, c, b, ms, send, out)
	} else {
		withholdSuspects(send, out)
	}
	p.release(s, c, b)
	p.refusedTopics(ctx, s, early, ms, send, out)
	return out
}

// producer takes a client that has a producer id; without one nothing can be sent. A client that was refused an id for good
// fails every record from then on, whatever the broker would say now, and one that waits for a silent broker goes on waiting,
// for 10 s, whatever ctx says: neither is used again.
func (p *Publisher) producer(ctx context.Context) (*kgo.Client, error) {
	c, err := p.take()
	if err != nil {
		return nil, err
	}
	p.introduce(ctx, c)
	if _, _, err = c.ProducerID(ctx); err == nil {
		return c, nil
	}
	var refused *kerr.Error
	if errors.As(err, &refused) || ctx.Err() != nil {
		p.retire(c)
	}
	p.giveBack(c)
	return nil, fmt.Errorf("no producer id: %w", err)
}

// release gives the client back, at once or when its last record has an outcome.
func (p *Publisher) release(s *Share, c *kgo.Client, b *batch) {
	select {
	case <-b.empty:
		p.giveBack(c)
	default:
		p.leave(s, c)
		go func() {
			<-b.empty
			p.answered(s, c)
			p.giveBack(c)
		}()
	}
}
