package app

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestMissingTopicsAreSaid: a start without a dead-letter topic says so, once and by name, and nothing where all are there.
func TestMissingTopicsAreSaid(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	broker.CreateTopic(t, "life", 1, nil)
	c := settings(t, db.URL, broker.Addrs...)
	c.DLQ.Topic, c.Tasks.LifecycleTopic = "dead", "life"
	var log logtest.Buffer
	run(t, Options{Config: c, Roles: []Role{Relay}, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	eventually(t, "the missing topic is said", func() (bool, string) { return strings.Contains(log.String(), `"topics":["dead"]`), log.String() })
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "are missing") && !strings.Contains(line, `"level":"WARN"`) {
			t.Errorf("it says %s", line)
		}
	}

	broker.CreateTopic(t, "dead", 1, nil)
	var own logtest.Buffer // in the other the relay writes meanwhile
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: broker.Addrs})
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	w := topicWatch{findMissing: publisher.MissingTopics, topics: []string{"dead", "life"}, log: slog.New(slog.NewJSONHandler(&own, nil)), missing: []string{"dead"}}
	if !w.logChanges(t.Context()) || !strings.Contains(own.String(), "all topics of Postrider are there") {
		t.Error("nothing is said of topics that are there again")
	}
	before := own.String()
	if !w.logChanges(t.Context()) || own.String() != before {
		t.Error("it is said again")
	}
}
