package config

import (
	"testing"
	"time"
)

// No topic's events wait longer for a retry than is said.
func TestLongestRetry(t *testing.T) {
	t.Parallel()
	c, err := Load(Sources{File: write(t, threeRules)})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.LongestRetry(); got != 6*time.Minute {
		t.Errorf("the longest retry is %v, want five minutes and a fifth", got)
	}
	for _, topic := range []string{"plain", "orders.us", "orders.eu"} {
		if d := c.TopicSettings(topic).Retry.Delay(1000, 1); d > c.LongestRetry() {
			t.Errorf("%s waits %v", topic, d)
		}
	}
	if c, err = Load(Sources{Flags: map[string]string{"outbox.retry_base_ms": "90000", "outbox.retry_max_ms": "100000"}}); err != nil || c.LongestRetry() != 2*time.Minute {
		t.Errorf("the longest retry is %v, %v, want 2m", c.LongestRetry(), err)
	}
}
