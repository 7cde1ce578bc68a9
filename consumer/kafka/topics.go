package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/loop"
)

const (
	// prepareTimeout bounds one question to the brokers for topics.
	prepareTimeout = 10 * time.Second
	// preparePause is how long prepare waits before it asks again, if no broker answered.
	preparePause = time.Second
	// sourcePause is how long awaitSources waits before it asks again for missing topics to read.
	sourcePause = 5 * time.Second
	// sourceLines is after how many of these questions the log says again that topics are missing: once a minute.
	sourceLines = 12
)

// errMissing is wrapped by the error about topics to write to that do not exist and that the client may not create.
var errMissing = errors.New("topics are missing")

// prepare creates the topics to write to, or fails if they are missing and it may not. It returns the topics that
// Subscription.Also chooses. As long as no broker answers, it asks again. A topic to read that does not exist holds nothing up:
// the others are read, and awaitSources looks for it in the background.
func (c *Client) prepare(ctx context.Context, s consumer.Subscription) ([]string, error) {
	w, err := c.take(&c.writer)
	if err != nil {
		return nil, err
	}
	defer w.leave()
	admin := kadm.NewClient(w.client)
	for {
		once, cancel := context.WithTimeout(ctx, prepareTimeout)
		absent, err := c.lookForTopics(once, admin, s)
		var also []string
		if err == nil {
			also, err = c.listAlso(once, admin, s)
		}
		cancel()
		if err == nil && len(absent) > 0 {
			c.awaitSources(s, absent)
		}
		if err == nil || errors.Is(err, errMissing) {
			return also, err
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("look for topics: %w", errors.Join(ctx.Err(), err))
		}
		c.cfg.Logger.Warn("no broker says which topics there are, it will be asked again", slog.Any("err", err))
		_ = loop.Sleep(ctx, preparePause) // the next try says that ctx ended, and why it fails
	}
}

// awaitSources logs that topics to read do not exist, and asks for them until all do or the client is closed. When a topic
// exists, its retry topics are created: they get as many partitions as it has.
func (c *Client) awaitSources(s consumer.Subscription, absent []string) {
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		cancel()
		return
	}
	c.stopAwaiting = cancel
	c.awaiting.Go(func() {
		defer cancel()
		for looks := 0; len(absent) > 0; looks++ {
			if looks%sourceLines == 0 {
				c.cfg.Logger.Error("topics to read do not exist: nothing is read of them until they are created", slog.Any("topics", absent))
			}
			if loop.Sleep(ctx, sourcePause) != nil {
				return
			}
			if now, err := c.lookAgain(ctx, s); err == nil {
				absent = now
			} else if ctx.Err() == nil {
				c.cfg.Logger.Warn("topics to read that do not exist cannot be looked for, it will be tried again", slog.Any("err", err))
			}
		}
		c.cfg.Logger.Info("all topics to read are there")
	})
}

// lookAgain is lookForTopics once, with a client and a time of its own.
func (c *Client) lookAgain(ctx context.Context, s consumer.Subscription) ([]string, error) {
	w, err := c.take(&c.writer)
	if err != nil {
		return nil, err
	}
	defer w.leave()
	once, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	return c.lookForTopics(once, kadm.NewClient(w.client), s)
}

// absentSources returns the topics to read that do not exist. Topics that the consumer also writes to are left out:
// lookForTopics creates these.
func absentSources(topics kadm.TopicDetails, s consumer.Subscription) (absent []string) {
	for _, name := range s.Topics {
		writes := slices.ContainsFunc(s.Targets, func(t consumer.Target) bool { return t.Topic == name })
		if err := topics[name].Err; !writes && (!topics.Has(name) && err == nil || errors.Is(err, kerr.UnknownTopicOrPartition)) {
			absent = append(absent, name)
		}
	}
	return absent
}

// lookForTopics creates the topics to write to that do not exist, if CreateTopics says so, and returns the topics to read
// that do not exist. The retry topic of a missing topic is not created yet: it gets as many partitions as its topic.
func (c *Client) lookForTopics(ctx context.Context, admin *kadm.Client, s consumer.Subscription) (absent []string, err error) {
	names := append([]string{}, s.Topics...)
	for _, t := range s.Targets {
		names = append(names, t.Topic)
	}
	topics, err := admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	absent = absentSources(topics, s)
	var missing []string
	for _, t := range s.Targets {
		switch err := topics[t.Topic].Err; {
		case topics.Has(t.Topic) && err == nil:
			continue
		case err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition):
			// It may exist, and the client may lack the right to see it. If it cannot be written to, the first message for it
			// fails with the reason.
			c.cfg.Logger.Warn("a topic to write to cannot be seen", slog.String("topic", t.Topic), slog.Any("err", err))
			continue
		}
		if !c.cfg.CreateTopics {
			missing = append(missing, t.Topic)
			continue
		}
		if slices.Contains(absent, t.Like) {
			continue
		}
		partitions := int32(-1)
		if n := len(topics[t.Like].Partitions); t.Like != "" && n > 0 {
			partitions = int32(n)
		}
		if _, err := admin.CreateTopic(ctx, partitions, -1, nil, t.Topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return nil, fmt.Errorf("create topic %s: %w", t.Topic, err)
		}
		c.cfg.Logger.Info("created a topic", slog.String("topic", t.Topic))
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: %s: create them, retry topics with as many partitions as their own topic, or set CreateTopics",
			errMissing, strings.Join(append(missing, absent...), ", "))
	}
	return absent, nil
}

// listAlso returns the existing topics that Subscription.Also chooses. Brokers do not list topics that this client may not
// see.
func (c *Client) listAlso(ctx context.Context, admin *kadm.Client, s consumer.Subscription) ([]string, error) {
	if s.Also == nil {
		return nil, nil
	}
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	var also []string
	for _, topic := range topics.Names() {
		if s.Also(topic) {
			also = append(also, topic)
		}
	}
	if len(also) > 0 {
		c.cfg.Logger.Info("topics of former delays are read, too", slog.Any("topics", also))
	}
	return also, nil
}
