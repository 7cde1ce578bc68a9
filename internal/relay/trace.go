package relay

import "github.com/postrider/postrider/internal/tracecontext"

// sampledTrace returns a trace of the messages that is recorded, or nothing.
func sampledTrace(ms []Message) string {
	for i := range ms {
		if sc := tracecontext.Of(ms[i].Headers); sc.IsSampled() {
			return sc.TraceID().String()
		}
	}
	return ""
}
