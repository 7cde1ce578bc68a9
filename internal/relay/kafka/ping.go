package kafka

import (
	"context"
	"fmt"

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
