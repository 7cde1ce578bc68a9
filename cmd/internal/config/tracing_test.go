package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestTracingMistakes(t *testing.T) {
	t.Parallel()
	for key, values := range map[string][]string{
		"tracing.endpoint": {"otel:4318", "grpc://otel:4317", "http://", "http://user:sentinel@otel:4318", "http://otel:4318/v1?x=1", "http://otel\x00"},
		"tracing.headers":  {"sentinel", "=sentinel", "a b=sentinel", "a=1,sentinel", "a=%zzsentinel", "a=sentinel%0d%0ax: y"},
	} {
		for _, value := range values {
			_, err := Load(Sources{Flags: map[string]string{key: value}})
			if err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s %q: %v", key, value, err)
			} else if key == "tracing.headers" && strings.Contains(err.Error(), "sentinel") {
				t.Errorf("the error shows what is secret: %v", err)
			}
		}
	}
}

func TestTracingSettings(t *testing.T) {
	t.Parallel()
	c, err := Load(Sources{Environ: []string{"TRACING_ENABLED=1", "TRACING_ENDPOINT=https://otel.example:4318/in", "TRACING_HEADERS=authorization=Bearer sentinel, x=a%2Cb"}})
	if err != nil {
		t.Fatal(err)
	}
	headers, err := c.Tracing.HeaderMap()
	if err != nil || fmt.Sprint(headers) != "map[authorization:Bearer sentinel x:a,b]" {
		t.Errorf("%v, %v", headers, err)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", c, c, c), "sentinel") {
		t.Error("the headers are shown")
	}
	if c.Tracing.SamplePercent != 1 || len(c.tracingWarnings()) != 0 {
		t.Errorf("%+v, %q", c.Tracing, c.tracingWarnings())
	}
	c, err = Load(Sources{Flags: map[string]string{"tracing.endpoint": "http://otel:4318"}})
	if err != nil || len(c.tracingWarnings()) != 1 || !strings.Contains(fmt.Sprint(c.Warnings()), "tracing.enabled is false") {
		t.Errorf("%v, %q", err, c.tracingWarnings())
	}
}
