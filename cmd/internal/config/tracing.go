package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Tracing is the section tracing. Values that it does not give are taken from OpenTelemetry's own variables (OTEL_…), which
// the set-up reads as every other program does.
type Tracing struct {
	// Enabled sends spans to an OpenTelemetry collector: of events whose writers gave them the traceparent of a recorded
	// trace, of batches, of actions of the outbox, redrives and replays. OTEL_SDK_DISABLED=true switches it off again. Defaults to false.
	Enabled bool `key:"enabled" default:"false" help:"send spans to an OpenTelemetry collector"`
	// Endpoint is where the collector takes OTLP over HTTP, for example http://otel:4318; /v1/traces is added where it has
	// no path. Without it OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT or http://localhost:4318 count.
	// Defaults to "".
	Endpoint string `key:"endpoint" default:"" check:"endpoint" help:"URL at which a collector takes OTLP over HTTP, such as http://otel:4318"`
	// Headers are sent along, name=value, separated by commas, with commas in values written as %2C; for keys that the
	// collector asks for. Keep keys out of the file: give TRACING_HEADERS in the environment, or headers_file. Defaults
	// to "".
	Headers Secret `key:"headers" default:"" check:"headers" help:"headers for the collector, name=value, separated by commas; better tracing.headers_file"`
	// HeadersFile is a file that has nothing but these headers, in one line; it is read again for each export, so that a
	// new key needs no restart. Only one of headers and headers_file may be given. Defaults to "".
	HeadersFile string `key:"headers_file" default:"" check:"optional" help:"file with the headers for the collector, read again for each export"`
	// SamplePercent is the share of the relay's own batches that have spans; spans of events go with their writers' traces.
	// An action that was asked for always has its spans: an action of the outbox, a redrive, a replay. OTEL_TRACES_SAMPLER,
	// where it is set, counts instead of all this. Defaults to 1.
	SamplePercent int `key:"sample_percent" default:"1" min:"0" max:"100" help:"percentage of the relay's batches that are traced"`
	// ServiceName is the name under which spans are found. Without it OTEL_SERVICE_NAME, or postrider. Defaults to "".
	ServiceName string `key:"service_name" default:"" check:"optional" help:"name under which spans are found; empty is OTEL_SERVICE_NAME, or postrider"`
	// Database makes a span of each statement, each batch of statements and each connecting, within spans that are
	// recorded anyway: of a batch once it is claimed, of actions, and of dead letters that are collected. Its name is
	// that of the query; neither text nor values of a statement are in it. Defaults to false.
	Database bool `key:"database" default:"false" help:"spans of statements, within traces that are recorded"`
	// KafkaClient makes a span of each record of a recorded trace while the Kafka client has it: from when it is handed
	// over until it is acknowledged, with partition and offset, and of a dead letter from when it is fetched until it is
	// read. Neither key nor value is in it. Defaults to false.
	KafkaClient bool `key:"kafka_client" default:"false" help:"spans of records in the Kafka client, within traces that are recorded"`
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

// HeaderMap is Headers by name, or what HeadersFile has now. The error names the setting and says which of the headers is
// wrong, and nothing of its value.
func (t Tracing) HeaderMap() (map[string]string, error) {
	if t.HeadersFile == "" {
		all, err := headerMap(t.Headers.Reveal())
		if err != nil {
			return nil, fmt.Errorf("tracing.headers: %w", err)
		}
		return all, nil
	}
	text, err := ReadSecretFile("tracing.headers_file", t.HeadersFile)
	if err != nil {
		return nil, err
	}
	all, err := headerMap(text)
	if err == nil && len(all) == 0 {
		err = errors.New("it has nothing but blanks")
	}
	if err != nil {
		return nil, fmt.Errorf("tracing.headers_file: the file %s is not name=value, separated by commas: %w", t.HeadersFile, err)
	}
	return all, nil
}

func headerMap(text string) (map[string]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	all := map[string]string{}
	for i, pair := range strings.Split(text, ",") {
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
	_, err := headerMap(text)
	return err
}
