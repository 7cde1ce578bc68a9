package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/relay"
)

// read takes the outcomes of a batch. A record without one stays in the client, as a flight. It reports
// whether the client is empty.
func (p *Publisher) read(b *batch, ms []relay.Message, send []int, out []relay.Outcome) (complete bool) {
	complete = b.complete()
	headers := b.headers
	for n, i := range send {
		at, own := &b.places[n], headers[:len(ms[i].Headers)]
		headers = headers[len(own):]
		if err := b.early[ms[i].Topic]; err != nil {
			out[i] = p.notSent(err)
		} else if f := p.late(b, n); f != nil {
			p.remember(ms[i].ID, f)
			out[i] = p.unknown(f)
		} else {
			out[i] = p.outcome(at.err)
			out[i].Partition, out[i].Partitions = at.partition, at.partitions
			if !complete {
				strip(&b.records[n])
				clear(own)
			}
		}
	}
	return complete
}

// late makes the flight of a record that has no outcome yet.
func (p *Publisher) late(b *batch, n int) *flight {
	at := &b.places[n]
	if at.answer.Load() != nil {
		return nil
	}
	f := &flight{done: make(chan struct{}), topic: b.records[n].Topic, partition: at.partition, partitions: at.partitions}
	p.stuck.add(f.topic, f.partition, f.partitions) // before its answer can take it away
	if !at.answer.CompareAndSwap(nil, f) {
		p.stuck.remove(f.topic, f.partition)
		return nil
	}
	return f
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
