package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
)

const (
	// missingPause is how long it is between two looks for topics that are missing.
	missingPause = time.Minute
	// missingRetry is the pause while no broker answers.
	missingRetry = 2 * time.Second
	// missingLimit bounds a look.
	missingLimit = 10 * time.Second
)

// makeTopicWatch prepares the part that says which of Postrider's own topics are missing: dead letters and events about
// tasks wait until they are there, and the first of them may come weeks after a start.
func (a *App) makeTopicWatch(context.Context) error {
	if !a.has(Relay) && !a.has(Collector) {
		return nil
	}
	c := a.options.Config
	client, err := kgo.NewClient(append(a.clientOptions("topics", c.Kafka.ClientID, ""), kgo.SeedBrokers(c.Kafka.Brokers...), kgo.ClientID(c.Kafka.ClientID))...)
	if err != nil {
		return err
	}
	a.lifecycle.add(closing("client that looks for topics", client.Close))
	w := topicWatch{admin: kadm.NewClient(client), topics: append(c.DLQTopics(), c.Tasks.LifecycleTopic), log: a.log}
	a.parts = append(a.parts, part{name: "look for missing topics", limit: time.Second, run: w.run})
	return nil
}

// topicWatch looks now and then whether topics are there.
type topicWatch struct {
	admin   *kadm.Client
	topics  []string
	log     *slog.Logger
	missing []string // as of the last look
}

func (w *topicWatch) run(ctx context.Context) error {
	loop.Repeat(ctx, func(ctx context.Context) time.Duration {
		if w.look(ctx) {
			return missingPause
		}
		return missingRetry
	})
	return nil
}

// look says what changed since the last look, and returns false when no broker answered: others say that.
func (w *topicWatch) look(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, missingLimit)
	defer cancel()
	var missing []string
	for _, topic := range w.topics { // one by one: a topic that the login may not see fails the question about all
		found, err := w.admin.ListTopics(ctx, topic)
		if _, hidden := errors.AsType[*kadm.AuthError](err); err != nil && !hidden {
			return false
		} else if (hidden || !found.Has(topic)) && !slices.Contains(missing, topic) {
			missing = append(missing, topic)
		}
	}
	switch {
	case slices.Equal(missing, w.missing):
	case len(missing) > 0:
		w.log.Warn("topics of Postrider are missing, or this login may not see them; what belongs into them waits: create them, or allow Describe and Write", "topics", missing)
	default:
		w.log.Info("all topics of Postrider are there", "topics", w.topics)
	}
	w.missing = missing
	return true
}
