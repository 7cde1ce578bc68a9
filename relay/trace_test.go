package relay

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/postrider/postrider/relay/outbox"
)

const (
	aTrace   = "0af7651916cd43dd8448eb211c80319c"
	recorded = "00-" + aTrace + "-b7ad6b7169203331-01"
)

func headersOf(traceparent string) []outbox.Header {
	return []outbox.Header{{Name: "other", Value: []byte("x")}, {Name: "traceparent", Value: []byte(traceparent)}}
}

func TestTraceOf(t *testing.T) {
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
		if id, sampled := traceOf(headersOf(value)); id != want.id || sampled != want.sampled {
			t.Errorf("%q: %q %v, want %+v", value, id, sampled, want)
		}
	}
	if id, _ := traceOf(nil); id != "" {
		t.Errorf("without headers: %q", id)
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add(recorded)
	f.Add("00-\xff")
	f.Fuzz(func(t *testing.T, value string) {
		if id, sampled := parseTraceparent(value); (id != "" && len(id) != 32) || (id == "" && sampled) {
			t.Errorf("%q: %q %v", value, id, sampled)
		}
	})
}

// The time of a batch that carries a recorded trace points to it; others have no exemplar.
func TestExemplar(t *testing.T) {
	t.Parallel()
	m := newMetrics(prometheus.NewRegistry())
	m.published(1, []Message{{}, {Headers: headersOf("00-" + aTrace + "-b7ad6b7169203331-00")}})
	if got := exemplars(t, m); len(got) != 0 {
		t.Errorf("exemplars of what is not recorded: %v", got)
	}
	m.published(1, []Message{{}, {Headers: headersOf(recorded)}})
	if got := exemplars(t, m); len(got) != 1 || got[0] != aTrace {
		t.Errorf("exemplars %v, want %s", got, aTrace)
	}
}

func exemplars(t *testing.T, m *metrics) (out []string) {
	t.Helper()
	var family dto.Metric
	if err := m.publishSeconds.Write(&family); err != nil {
		t.Fatal(err)
	}
	for _, b := range family.GetHistogram().GetBucket() {
		if e := b.GetExemplar(); e != nil {
			out = append(out, e.GetLabel()[0].GetValue())
		}
	}
	return out
}
