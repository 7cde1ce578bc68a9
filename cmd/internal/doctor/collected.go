package doctor

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// letterTopicsThere are the existing topics where the settings or the database say that dead letters arrive: the topics for
// events, by whatever rule, the topics for tasks, and the topics of others that collectors are to read, by name or pattern.
func letterTopicsThere(ctx context.Context, p *patient) ([]string, error) {
	names := p.Settings.CollectedTopics()
	var ofTasks string
	if err := p.Database.QueryRow(ctx, lettersTopicQuery).Scan(&ofTasks); err == nil {
		names = append(names, ofTasks)
	} else if !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	patterns, err := dlq.NewTopicPatterns(p.Settings.Collector.Patterns)
	if err != nil {
		return nil, err
	}
	topics, err := p.admin.ListTopics(ctx) // without Kafka's own
	if err != nil {
		return nil, err
	}
	var there []string
	for name, topic := range topics {
		chosen := slices.Contains(names, name) || patterns.Fits(name) && name != p.Settings.Tasks.LifecycleTopic
		if chosen && topic.Err == nil && len(topic.Partitions) > 0 {
			there = append(there, name)
		}
	}
	slices.Sort(there)
	return there, nil
}

// judgeCollected compares the dead-letter topics that exist with the topics that the members of the collectors' group read.
func judgeCollected(group string, there, read []string) []result {
	unread := slices.DeleteFunc(slices.Clone(there), func(topic string) bool { return slices.Contains(read, topic) })
	if len(unread) == 0 {
		return nil
	}
	return warn("give the processes with the role collector the same dlq.topic, collector.topics, collector.patterns and topics (the rules) as all others, and restart them; a topic that was just created is read within a minute",
		"dead-letter topics that no member of the group %s reads: %s: what arrives there becomes no investigation, and tasks wait for theirs", group, shorten(unread))
}
