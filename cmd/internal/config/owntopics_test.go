package config

import (
	"maps"
	"testing"
)

// Every dead-letter topic that an event may go to is Postrider's own, and that of lifecycle events; a topic of events is not.
func TestOwnTopics(t *testing.T) {
	t.Parallel()
	c, err := Load(Sources{
		File:  write(t, "topics:\n  - match: orders.*\n    dlq_topic: dead.orders\n  - match: '*.eu'\n    dlq_topic: dead.eu\n  - match: orders.eu\n    max_attempts: 3\n"),
		Flags: map[string]string{"dlq.topic": "dead", "tasks.lifecycle_topic": "life", "collector.topics": "theirs-dlt"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"dead": "dead letters", "dead.orders": "dead letters", "dead.eu": "dead letters", "life": "lifecycle events"}
	if got := c.OwnTopics(); !maps.Equal(got, want) {
		t.Errorf("the own topics are %v, want %v", got, want)
	}
}
