package relay

import "github.com/postrider/postrider/relay/tracecontext"

// sampledTrace returns a trace of the messages that is recorded, or nothing.
func sampledTrace(ms []Message) string {
	for i := range ms {
		if sc := tracecontext.Of(ms[i].Headers); sc.IsSampled() {
			return sc.TraceID().String()
		}
	}
	return ""
}

// traces returns the traces that the messages of a batch are of, by the ids of their events.
func (p *plan) traces() map[int64]string {
	out := map[int64]string{}
	for i := range p.messages {
		if id := tracecontext.ID(p.messages[i].Headers); id != "" {
			out[p.batch.Events[p.events[i]].ID] = id
		}
	}
	return out
}
