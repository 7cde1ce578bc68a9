package dlq

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// DefaultStopTimeout is the default of Config.StopTimeout.
const DefaultStopTimeout = 5 * time.Second

// Config is what a Collector needs.
type Config struct {
	// Source is where dead letters are read. The collector owns it: Run closes it. Required.
	Source Source
	// Letters is where they are recorded. Required.
	Letters Letters
	// Custom names the headers of dead letters that a program of the user's own writes. Defaults to none.
	Custom CustomHeaders
	// Whose tells whose each record is. Defaults to the word of each record.
	Whose Whose
	// Originals reads the records that letters without key and value point to. Defaults to nil: they stay without.
	Originals Originals
	// OriginalsTimeout is how long the letters of one poll may wait for them. Defaults to 3s.
	OriginalsTimeout time.Duration
	// Logger receives what an operator should know. Defaults to no logging.
	Logger *slog.Logger
	// Registerer receives the metrics postrider_collector_*; a registry takes the metrics of one collector. Defaults to
	// none, the metrics are then not exported.
	Registerer prometheus.Registerer
	// TracerProvider receives a span dlq.open for each letter of a trace that is recorded. Defaults to none.
	TracerProvider trace.TracerProvider
	// StopTimeout is how long Run goes on, after its context has ended, to store and commit the letters in hand; letters
	// that are not committed by then are read again by the next collector. Defaults to 5s.
	StopTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OriginalsTimeout == 0 {
		c.OriginalsTimeout = DefaultOriginalsTimeout
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = DefaultStopTimeout
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Source == nil:
		return errors.New("collector: Source is required")
	case c.Letters == nil:
		return errors.New("collector: Letters is required")
	case c.Custom.Check() != nil:
		return fmt.Errorf("collector: Custom: %w", c.Custom.Check())
	case c.OriginalsTimeout < 0:
		return errors.New("collector: OriginalsTimeout is negative")
	case c.StopTimeout < 0:
		return errors.New("collector: StopTimeout is negative")
	}
	return nil
}
