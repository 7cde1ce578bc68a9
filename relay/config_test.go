package relay

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/relay/outbox"
)

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	r, err := New(Config{Store: &fakeStore{}, Publisher: &fakePublisher{}})
	if err != nil {
		t.Fatal(err)
	}
	c := r.cfg
	if c.Workers != 4 || c.BatchSize != 1000 || c.DLQTopic != "postrider.dlq" || c.Retry != outbox.DefaultRetryPolicy() {
		t.Errorf("workers %d, batch size %d, DLQ topic %q, retry %+v", c.Workers, c.BatchSize, c.DLQTopic, c.Retry)
	}
	if c.PublishTimeout != 10*time.Second || c.IdlePollMin != 2*time.Millisecond || c.IdlePollMax != 50*time.Millisecond {
		t.Errorf("publish timeout %v, idle polls %v to %v", c.PublishTimeout, c.IdlePollMin, c.IdlePollMax)
	}
	if c.Doorbell != nil || c.IdlePollRung != 500*time.Millisecond {
		t.Errorf("doorbell %v, idle polls up to %v with one", c.Doorbell, c.IdlePollRung)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if prefix := fmt.Sprintf("%s:%d:", host, os.Getpid()); !strings.HasPrefix(c.Worker, prefix) || len(c.Worker) != len(prefix)+8 {
		t.Errorf("worker %q, want %s and 8 random characters", c.Worker, prefix)
	}
	c.Logger.Error("nobody sees this")
}

func TestConfigKeepsWhatIsSet(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	reg := prometheus.NewRegistry()
	r, err := New(Config{
		Store: &fakeStore{}, Publisher: &fakePublisher{}, Worker: "relay-1", Workers: 64, BatchSize: 1,
		Retry: outbox.RetryPolicy{MaxAttempts: 1, Base: 1, Max: 1}, DLQTopic: "dead", PublishTimeout: 1,
		IdlePollMin: 3, IdlePollMax: 3, Logger: slog.New(slog.NewTextHandler(&out, nil)), Registerer: reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.cfg; c.Workers != 64 || c.BatchSize != 1 || c.Retry.MaxAttempts != 1 || c.DLQTopic != "dead" ||
		c.PublishTimeout != 1 || c.IdlePollMin != 3 || c.IdlePollMax != 3 || !strings.HasPrefix(c.Worker, "relay-1:") {
		t.Errorf("%+v", c)
	}
	r.cfg.Logger.Info("hello")
	if got := out.String(); !strings.Contains(got, "component=relay worker="+r.cfg.Worker) {
		t.Errorf("the log does not say who speaks: %s", got)
	}
	if families, err := reg.Gather(); err != nil || len(families) != 8 {
		t.Errorf("%d metrics are registered, %v", len(families), err)
	}
}

// TestRestartedRelayIsAnother: a relay that is restarted under the same name must not take the batches
// of its dead predecessor for its own, or deaths would never be counted.
func TestRestartedRelayIsAnother(t *testing.T) {
	t.Parallel()
	var ids []string
	for range 2 {
		r, err := New(Config{Store: &fakeStore{}, Publisher: &fakePublisher{}, Worker: "relay-1"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.cfg.Worker)
	}
	if ids[0] == ids[1] {
		t.Errorf("both are %s", ids[0])
	}
}

func TestConfigValidation(t *testing.T) {
	t.Parallel()
	for mention, change := range map[string]func(*Config){
		"Store is required":        func(c *Config) { c.Store = nil },
		"Publisher is required":    func(c *Config) { c.Publisher = nil },
		"Workers is -1":            func(c *Config) { c.Workers = -1 },
		"Workers is 65":            func(c *Config) { c.Workers = 65 },
		"BatchSize is -1":          func(c *Config) { c.BatchSize = -1 },
		"PublishTimeout is -1ns":   func(c *Config) { c.PublishTimeout = -1 },
		"IdlePollMin is -1ns":      func(c *Config) { c.IdlePollMin = -1 },
		"IdlePollMax 1ns":          func(c *Config) { c.IdlePollMax = 1 },
		"IdlePollRung is -1ns":     func(c *Config) { c.IdlePollRung = -1 },
		"DLQTopic: ":               func(c *Config) { c.DLQTopic = "a b" },
		"Retry: max attempts is 0": func(c *Config) { c.Retry = outbox.RetryPolicy{Base: 1, Max: 1} },
		"Retry: retry jitter is N": func(c *Config) { c.Retry.Jitter = math.NaN() },
	} {
		c := Config{Store: &fakeStore{}, Publisher: &fakePublisher{}, Retry: outbox.DefaultRetryPolicy()}
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), mention) || !strings.HasPrefix(err.Error(), "relay: ") {
			t.Errorf("New() = %v, want a mention of %q", err, mention)
		}
	}
}
