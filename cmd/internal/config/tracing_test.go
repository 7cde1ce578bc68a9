package config

import (
	"fmt"
	"os"
	"path/filepath"
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
			_, err := Load(From{Flags: map[string]string{key: value}})
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
	c, err := Load(From{Environ: []string{"TRACING_ENABLED=1", "TRACING_ENDPOINT=https://otel.example:4318/in", "TRACING_HEADERS=authorization=Bearer sentinel, x=a%2Cb"}})
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
}

// What has no effect while no spans are sent is said.
func TestTracingWarnings(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{
		"tracing.endpoint": "http://otel:4318", "tracing.headers": "x=sentinel", "tracing.headers_file": "/run/headers", "tracing.database": "true", "tracing.kafka_client": "1",
	} {
		c, err := Load(From{Flags: map[string]string{key: value}})
		said := strings.Join(c.Warnings(), "\n")
		if err != nil || len(c.tracingWarnings()) != 1 || !strings.Contains(said, key+" is given (flag --") || !strings.Contains(said, "tracing.enabled is false") || strings.Contains(said, "sentinel") {
			t.Errorf("%s: %v, %s", key, err, said)
		}
		c, err = Load(From{Flags: map[string]string{key: value, "tracing.enabled": "true"}})
		if err != nil || len(c.tracingWarnings()) != 0 {
			t.Errorf("%s beside tracing.enabled: %v, %q", key, err, c.tracingWarnings())
		}
	}
}

// The file has what the setting would have, is read each time, and nothing in it is ever said.
func TestTracingHeadersFile(t *testing.T) {
	t.Parallel()
	_, err := Load(From{Environ: []string{"TRACING_HEADERS=a=sentinel", "TRACING_HEADERS_FILE=/run/headers"}})
	if err == nil || !strings.Contains(err.Error(), "tracing.headers (environment variable TRACING_HEADERS) and tracing.headers_file (environment variable TRACING_HEADERS_FILE) are both set") || strings.Contains(err.Error(), "sentinel") {
		t.Errorf("both: %v", err)
	}
	path := filepath.Join(t.TempDir(), "headers")
	c, err := Load(From{Flags: map[string]string{"tracing.enabled": "true", "tracing.headers_file": path}})
	if err != nil {
		t.Fatal(err)
	}
	const says = "tracing.headers_file: the file "
	for content, want := range map[string]string{
		"authorization=Bearer sentinel, x=a%2Cb\n": "map[authorization:Bearer sentinel x:a,b]", "x=1": "map[x:1]",
		"": "is empty", " \n": "nothing but blanks", "sentinel": "header 1 is not name=value", "a=1,a b=sentinel": "header 2 is not name=value",
		"a=1\nb=sentinel\n": "more than one line", "a=%zzsentinel": "header 1 is not name=value",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := c.Tracing.HeaderMap()
		switch {
		case strings.HasPrefix(want, "map["):
			if err != nil || fmt.Sprint(all) != want {
				t.Errorf("%q: %v, %v", content, all, err)
			}
		case err == nil || !strings.HasPrefix(err.Error(), says+path) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sentinel"):
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Tracing.HeaderMap(); err == nil || !strings.HasPrefix(err.Error(), says+path+" cannot be read") {
		t.Errorf("without the file: %v", err)
	}
	if shown := fmt.Sprintf("%v %#v %v", c, c, c.Settings()); !strings.Contains(shown, path) || strings.Contains(shown, "sentinel") {
		t.Errorf("shown: %s", shown)
	}
}
