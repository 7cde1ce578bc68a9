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

	"github.com/postrider/postrider/retry"
)

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	r, err := New(Config{Store: &fakeStore{}, Publisher: &fakePublisher{}})
	if err != nil {
		t.Fatal(err)
	}
	c := r.cfg
	if c.Dispatches != 16 || c.BatchSize != 5000 || *r.settings("t") != (TopicSettings{}).withDefaults() {
		t.Errorf("dispatches %d, batch size %d, settings %+v", c.Dispatches, c.BatchSize, r.settings("t"))
	}
	if c.PublishTimeout != 10*time.Second || c.IdlePollMin != 2*time.Millisecond || c.IdlePollMax != 50*time.Millisecond {
		t.Errorf("publish timeout %v, idle polls %v to %v", c.PublishTimeout, c.IdlePollMin, c.IdlePollMax)
	}
	if c.Notifier != nil || c.IdlePollNotified != 500*time.Millisecond {
		t.Errorf("notifier %v, idle polls up to %v with one", c.Notifier, c.IdlePollNotified)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if prefix := fmt.Sprintf("%s:%d:", host, os.Getpid()); !strings.HasPrefix(c.Worker, prefix) || len(c.Worker) != len(prefix)+8 {
		t.Errorf("worker %q, want %s and 8 random characters", c.Worker, prefix)
	}
	if c.Retention != (Retention{Published: 720 * time.Hour, DeadLettered: 720 * time.Hour, IdempotencyKeys: 720 * time.Hour}) {
		t.Errorf("retention %+v", c.Retention)
	}
	c.Logger.Error("no log has this")
}

func TestConfigKeepsWhatIsSet(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	reg := prometheus.NewRegistry()
	r, err := New(Config{
		Store: &fakeStore{}, Publisher: &fakePublisher{}, Worker: "relay-1", Dispatches: 64, BatchSize: 1,
		TopicSettings: ForAll(TopicSettings{DLQTopic: "dead"}), PublishTimeout: 1,
		IdlePollMin: 3, IdlePollMax: 3, Logger: slog.New(slog.NewTextHandler(&out, nil)), Registerer: reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.cfg; c.Dispatches != 64 || c.BatchSize != 1 || r.settings("t").DLQTopic != "dead" ||
		c.PublishTimeout != 1 || c.IdlePollMin != 3 || c.IdlePollMax != 3 || !strings.HasPrefix(c.Worker, "relay-1:") {
		t.Errorf("%+v", c)
	}
	r.cfg.Logger.Info("hello")
	if got := out.String(); !strings.Contains(got, "component=relay worker="+r.cfg.Worker) {
		t.Errorf("the log does not say who speaks: %s", got)
	}
	if families, err := reg.Gather(); err != nil || len(families) == 0 {
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
		"Store is required":                       func(c *Config) { c.Store = nil },
		"Publisher is required":                   func(c *Config) { c.Publisher = nil },
		"Dispatches is -1":                        func(c *Config) { c.Dispatches = -1 },
		"BatchSize is -1":                         func(c *Config) { c.BatchSize = -1 },
		"PublishTimeout is -1ns":                  func(c *Config) { c.PublishTimeout = -1 },
		"IdlePollMin is -1ns":                     func(c *Config) { c.IdlePollMin = -1 },
		"IdlePollMax 1ns":                         func(c *Config) { c.IdlePollMax = 1 },
		"retention of published rows is -1ns":     func(c *Config) { c.Retention.Published = -1 },
		"retention of dead_lettered rows is -1ns": func(c *Config) { c.Retention.DeadLettered = -1 },
		"idempotency_key rows is -1ns":            func(c *Config) { c.Retention.IdempotencyKeys = -1 },
		"IdlePollNotified is -1ns":                func(c *Config) { c.IdlePollNotified = -1 },
	} {
		c := Config{Store: &fakeStore{}, Publisher: &fakePublisher{}}
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), mention) || !strings.HasPrefix(err.Error(), "relay: ") {
			t.Errorf("New() = %v, want a mention of %q", err, mention)
		}
	}
}

func TestTopicSettings(t *testing.T) {
	t.Parallel()
	d := (TopicSettings{}).withDefaults()
	if d.Retry != retry.Default() || d.AfterLastAttempt != PolicyContinue || d.DLQTopic != "postrider.dlq" ||
		d.BreakerEvents != 100 || d.BreakerWindow != time.Minute || d.MaxAge != 0 || d.RouteDeadLetterAfter != 0 || d.CommitOrder {
		t.Errorf("the defaults are %+v", d)
	}
	for mention, s := range map[string]TopicSettings{
		"dead-letter topic":                       {DLQTopic: "a b"},
		"max attempts is 0":                       {Retry: retry.Policy{Base: 1, Max: 1}},
		"retry jitter is N":                       {Retry: retry.Policy{MaxAttempts: 1, Base: 1, Max: 1, Jitter: math.NaN()}},
		`policy after the last attempt is "stop"`: {AfterLastAttempt: "stop"},
		"max message bytes is -1":                 {MaxMessageBytes: -1},
		"route dead letter after is -1":           {RouteDeadLetterAfter: -1},
		"max age is -1":                           {MaxAge: -1},
		"breaker window is -1":                    {BreakerWindow: -1},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), mention) {
			t.Errorf("Validate() = %v, want a mention of %q", err, mention)
		}
	}
}

// TestBadTopicSettings: events in the outbox do not wait because of a mistake in the application's function.
func TestBadTopicSettings(t *testing.T) {
	t.Parallel()
	log, logged := capturedLog()
	calls := 0
	r := testRelay(t, func(c *Config) {
		c.Logger = log
		c.TopicSettings = func(topic string) TopicSettings {
			calls++
			return TopicSettings{DLQTopic: "a b"}
		}
	})
	for range 2 {
		if s := r.settings("orders"); s.DLQTopic != "postrider.dlq" {
			t.Errorf("settings %+v", s)
		}
	}
	if calls != 1 || !strings.Contains(logged(), "topic=orders") {
		t.Errorf("asked %d times; logged %s", calls, logged())
	}
}
