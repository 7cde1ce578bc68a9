package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Ping implements relay.Publisher.
func (p *Publisher) Ping(ctx context.Context) error {
	c, err := p.take()
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	defer p.giveBack(c)
	if _, err := askAll(ctx, append(c.SeedBrokers(), c.DiscoveredBrokers()...)); err != nil {
		return fmt.Errorf("kafka brokers %v: %w", p.cfg.Brokers, err)
	}
	return nil
}

// MissingTopics returns which of the topics are not there, in their order. A topic that this login may not see counts as
// missing, and its name is followed by the broker's error. The error is for brokers that do not answer.
func (p *Publisher) MissingTopics(ctx context.Context, topics []string) (missing []string, err error) {
	c, err := p.take()
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	defer p.giveBack(c)
	req := kmsg.NewPtrMetadataRequest() // of kmsg: kadm fails for all topics when one is refused
	for _, topic := range topics {
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = &topic
		req.Topics = append(req.Topics, asked)
	}
	answer, err := req.RequestWith(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("kafka brokers %v: ask for topics: %w", p.cfg.Brokers, err)
	}
	failures := map[string]error{}
	for _, t := range answer.Topics {
		if t.Topic != nil {
			failures[*t.Topic] = kerr.ErrorForCode(t.ErrorCode)
		}
	}
	for _, topic := range topics {
		failure, answered := failures[topic]
		switch {
		case !answered || errors.Is(failure, kerr.UnknownTopicOrPartition):
			missing = append(missing, topic)
		case errors.Is(failure, kerr.TopicAuthorizationFailed):
			missing = append(missing, topic+" ("+kerr.TopicAuthorizationFailed.Message+")")
		}
	}
	return missing, nil
}

// askAll returns which broker answered first, as soon as any does. All are asked at once: the client's own Ping asks one
// after the other, and one that is connected and silent would take all the time there is.
func askAll(ctx context.Context, brokers []*kgo.Broker) (first int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		broker int
		err    error
	}
	answers := make(chan answer, len(brokers))
	for n, b := range brokers {
		go func() {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{} // none
			_, err := b.Request(ctx, req)
			answers <- answer{n, err}
		}()
	}
	for range brokers {
		a := <-answers
		if err = a.err; err == nil {
			return a.broker, nil
		}
	}
	return 0, err
}
