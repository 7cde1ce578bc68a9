package relay

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/postrider/postrider/message"
)

const (
	aTrace   = "0af7651916cd43dd8448eb211c80319c"
	recorded = "00-" + aTrace + "-b7ad6b7169203331-01"
)

func headersOf(traceparent string) []message.Header {
	return []message.Header{{Name: "other", Value: []byte("x")}, {Name: "traceparent", Value: []byte(traceparent)}}
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
