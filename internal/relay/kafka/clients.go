package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
)

// maxClients bounds the producers of one Publisher that wait for partitions that are away. Each batch has
// one to itself. When there are more, the one that waited longest is closed: its records go out anew when
// their events are tried again, before any later one of their keys.
const maxClients = 32

// retired is the generation of clients that are closed once they are given back.
const retired = -1

func (p *Publisher) newClient() (*kgo.Client, error) {
	m := &met{}
	c, err := kgo.NewClient(append(slices.Clip(p.opts), kgo.WithHooks(m), kgo.BrokerMaxWriteBytes(int32(p.maxRequest.Load())),
		kgo.ProducerBatchMaxBytes(int32(p.maxBatch.Load())))...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	m.tooLarge = func(bytes int) { p.tooLarge(c, bytes) }
	p.all[c], p.met[c] = p.generation, m
	return c, nil
}

// take gives the caller a client of its own, for giveBack when it is empty again.
func (p *Publisher) take() (*kgo.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, kgo.ErrClientClosed
	}
	for n := len(p.idle) - 1; n >= 0; n-- {
		if c := p.idle[n]; p.all[c] == p.generation {
			p.idle = slices.Delete(p.idle, n, n+1)
			p.inUse.Add(1)
			return c, nil
		}
	}
	c, err := p.newClient()
	if err == nil {
		p.inUse.Add(1)
	}
	return c, err
}

// rested returns when the client has rested, or ctx ended.
func (p *Publisher) rested(ctx context.Context, c *kgo.Client) {
	if m := p.metBy(c); m != nil {
		m.wait(ctx)
	}
}

// metBy returns what the publisher has learned of a client; nil if the client was given up meanwhile.
func (p *Publisher) metBy(c *kgo.Client) *met {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met[c]
}

// introduce lets a new client learn from a broker that answers which others there are. It would begin with any of its
// seeds, and wait 10 s for one that is connected and silent, while topics that other brokers lead stand still.
func (p *Publisher) introduce(ctx context.Context, c *kgo.Client) {
	m, seeds := p.metBy(c), c.SeedBrokers()
	if m == nil || m.introduced || len(seeds) == 1 || len(seeds) != len(p.cfg.Brokers) { // options may name others
		return
	}
	first, err := askAll(ctx, seeds)
	if err != nil {
		return // the client says it better
	}
	m.introduced, m.seedless = true, true
	_ = c.UpdateSeedBrokers(p.cfg.Brokers[first]) // cannot fail: the client was made with these addresses
}

// reseed gives a client that was introduced all its seeds, for the day when no broker that it knows is left.
func (p *Publisher) reseed(c *kgo.Client) {
	if m := p.metBy(c); m != nil && m.seedless {
		m.seedless = false
		_ = c.UpdateSeedBrokers(p.cfg.Brokers...)
	}
}

// answered notes that the last record of a client that was left has an outcome.
func (p *Publisher) answered(s *Share, c *kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.left = slices.DeleteFunc(s.left, func(l *kgo.Client) bool { return l == c })
}

// leave notes that a client is in use only because records are without an answer.
func (p *Publisher) leave(s *Share, c *kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	s.left = append(s.left, c)
	if len(s.left) <= s.limit {
		return
	}
	oldest := s.left[0]
	s.left = s.left[1:]
	delete(p.all, oldest)
	delete(p.met, oldest)
	p.cfg.Logger.Warn("too many producers wait for partitions that are away, the one that waited longest is closed", "limit", s.limit)
	go oldest.Close()
}

// giveBack makes the client free for others. If clients are not to be used again, this one or idle ones,
// giveBack closes them instead.
func (p *Publisher) giveBack(c *kgo.Client) {
	defer p.inUse.Done()
	var worn []*kgo.Client
	p.mu.Lock()
	if _, known := p.all[c]; known && !p.closed {
		p.idle = slices.DeleteFunc(append(p.idle, c), func(c *kgo.Client) bool {
			if p.all[c] == p.generation {
				return false
			}
			delete(p.all, c)
			delete(p.met, c)
			worn = append(worn, c)
			return true
		})
	}
	p.mu.Unlock()
	for _, c := range worn {
		c.Close()
	}
}

// retire sees to it that the client is not used again after this.
func (p *Publisher) retire(c *kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.all[c]; known && !p.closed {
		p.all[c] = retired
	}
}

// retireOnRouteError retires a client that met a topic that it could not send to: it would go on asking for that topic.
// To make it forget the topic is no way out, because it then numbers that topic's records from 0 again, under the same
// producer id, and the broker takes them for copies of the first ones: acknowledged, never written. A recreated topic
// fails for ever in every client that knew it before, so none of these clients is used again.
func (p *Publisher) retireOnRouteError(c *kgo.Client, topic string, err error) {
	if class, _ := classify(err); class != relay.Route {
		return
	}
	p.sizes.forget(topic)
	p.retire(c)
	if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID) {
		p.mu.Lock()
		p.generation++
		p.mu.Unlock()
	}
}
