package relay

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/retry"
)

// TestSettingsAreAskedForOnce: for each topic, however many meet it at once; and all of them go by
// the same.
func TestSettingsAreAskedForOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	r := testRelay(t, func(c *Config) {
		c.TopicSettings = func(topic string) TopicSettings {
			mu.Lock()
			defer mu.Unlock()
			asked[topic]++
			return TopicSettings{DLQTopic: topic + ".dlq", MaxAge: time.Duration(len(topic))}
		}
	})
	for range 3 {
		for _, topic := range []string{"a", "bb"} {
			s := r.settings(topic)
			if s.DLQTopic != topic+".dlq" || s.MaxAge != time.Duration(len(topic)) || s.BreakerEvents != 100 || s.AfterLastAttempt != PolicyContinue {
				t.Errorf("the settings of %s are %+v", topic, *s)
			}
		}
	}
	if asked["a"] != 1 || asked["bb"] != 1 {
		t.Errorf("asked %v", asked)
	}
	var wg sync.WaitGroup
	got := make([]*TopicSettings, 16)
	for i := range got {
		wg.Go(func() { got[i] = r.settings("new") })
	}
	wg.Wait()
	for _, s := range got {
		if s != got[0] {
			t.Fatal("two go by different settings")
		}
	}
}

// TestSettingsOutOfRange: the defaults stand in, and the log says so once.
func TestSettingsOutOfRange(t *testing.T) {
	t.Parallel()
	log, logged := capturedLog()
	r := testRelay(t, func(c *Config) {
		c.Logger, c.TopicSettings = log, ForAll(TopicSettings{DLQTopic: "dead", MaxAge: -1})
	})
	for range 3 {
		if s := *r.settings("t"); s != (TopicSettings{}).withDefaults() {
			t.Errorf("the settings are %+v", s)
		}
	}
	if n := strings.Count(logged(), "max age is -1ns"); n != 1 || !strings.Contains(logged(), "topic=t") {
		t.Errorf("%d times in the log:\n%s", n, logged())
	}
}

func TestSettingsAreValidated(t *testing.T) {
	t.Parallel()
	if err := (TopicSettings{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	for want, s := range map[string]TopicSettings{
		"attempts":                     {Retry: retry.Policy{MaxAttempts: -1, Base: 1, Max: 1}},
		"dead-letter topic":            {DLQTopic: "a b"},
		`"halt", it must be continue`:  {AfterLastAttempt: "halt"},
		"max message bytes is -1":      {MaxMessageBytes: -1},
		"route dead letter after is -": {RouteDeadLetterAfter: -time.Second},
		"max age is -1s":               {MaxAge: -time.Second},
		"breaker window is -1s":        {BreakerWindow: -time.Second},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", s, err, want)
		}
	}
}
