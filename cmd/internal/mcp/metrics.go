package mcp

import (
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// Outcomes of calls, as metrics name them.
const (
	outcomeDone = "done"
	// outcomeRefused: the caller has no right to it, asked for a thing that is not there, for too much, or too often.
	outcomeRefused = "refused"
	// outcomeFailed: the database, the brokers or the time did not suffice.
	outcomeFailed = "failed"
)

// metrics count calls by tool; there are as many tools as are registered.
type metrics struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// newMetrics registers them; reg may be nil.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_mcp_calls_total",
			Help: "Calls of agents by tool, and by what became of them: done, refused (no right, not there, too often) or failed (the database or the brokers, or the time was up)."},
			[]string{"tool", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "postrider_mcp_call_seconds",
			Help: "Time of calls of agents, by tool.", Buckets: prometheus.ExponentialBuckets(0.005, 3, 10)}, []string{"tool"}),
	}
	if reg == nil {
		return m, nil
	}
	return m, errors.Join(reg.Register(m.calls), reg.Register(m.seconds))
}

// know makes the series of a tool exist from the start.
func (m *metrics) know(tool string) {
	for _, outcome := range []string{outcomeDone, outcomeRefused, outcomeFailed} {
		m.calls.WithLabelValues(tool, outcome)
	}
	m.seconds.WithLabelValues(tool)
}

// called counts a call; told is the error that the client is told, and result may say that it failed midway.
func (m *metrics) called(tool string, took time.Duration, told error, result *sdk.CallToolResult) {
	outcome := outcomeDone
	var e *httpapi.Error
	switch {
	case told == nil && (result == nil || !result.IsError):
	case errors.As(told, &e) && e.Code != httpapi.Internal && e.Code != httpapi.Unavailable:
		outcome = outcomeRefused
	default:
		outcome = outcomeFailed
	}
	m.calls.WithLabelValues(tool, outcome).Inc()
	m.seconds.WithLabelValues(tool).Observe(took.Seconds())
}
