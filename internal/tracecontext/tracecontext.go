// Package tracecontext carries W3C Trace Context (https://www.w3.org/TR/trace-context/) in the headers of messages, and
// has the names that spans about messages use.
package tracecontext

import (
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/message"
)

const (
	// Header says which span a message comes from: version-trace-span-flags.
	Header = "traceparent"
	// HeaderState is what tracing systems add to it.
	HeaderState = "tracestate"
	// HeaderReplay is on a redriven message: the value that Header had on the message that was given up. A redrive is
	// a trace of its own, linked to that one. It is not reserved, because the outbox writes it as a header of a row.
	HeaderReplay = "replay_traceparent"
)

// maxState is the longest tracestate that is read, in bytes; the standard's 32 members are far below.
const maxState = 8 << 10

// Of returns the span that a message with these headers comes from. It is not valid where the header is missing, is not
// as the standard has it, or is there more than once. It allocates nothing, unless the trace is recorded and has a
// tracestate.
func Of(hs []message.Header) trace.SpanContext { return read(hs, Header) }

// Replayed returns the span that the message came from whose redrive these headers are of; not valid where they are of
// none.
func Replayed(hs []message.Header) trace.SpanContext { return read(hs, HeaderReplay) }

func read(hs []message.Header, name string) trace.SpanContext {
	at := find(hs, name)
	if at < 0 || find(hs[at+1:], name) >= 0 {
		return trace.SpanContext{}
	}
	sc := parse(hs[at].Value)
	if name != Header || !sc.IsSampled() {
		return sc
	}
	if at = find(hs, HeaderState); at >= 0 && len(hs[at].Value) <= maxState {
		if state, err := trace.ParseTraceState(string(hs[at].Value)); err == nil {
			sc = sc.WithTraceState(state)
		}
	}
	return sc
}

func find(hs []message.Header, name string) int {
	for i := range hs {
		if hs[i].Name == name {
			return i
		}
	}
	return -1
}

// Places in a traceparent of version 00; versions to come may have more behind it.
const (
	atTrace = 3
	atSpan  = 36
	atFlags = 53
	length  = 55
)

func parse(v []byte) trace.SpanContext {
	if len(v) < length || v[atTrace-1] != '-' || v[atSpan-1] != '-' || v[atFlags-1] != '-' {
		return trace.SpanContext{}
	}
	var version, flags [1]byte
	var traceID trace.TraceID
	var spanID trace.SpanID
	if !decode(version[:], v[:atTrace-1]) || !decode(traceID[:], v[atTrace:atSpan-1]) ||
		!decode(spanID[:], v[atSpan:atFlags-1]) || !decode(flags[:], v[atFlags:length]) {
		return trace.SpanContext{}
	}
	if version[0] == 0xff || len(v) > length && (version[0] == 0 || v[length] != '-') {
		return trace.SpanContext{}
	}
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]) & trace.FlagsSampled, Remote: true})
	if !sc.IsValid() { // zeros
		return trace.SpanContext{}
	}
	return sc
}

// decode reads digits as the standard has them, in small letters.
func decode(to, digits []byte) bool {
	for _, c := range digits {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	_, err := hex.Decode(to, digits)
	return err == nil
}

// With returns the headers of a message that comes from the given span: a copy, with the traceparent in its place, or
// at the end where there was none. A traceparent in its place never makes a message larger, and a tracestate stays. If
// the span is not recorded, the headers are returned as they are, because no trace leads to it; also if their
// traceparent cannot be read, because then it is none of ours.
func With(hs []message.Header, sc trace.SpanContext) []message.Header {
	at := find(hs, Header)
	if !sc.IsSampled() || at >= 0 && !Of(hs).IsValid() {
		return hs
	}
	out := make([]message.Header, len(hs), len(hs)+1)
	copy(out, hs)
	h := message.Header{Name: Header, Value: Format(sc)}
	if at >= 0 {
		out[at] = h
	} else {
		out = append(out, h)
	}
	return out
}

// Format writes a span as a traceparent.
func Format(sc trace.SpanContext) []byte {
	var b strings.Builder
	b.Grow(length)
	b.WriteString("00-")
	b.WriteString(sc.TraceID().String())
	b.WriteByte('-')
	b.WriteString(sc.SpanID().String())
	b.WriteByte('-')
	b.WriteString((sc.TraceFlags() & trace.FlagsSampled).String())
	return []byte(b.String())
}

// ID is the id of the trace that a message with these headers is of, 32 hexadecimal digits; empty where Of is not valid.
func ID(hs []message.Header) string {
	sc := Of(hs)
	if !sc.IsValid() {
		return ""
	}
	return sc.TraceID().String()
}
