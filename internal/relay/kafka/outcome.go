package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
)

// read takes the outcomes of a batch. A record without one stays in the client, as a flight. It reports
// whether the client is empty.
func (p *Publisher) read(b *batch, ms []relay.Message, send []int, out []relay.Outcome) (complete bool) {
	complete = b.complete()
	headers := b.headers
	for n, i := range send {
		at, own := &b.refs[n], headers[:len(ms[i].Headers)]
		headers = headers[len(own):]
		if err := b.early[ms[i].Topic]; err != nil {
			out[i] = p.notSent(err)
		} else if f := p.late(b, n); f != nil {
			p.remember(ms[i].ID, f)
			out[i] = p.unknown(f)
		} else {
			out[i] = p.outcome(at.err)
			out[i].Partition, out[i].Partitions = at.partition, at.partitions
			if !ms[i].Timestamp.IsZero() && errors.Is(at.err, kerr.InvalidTimestamp) {
				out[i].Class = relay.Permanent // no clock is wrong: the writer chose it
			}
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
	at := &b.refs[n]
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
		// A message that is given up does not let the next ones of its key pass either: the caller does, once it has
		// committed that.
		if ms[i].Key != nil && out[i].Class != relay.Delivered {
			blocked[name] = true
		}
	}
	return b
}

// refusedTopics gives up the messages for topics that the broker refuses for good when they are looked up. It asks once
// more, with the first message of each alone and with another client: in this one the topic would begin with the sequence
// numbers that it had before, and the broker would take new records for copies.
func (p *Publisher) refusedTopics(ctx context.Context, s *Share, early map[string]error, ms []relay.Message, send []int, out []relay.Outcome) {
	for topic, err := range early {
		if !errors.Is(err, kerr.InvalidTopicException) || ctx.Err() != nil {
			continue
		}
		first, refused, blocked := true, false, map[string]bool{}
		for _, i := range send {
			switch {
			case ms[i].Topic != topic:
				continue
			case first:
				refused = p.refusedAgain(ctx, s, ms, i, out)
			case !refused || ms[i].Key != nil && blocked[string(ms[i].Key)]:
				out[i] = relay.Outcome{Class: relay.Withheld}
				continue
			}
			first = false
			if refused {
				out[i] = p.outcome(err)
				blocked[string(ms[i].Key)] = true
			}
		}
	}
}

// refusedAgain sends one message alone with another client, and reports whether its topic is refused for good.
func (p *Publisher) refusedAgain(ctx context.Context, s *Share, ms []relay.Message, i int, out []relay.Outcome) bool {
	c, err := p.producer(ctx)
	if err != nil {
		out[i] = p.notSent(err)
		return false
	}
	b := p.produce(ctx, c, ms, []int{i})
	p.read(b, ms, []int{i}, out)
	p.release(s, c, b)
	return errors.Is(b.early[ms[i].Topic], kerr.InvalidTopicException)
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
