package tracing

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/postrider/postrider/internal/tracecontext"
)

// sampler records each action that a caller asked for; for all other spans another sampler decides. The batches of a relay
// are many and much the same. A person who looks for a trace mostly looks for an action that was called.
type sampler struct{ sdktrace.Sampler }

// newSampler samples percent of the traces that begin here. A trace that began elsewhere goes on as it began.
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
