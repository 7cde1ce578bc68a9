package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// modelBroker is a broker whose topics and partitions can be made to fail, and the log of what arrived.
type modelBroker struct {
	mu     sync.Mutex
	log    []logged
	topics map[string]topicState
	parts  map[partitionName]topicState
	none   bool // no broker answers
	// fails is how often an event is refused before it is accepted; negative is for ever.
	fails map[int64]int
}

// modelPartitions is how many partitions each topic has.
const modelPartitions = 2

type partitionName struct {
	topic string
	n     int32
}

type logged struct {
	at  partitionName
	id  int64
	key string // with the topic; empty for none
}

type topicState int

const (
	up      topicState = iota
	silent             // records may or may not arrive, and no answer comes
	away               // nothing is sent
	missing            // nothing is sent, by the topic's fault
)

func newModelBroker() *modelBroker {
	return &modelBroker{topics: map[string]topicState{}, parts: map[partitionName]topicState{}, fails: map[int64]int{}}
}

func (b *modelBroker) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// accept gives a record to the log, unless it is refused.
func (b *modelBroker) accept(r logged) Class {
	switch n := b.fails[r.id]; {
	case n < 0:
		return Permanent
	case n > 0:
		b.fails[r.id]--
		return Record
	}
	b.log = append(b.log, r)
	return Delivered
}

// modelProducer is one process's publisher. It remembers the messages whose outcome is not known, as Publisher demands:
// their records are still with the client, in order.
type modelProducer struct {
	*modelBroker
	flights map[MessageID]bool // landed
	client  []modelRecord      // not yet landed
	dead    bool
	took    time.Duration // each publish
}

type modelRecord struct {
	logged
	id MessageID
}

func (b *modelBroker) producer() *modelProducer {
	return &modelProducer{modelBroker: b, flights: map[MessageID]bool{}, took: time.Millisecond}
}

func recordOf(m *Message) modelRecord {
	r := modelRecord{id: m.ID, logged: logged{id: int64(m.ID.EventID[14])<<8 | int64(m.ID.EventID[15]), at: partitionName{topic: m.Topic}}}
	if m.Key == nil {
		r.at.n = int32(r.logged.id % modelPartitions)
	} else {
		r.at.n, r.key = partitionOf(m.Key, modelPartitions), m.Topic+"/"+string(m.Key)
	}
	return r
}

// land lets the first n records that the client still holds arrive. A record that is refused fails the rest of its partition
// with it, as the client does; these records are sent anew when they come again.
func (p *modelProducer) land(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	failed := map[partitionName]bool{}
	var held []modelRecord
	for i, r := range p.client {
		switch {
		case !failed[r.at] && i >= n:
			held = append(held, r)
		case !failed[r.at] && p.accept(r.logged) == Delivered:
			p.flights[r.id] = true
		default:
			failed[r.at] = true
			delete(p.flights, r.id)
		}
	}
	p.client = held
}

// Remember implements Publisher.
func (p *modelProducer) Remember(ms []Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ms {
		p.flights[ms[i].ID] = true
	}
}

// Check and Partition implement Publisher.
func (p *modelProducer) Check(*Message, int) *Outcome        { return nil }
func (p *modelProducer) Partition(key []byte, n int32) int32 { return partitionOf(key, n) }
func (p *modelProducer) unknown(at partitionName, c string) Outcome {
	return Outcome{Class: Infrastructure, Code: c, Partition: at.n, Partitions: modelPartitions}
}

// Ping implements Publisher.
func (p *modelProducer) Ping(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.none || p.dead {
		return errTest
	}
	return nil
}

// Publish implements Publisher: the records are handed over in order, and their answers come a little later.
func (p *modelProducer) Publish(ctx context.Context, ms []Message) []Outcome {
	_ = loop.Sleep(ctx, p.took)
	p.mu.Lock()
	out := make([]Outcome, len(ms))
	waiting, blocked := map[partitionName]bool{}, map[string]bool{}
	for _, r := range p.client {
		waiting[r.at] = true
	}
	for i := range ms {
		r := recordOf(&ms[i])
		landed, known := p.flights[r.id]
		switch {
		case ms[i].ID.Letter && !p.dead:
			out[i] = Outcome{Class: Delivered}
		case p.dead:
			out[i] = p.unknown(r.at, "DEAD")
		case known && landed:
			delete(p.flights, r.id)
			out[i] = Outcome{Class: Delivered}
		case known:
			out[i] = p.unknown(r.at, "UNKNOWN")
		case r.key != "" && (waiting[r.at] || blocked[r.key]):
			out[i] = Outcome{Class: Withheld}
		default:
			out[i] = p.send(r)
		}
		blocked[r.key] = blocked[r.key] || out[i].Class != Delivered
	}
	p.mu.Unlock()
	_ = loop.Sleep(ctx, p.took)
	return out
}

func (p *modelProducer) send(r modelRecord) Outcome {
	state := p.topics[r.at.topic]
	whole := state != up || p.none
	if state == up {
		state = p.parts[r.at]
	}
	if p.none {
		state = away
	}
	switch state {
	case silent:
		p.flights[r.id] = false
		p.client = append(p.client, r)
		return p.unknown(r.at, "UNKNOWN")
	case away:
		if whole {
			return Outcome{Class: Infrastructure, Code: "AWAY"}
		}
		return p.unknown(r.at, "AWAY")
	case missing:
		return Outcome{Class: Route, Code: "MISSING"}
	}
	c := p.accept(r.logged)
	return Outcome{Class: c, Code: string(c)}
}

// die ends the process: some of what its client held arrives, and nothing of it is heard any more.
func (p *modelProducer) die(arrives int) {
	p.land(arrives)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead, p.client = true, nil
}

// arrived is the log so far.
func (b *modelBroker) arrived() []logged {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.log)
}
