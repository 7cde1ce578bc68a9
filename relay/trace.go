package relay

import (
	"strings"

	"github.com/postrider/postrider/relay/outbox"
)

// headerTraceparent is the header in which W3C Trace Context says which trace a message is of.
const headerTraceparent = "traceparent"

// traceOf returns the id of the trace that a message with these headers is of, 32 hexadecimal digits, and whether
// the trace is recorded anywhere. Without a header, or with one that the standard does not allow, it is empty.
func traceOf(hs []outbox.Header) (id string, sampled bool) {
	for i := range hs {
		if hs[i].Name == headerTraceparent {
			return parseTraceparent(string(hs[i].Value))
		}
	}
	return "", false
}

// parseTraceparent reads version-trace-parent-flags; versions to come may have more behind it.
func parseTraceparent(v string) (id string, sampled bool) {
	const version, trace, parent, flags = 2, 35, 52, 55
	if len(v) < flags || len(v) > flags && (v[flags] != '-' || v[:version] == "00") || v[:version] == "ff" {
		return "", false
	}
	if v[version] != '-' || v[trace] != '-' || v[parent] != '-' {
		return "", false
	}
	for i, c := range []byte(v[:flags]) {
		if dash := i == version || i == trace || i == parent; !dash && !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return "", false
		}
	}
	id = v[version+1 : trace]
	if strings.Trim(id, "0") == "" || strings.Trim(v[trace+1:parent], "0") == "" {
		return "", false
	}
	const oddDigits = "13579bdf" // of which the last bit is set
	return id, strings.IndexByte(oddDigits, v[flags-1]) >= 0
}

// sampledTrace returns a trace of the messages that is recorded, or nothing.
func sampledTrace(ms []Message) string {
	for i := range ms {
		if id, sampled := traceOf(ms[i].Headers); sampled {
			return id
		}
	}
	return ""
}

// traces returns the traces that the messages of a batch are of, by the ids of their events.
func (p *plan) traces() map[int64]string {
	out := map[int64]string{}
	for i := range p.messages {
		if id, _ := traceOf(p.messages[i].Headers); id != "" {
			out[p.batch.Events[p.events[i]].ID] = id
		}
	}
	return out
}
