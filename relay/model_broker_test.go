package relay

import "github.com/postrider/postrider/relay/outbox"

// modelBroker is a broker whose topics can be made to fail, and the log of what arrived.
type modelBroker struct {
	log   []logged
	state map[string]topicState
	// parts are the states of single partitions.
	parts map[partitionName]topicState
	// refuse says what becomes of a record that gets through to its topic: Delivered, Record or Permanent.
	refuse func(id int64) Class
}

// modelPartitions is how many partitions each topic has.
const modelPartitions = 2

type partitionName struct {
	topic string
	n     int32
}

// partitionOfEvent is where an event goes; without a key, anywhere.
func partitionOfEvent(e *outbox.Event) partitionName {
	if !e.HasKey() {
		return partitionName{e.Topic, int32(e.ID % modelPartitions)}
	}
	return partitionName{e.Topic, partitionOf(e.Key, modelPartitions)}
}

type logged struct {
	at partitionName
	id int64
}

type topicState int

const (
	up      topicState = iota
	silent             // records may or may not arrive, and nobody says
	away               // nothing is sent
	missing            // nothing is sent, by the topic's fault
)

// modelProducer is one process's publisher. It remembers the messages whose outcome is not known, as
// relay.Publisher demands: their records are still with the client, in order.
type modelProducer struct {
	broker  *modelBroker
	flights map[int64]*modelFlight
	client  []logged // not yet landed
}

type modelFlight struct{ landed bool }

func newModelProducer(b *modelBroker) *modelProducer {
	return &modelProducer{broker: b, flights: map[int64]*modelFlight{}}
}

// land lets the first n records that the client still holds arrive. One that is refused fails the rest
// of its topic with it, as the client does; they are sent anew when they are claimed again.
func (p *modelProducer) land(n int) {
	failed := map[partitionName]bool{}
	var held []logged
	for i, r := range p.client {
		f := p.flights[r.id]
		switch {
		case !failed[r.at] && i >= n:
			held = append(held, r)
		case !failed[r.at] && p.broker.refuse(r.id) == Delivered:
			p.broker.log = append(p.broker.log, r)
			f.landed = true
		default:
			failed[r.at] = true
			delete(p.flights, r.id)
		}
	}
	p.client = held
}

func (p *modelProducer) remember(ids []int64) {
	for _, id := range ids {
		p.flights[id] = &modelFlight{landed: true}
	}
}

// publish gives one outcome per message, in the way that relay.Publisher promises.
func (p *modelProducer) publish(b *Batch, plan *plan) []Outcome {
	out := make([]Outcome, len(plan.messages))
	waiting := map[partitionName]bool{}
	for i, n := range plan.events {
		e := &b.Events[n]
		switch f := p.flights[e.ID]; {
		case f == nil:
		case f.landed:
			delete(p.flights, e.ID)
			out[i] = Outcome{Class: Delivered}
		default:
			at := partitionOfEvent(e)
			waiting[at] = true
			out[i] = Outcome{Class: Infrastructure, Code: "UNKNOWN", Partition: at.n, Partitions: modelPartitions}
		}
	}
	blocked := map[subject]bool{}
	for i, n := range plan.events {
		e := &b.Events[n]
		if out[i].Class != "" {
			continue
		}
		s := keySubject(e.Topic, e.Key)
		switch {
		case e.HasKey() && waiting[partitionOfEvent(e)], e.HasKey() && blocked[s]:
			out[i] = Outcome{Class: Withheld}
		default:
			out[i] = p.send(partitionOfEvent(e), e.ID)
		}
		blocked[s] = blocked[s] || e.HasKey() && out[i].Class != Delivered
	}
	return out
}

func (p *modelProducer) send(at partitionName, id int64) Outcome {
	state := p.broker.state[at.topic]
	if state == up {
		state = p.broker.parts[at]
	}
	switch state {
	case silent:
		p.flights[id] = &modelFlight{}
		p.client = append(p.client, logged{at, id})
		return Outcome{Class: Infrastructure, Code: "UNKNOWN", Partition: at.n, Partitions: modelPartitions}
	case away:
		if p.broker.state[at.topic] == up {
			return Outcome{Class: Infrastructure, Code: "AWAY", Partition: at.n, Partitions: modelPartitions}
		}
		return Outcome{Class: Infrastructure, Code: "AWAY"}
	case missing:
		return Outcome{Class: Route, Code: "MISSING"}
	}
	c := p.broker.refuse(id)
	if c == Delivered {
		p.broker.log = append(p.broker.log, logged{at, id})
	}
	return Outcome{Class: c, Code: string(c)}
}
