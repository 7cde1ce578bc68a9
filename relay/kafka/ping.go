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
	if err := askAll(ctx, c); err != nil {
		return fmt.Errorf("kafka brokers %v: %w", p.cfg.Brokers, err)
	}
	return nil
}

// askAll returns nil as soon as any broker answers. All are asked at once: the client's own Ping asks one
// after the other, and one that is connected and silent would take all the time there is.
func askAll(ctx context.Context, c *kgo.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	brokers := append(c.SeedBrokers(), c.DiscoveredBrokers()...)
	answers := make(chan error, len(brokers))
	for _, b := range brokers {
		go func() {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{} // none
			_, err := b.Request(ctx, req)
			answers <- err
		}()
	}
	var err error
	for range brokers {
		if err = <-answers; err == nil {
			return nil
		}
	}
	return err
}
