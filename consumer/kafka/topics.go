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

// prepareTimeout bounds one look at the topics, and preparePause is between two.
const (
	prepareTimeout = 10 * time.Second
	preparePause   = time.Second
	// sourcePause is between two looks for topics to read that do not exist, and sourceLines is how many looks have one
	// line in the log.
	sourcePause = 5 * time.Second
	sourceLines = 12
)

// errMissing is wrapped by the error about topics that are not there.
var errMissing = errors.New("topics are missing")

// prepare sees to it that the topics to write to exist, and returns the topics that are to be read, too. It waits while
// no broker says. A topic to read that does not exist is waited for beside the reading of the others.
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

// awaitSources looks for topics to read that do not exist, says so, and makes their retry topics when they are there, until
// the client is closed.
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
				c.cfg.Logger.Error("topics to read do not exist: nothing is read of them until somebody creates them", slog.Any("topics", absent))
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

// absentSources are the topics to read that do not exist, and that the consumer does not write to.
func absentSources(topics kadm.TopicDetails, s consumer.Subscription) (absent []string) {
	for _, name := range s.Topics {
		writes := slices.ContainsFunc(s.Targets, func(t consumer.Target) bool { return t.Topic == name })
		if err := topics[name].Err; !writes && (!topics.Has(name) && err == nil || errors.Is(err, kerr.UnknownTopicOrPartition)) {
			absent = append(absent, name)
		}
	}
	return absent
}

// lookForTopics makes topics to write to, where it may, and returns the topics to read that do not exist. Their retry
// topics wait for them: they get as many partitions.
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
			// Not seen for another reason, for example a missing right; a message that has to go there will say so.
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

// listAlso returns the topics that exist and that the subscription wants to read, too. Brokers leave out topics that
// this client may not see.
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
