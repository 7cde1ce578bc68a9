package app

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/migrations"
)

const (
	// missingPause is the time between two checks for missing topics.
	missingPause = time.Minute
	// missingRetry is the pause while no broker answers.
	missingRetry = 2 * time.Second
	// missingLimit bounds a check.
	missingLimit = 10 * time.Second
)

// makeTopicWatch prepares the part that says which of Postrider's own topics are missing: dead letters and events about
// tasks wait until they are there, and the first of them may come weeks after a start.
func (a *App) makeTopicWatch(context.Context) error {
	if !a.has(Relay) && !a.has(Collector) {
		return nil
	}
	c := a.options.Config
	topics := c.DLQTopics()
	if a.installed(migrations.PartTasks) {
		topics = append(topics, c.Tasks.LifecycleTopic)
	}
	slices.Sort(topics)
	w := topicWatch{findMissing: a.publisher.MissingTopics, topics: slices.Compact(topics), log: a.log}
	a.parts = append(a.parts, part{name: "check for missing topics", run: w.run})
	return nil
}

// topicWatch checks now and then whether topics are there.
type topicWatch struct {
	findMissing func(ctx context.Context, topics []string) (missing []string, err error)
	topics      []string
	log         *slog.Logger
	missing     []string // as of the last check
}

func (w *topicWatch) run(ctx context.Context) error {
	loop.Repeat(ctx, func(ctx context.Context) time.Duration {
		if w.logChanges(ctx) {
			return missingPause
		}
		return missingRetry
	})
	return nil
}

// logChanges logs what changed since the last check. It returns false when no broker answered: others log that.
func (w *topicWatch) logChanges(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, missingLimit)
	defer cancel()
	missing, err := w.findMissing(ctx, w.topics)
	if err != nil {
		return false
	}
	switch {
	case slices.Equal(missing, w.missing):
	case len(missing) > 0:
		w.log.Warn("topics of Postrider are missing, or this login may not see them; their records wait: create the topics, or allow Describe and Write", "topics", missing)
	default:
		w.log.Info("all topics of Postrider are there", "topics", w.topics)
	}
	w.missing = missing
	return true
}
