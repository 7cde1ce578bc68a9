package relay

// modelBroker is a broker whose topics can be made to fail, and the log of what arrived.
type modelBroker struct {
	log   []logged
	state map[string]topicState
	// refuse says what becomes of a record that gets through to its topic: Delivered, Record or Permanent.
	refuse func(id int64) Class
}

type logged struct {
	topic string
	id    int64
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
	failed := map[string]bool{}
	var held []logged
	for i, r := range p.client {
		f := p.flights[r.id]
		switch {
		case !failed[r.topic] && i >= n:
			held = append(held, r)
		case !failed[r.topic] && p.broker.refuse(r.id) == Delivered:
			p.broker.log = append(p.broker.log, r)
			f.landed = true
		default:
			failed[r.topic] = true
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
	waiting := map[string]bool{}
	for i, n := range plan.events {
		e := &b.Events[n]
		switch f := p.flights[e.ID]; {
		case f == nil:
		case f.landed:
			delete(p.flights, e.ID)
			out[i] = Outcome{Class: Delivered}
		default:
			waiting[e.Topic] = true
			out[i] = Outcome{Class: Infrastructure, Code: "UNKNOWN"}
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
		case waiting[e.Topic], e.HasKey() && blocked[s]:
			out[i] = Outcome{Class: Withheld}
		default:
			out[i] = p.send(e.Topic, e.ID)
		}
		blocked[s] = blocked[s] || e.HasKey() && out[i].Class != Delivered
	}
	return out
}

func (p *modelProducer) send(topic string, id int64) Outcome {
	switch p.broker.state[topic] {
	case silent:
		p.flights[id] = &modelFlight{}
		p.client = append(p.client, logged{topic, id})
		return Outcome{Class: Infrastructure, Code: "UNKNOWN"}
	case away:
		return Outcome{Class: Infrastructure, Code: "AWAY"}
	case missing:
		return Outcome{Class: Route, Code: "MISSING"}
	}
	c := p.broker.refuse(id)
	if c == Delivered {
		p.broker.log = append(p.broker.log, logged{topic, id})
	}
	return Outcome{Class: c, Code: string(c)}
}
