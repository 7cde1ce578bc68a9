// Package tracing sets OpenTelemetry up for the binary: spans go through a bounded queue to a collector that takes OTLP
// over HTTP. Nothing that goes wrong on the way disturbs anything else; it is logged and counted. [Statements] and
// [KafkaRecords] add what the clients of PostgreSQL and Kafka do to traces that are recorded.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/cmd/internal/config"
)

// defaultEndpoint is where spans go when neither the settings nor OTEL_EXPORTER_OTLP_ENDPOINT say it.
const defaultEndpoint = "http://localhost:4318"

// Options are what the settings do not say.
type Options struct {
	// Version is that of the binary. Defaults to none.
	Version string
	// Logger is told of spans that were not exported. Required.
	Logger *slog.Logger
	// Registerer receives the metric about exported spans, where tracing is on. Defaults to none.
	Registerer prometheus.Registerer
}

// Tracing is where spans go. A nil one makes none.
type Tracing struct {
	provider *sdktrace.TracerProvider
	log      *slog.Logger
}

// New sets tracing up, and returns nil where it is off. It connects to nothing: a collector that is away costs only the
// spans. It fails on settings and variables that contradict each other.
func New(ctx context.Context, c config.Tracing, o Options) (*Tracing, error) {
	if !c.Enabled || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	options, err := exporterOptions(c)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	log := o.Logger.With("component", "tracing")
	otlp, err := newExporter(ctx, c, func(ctx context.Context, headers map[string]string) (sdktrace.SpanExporter, error) {
		with := slices.Clip(options)
		if headers != nil {
			with = append(with, otlptracehttp.WithHeaders(headers))
		}
		return otlptracehttp.New(ctx, with...)
	}, log, o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	described, err := describe(ctx, c, o.Version)
	if err != nil {
		return nil, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// The queue has the SDK's bounds, or the bounds in OTEL_BSP_…. A span that does not fit is dropped, and no caller waits.
	providerOptions := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(otlp), sdktrace.WithResource(described)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		providerOptions = append(providerOptions, sdktrace.WithSampler(newSampler(c.SamplePercent)))
	}
	return &Tracing{sdktrace.NewTracerProvider(providerOptions...), log}, nil
}

// Provider is what makes tracers; nil where tracing is off.
func (t *Tracing) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Stop exports the spans in the queue, for as long as ctx lasts. Spans left then are lost, and only the log says so.
func (t *Tracing) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("some spans were not exported before the stop", "err", err)
	}
	return nil
}

func exporterOptions(c config.Tracing) ([]otlptracehttp.Option, error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" && p != "http/protobuf" {
			return nil, fmt.Errorf("the environment variable %s is %q; only http/protobuf is there: give the collector's port for OTLP over HTTP, mostly 4318, and unset the variable", name, p)
		}
	}
	var options []otlptracehttp.Option
	endpoint := c.Endpoint
	if endpoint == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
		endpoint = defaultEndpoint
	}
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil {
			return nil, errors.New("tracing.endpoint is no URL")
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/v1/traces"
		}
		options = append(options, otlptracehttp.WithEndpointURL(u.String()))
	}
	return options, nil
}

// describe says whose spans they are.
func describe(ctx context.Context, c config.Tracing, version string) (*resource.Resource, error) {
	own := []attribute.KeyValue{attribute.String("service.name", "postrider")}
	if version != "" {
		own = append(own, attribute.String("service.version", version))
	}
	options := []resource.Option{resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(own...), resource.WithFromEnv()}
	if c.ServiceName != "" {
		options = append(options, resource.WithAttributes(attribute.String("service.name", c.ServiceName)))
	}
	return resource.New(ctx, options...)
}
