package tracecontext

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/message"
)

const (
	aTrace   = "0af7651916cd43dd8448eb211c80319c"
	recorded = "00-" + aTrace + "-b7ad6b7169203331-01"
)

func headers(pairs ...string) (hs []message.Header) {
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, message.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
	}
	return hs
}

func TestOf(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]struct {
		id      string
		sampled bool
	}{
		recorded:                                                       {aTrace, true},
		"00-" + aTrace + "-b7ad6b7169203331-00":                        {aTrace, false},
		"00-" + aTrace + "-b7ad6b7169203331-03":                        {aTrace, true},
		"cc-" + aTrace + "-b7ad6b7169203331-01-more":                   {aTrace, true},
		"cc-" + aTrace + "-b7ad6b7169203331-01.more":                   {},
		"00-" + aTrace + "-b7ad6b7169203331-01-more":                   {},
		"ff-" + aTrace + "-b7ad6b7169203331-01":                        {},
		"00-" + "00000000000000000000000000000000-b7ad6b7169203331-01": {},
		"00-" + aTrace + "-0000000000000000-01":                        {},
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01":      {},
		"00_" + aTrace + "-b7ad6b7169203331-01":                        {},
		"":                                                             {}, "00": {}, "x": {},
	} {
		sc := Of(headers("other", "x", Header, value))
		if sc.IsValid() != (want.id != "") || sc.IsSampled() != want.sampled || ID(headers(Header, value)) != want.id {
			t.Errorf("%q: %+v, want %+v", value, sc, want)
		}
		if sc.IsValid() && !sc.IsRemote() {
			t.Errorf("%q is not remote", value)
		}
	}
	if Of(nil).IsValid() {
		t.Error("without headers there is a trace")
	}
	if Of(headers(Header, recorded, Header, recorded)).IsValid() {
		t.Error("two traceparents are taken for one")
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	if got := Of(headers(HeaderState, "vendor=a,other=b", Header, recorded)).TraceState().String(); got != "vendor=a,other=b" {
		t.Errorf("tracestate %q", got)
	}
	for _, bad := range []string{"", "=", strings.Repeat("a=b,", maxState), "\xff"} {
		sc := Of(headers(HeaderState, bad, Header, recorded))
		if !sc.IsSampled() || sc.TraceState().Len() != 0 {
			t.Errorf("tracestate %.20q: %v", bad, sc)
		}
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	const want = "00-01000000000000000000000000000000-0200000000000000-01"
	given := headers("a", "1", Header, recorded, HeaderState, "x=y", "b", "2")
	got := With(given, span)
	if string(got[1].Value) != want || string(given[1].Value) != recorded {
		t.Errorf("the traceparent is %q, that of the given headers %q", got[1].Value, given[1].Value)
	}
	got[1] = given[1]
	if !equal(got, given) {
		t.Errorf("other headers changed: %q", got)
	}
	if got := With(headers("a", "1"), span); len(got) != 2 || string(got[1].Value) != want {
		t.Errorf("a new traceparent: %q", got)
	}
	if got := With(given, span.WithTraceFlags(0)); !equal(got, given) {
		t.Errorf("a span that is not recorded changed the headers: %q", got)
	}
	for _, hostile := range [][]message.Header{
		headers(Header, "x"), headers(Header, ""), headers(Header, recorded, Header, recorded), headers(Header, strings.Repeat("0", 1<<20)),
	} {
		if got := With(hostile, span); !equal(got, hostile) {
			t.Errorf("hostile headers changed: %.100q", got)
		}
	}
}

func equal(a, b []message.Header) bool {
	return slices.EqualFunc(a, b, func(a, b message.Header) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) })
}

// A valid traceparent can be written and read again; nothing else is changed or breaks anything.
func FuzzTraceparent(f *testing.F) {
	f.Add([]byte(recorded), []byte("a=b"))
	f.Add([]byte("00-\xff"), []byte{})
	f.Fuzz(func(t *testing.T, value, state []byte) {
		hs := []message.Header{{Name: HeaderState, Value: state}, {Name: Header, Value: value}}
		sc := Of(hs)
		if sc.IsSampled() && !sc.IsValid() || (ID(hs) == "") == sc.IsValid() {
			t.Fatalf("%q: %+v", value, sc)
		}
		out := With(hs, sc)
		switch {
		case !sc.IsSampled():
			if !equal(out, hs) {
				t.Fatalf("%q became %q", value, out[1].Value)
			}
		case len(out[1].Value) > len(value):
			t.Fatalf("%q became longer: %q", value, out[1].Value)
		case !Of(out).Equal(sc):
			t.Fatalf("%q became %q", value, out[1].Value)
		}
	})
}

// Looking for a trace costs no memory, whatever is found, unless it is recorded and has a state.
func TestOfAllocatesNothing(t *testing.T) {
	for name, hs := range map[string][]message.Header{
		"none": headers("a", "1", "b", "2"), "recorded": headers("a", "1", Header, recorded),
		"not recorded, with a state": headers(Header, recorded[:len(recorded)-1]+"0", HeaderState, "a=b"),
		"hostile":                    headers(Header, strings.Repeat("f", 1<<16), Header, recorded),
	} {
		if n := testing.AllocsPerRun(100, func() { Of(hs) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	if got := Text("a\xffb" + strings.Repeat("x", MaxText)); !strings.HasPrefix(got, "a\uFFFDb") || len(got) > MaxText+2 {
		t.Errorf("%q", got)
	}
}
