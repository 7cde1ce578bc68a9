package tracing

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/postrider/postrider/relay/tracecontext"
)

// sampler records what somebody asked for, and of the rest what another sampler says. Batches of a relay are many and much
// the same; an action that somebody called is the one that they look for.
type sampler struct{ sdktrace.Sampler }

// newSampler samples traces that begin here, percent of them; those of others go on as they began.
func newSampler(percent int) sdktrace.Sampler {
	return sdktrace.ParentBased(sampler{sdktrace.TraceIDRatioBased(float64(percent) / 100)})
}

// ShouldSample implements sdktrace.Sampler.
func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if tracecontext.Asked(p.Name) {
		return sdktrace.AlwaysSample().ShouldSample(p)
	}
	return s.Sampler.ShouldSample(p)
}

// Description implements sdktrace.Sampler.
func (s sampler) Description() string { return "Asked{" + s.Sampler.Description() + "}" }
