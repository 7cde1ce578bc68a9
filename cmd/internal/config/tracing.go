package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Tracing is the section tracing. What it does not say is taken from OpenTelemetry's own variables (OTEL_…), which the
// set-up reads as every other program does.
type Tracing struct {
	// Enabled sends spans to an OpenTelemetry collector: of events whose writers gave them the traceparent of a recorded
	// trace, and of batches. OTEL_SDK_DISABLED=true switches it off again. Defaults to false.
	Enabled bool `key:"enabled" default:"false" help:"send spans to an OpenTelemetry collector"`
	// Endpoint is where the collector takes OTLP over HTTP, such as http://otel:4318; /v1/traces is added where it has no
	// path. Without it OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT or http://localhost:4318 count.
	// Defaults to "".
	Endpoint string `key:"endpoint" default:"" check:"endpoint" help:"URL at which a collector takes OTLP over HTTP, such as http://otel:4318"`
	// Headers are sent along, name=value, separated by commas, with commas in values written as %2C; for keys that the
	// collector asks for. Defaults to "".
	Headers Secret `key:"headers" default:"" check:"headers" help:"headers for the collector, name=value, separated by commas"`
	// SamplePercent is of how many of the relay's own batches spans are made; those of events go with their writers'. What
	// somebody asked for always has its spans: an action of the outbox, a redrive, a replay. OTEL_TRACES_SAMPLER, where it
	// is set, counts instead of all this. Defaults to 1.
	SamplePercent int `key:"sample_percent" default:"1" min:"0" max:"100" help:"percentage of the relay's batches that are traced"`
	// ServiceName is the name under which spans are found. Without it OTEL_SERVICE_NAME, or postrider. Defaults to "".
	ServiceName string `key:"service_name" default:"" check:"optional" help:"name under which spans are found; empty is OTEL_SERVICE_NAME, or postrider"`
}

func checkEndpoint(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("it must be a URL such as http://otel:4318")
	case u.User != nil:
		return errors.New("it must have no login; give that as tracing.headers")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("it must end with its path")
	}
	return nil
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// HeaderMap is Headers by name. The error says which of them is wrong, and nothing of its value.
func (t Tracing) HeaderMap() (map[string]string, error) {
	if strings.TrimSpace(t.Headers.Reveal()) == "" {
		return nil, nil
	}
	all := map[string]string{}
	for i, pair := range strings.Split(t.Headers.Reveal(), ",") {
		name, value, cut := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !cut || !headerName.MatchString(name) || err != nil || strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("header %d is not name=value", i+1)
		}
		all[name] = value
	}
	return all, nil
}

func checkHeaders(text string) error {
	_, err := Tracing{Headers: Secret(text)}.HeaderMap()
	return err
}

// tracingWarnings are those of Warnings that are about spans that nobody gets.
func (c Config) tracingWarnings() []string {
	k, _ := named("tracing.endpoint")
	if c.Tracing.Enabled || c.Tracing.Endpoint == "" {
		return nil
	}
	return []string{fmt.Sprintf("%s is given (%s) and tracing.enabled is false: no spans are sent", k, c.origin(k))}
}
