package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/message"
)

// RetryTopic returns the name of a group's retry topic: "<topic>.<group>.retry.<delay>", the delay as 500ms, 10s, 2m or
// 1h. With a delay of 0 the name is "<topic>.<group>.retry": a message sent there is read by this group alone. That
// topic is always read, whatever the group's mode and delays are or become, and dead letters name it.
func RetryTopic(topic, group string, delay time.Duration) string {
	name := topic + "." + group + ".retry"
	if delay > 0 {
		name += "." + shortDelay(delay)
	}
	return name
}

// shortDelay writes a delay in the largest unit in which it is a whole number.
func shortDelay(d time.Duration) string {
	for _, u := range []struct {
		name string
		d    time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if d%u.d == 0 {
			return strconv.FormatInt(int64(d/u.d), 10) + u.name
		}
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

// route says how the messages of one topic are treated.
type route struct {
	source  string // the topic of Config.Topics that it belongs to
	retry   bool   // whether it is a retry topic
	policy  Policy
	tiers   []string // where a message goes after its first failed attempt, its second …; none unless the mode is Tiers
	redrive string   // the topic from which this group alone reads
	breaker *breaker
	counts  *counts
	// longest is how long a tier lets a message wait at most.
	longest time.Duration
}

// routeOf returns the route of a topic that is read: one of routes, or the route of a retry topic whose delay the
// policy no longer has. Messages may still wait there, and no more are sent there. It is nil for all other topics.
func (c *Consumer) routeOf(topic string) *route {
	if r := c.routes[topic]; r != nil {
		return r
	}
	for _, source := range c.cfg.Topics {
		text, tier := strings.CutPrefix(topic, RetryTopic(source, c.cfg.Group, 0)+".")
		d, err := time.ParseDuration(text)
		if !tier || err != nil || d <= 0 || RetryTopic(source, c.cfg.Group, d) != topic {
			continue
		}
		for _, r := range c.routes {
			if r.policy.DeadLetterTopic == topic {
				return nil
			}
		}
		r := *c.routes[RetryTopic(source, c.cfg.Group, 0)]
		r.longest = max(r.longest, d)
		return &r
	}
	return nil
}

// routes returns the routes of all topics that are read.
func (c *Config) routes(m *metrics, tell func(BreakerEvent)) (map[string]*route, error) {
	all := map[string]*route{}
	var errs []error
	add := func(topic string, r *route) {
		if err := message.ValidTopic(topic); err != nil {
			errs = append(errs, err)
		}
		if other, there := all[topic]; there {
			errs = append(errs, fmt.Errorf("topic %s is read twice, for %s and %s", topic, other.source, r.source))
		}
		all[topic] = r
	}
	for _, topic := range c.Topics {
		policy, own := c.Policies[topic]
		if !own {
			policy = c.Policy
		}
		policy = policy.withDefaults()
		if err := policy.validate(); err != nil {
			errs = append(errs, fmt.Errorf("policy of topic %s: %w", topic, err))
			continue
		}
		r := route{source: topic, policy: policy, breaker: newBreaker(topic, policy.Breaker, tell), counts: m.of(topic)}
		if policy.Mode == Tiers {
			for _, d := range policy.Delays {
				r.tiers = append(r.tiers, RetryTopic(topic, c.Group, d))
			}
		}
		for _, d := range policy.Delays {
			r.longest = max(r.longest, d)
		}
		r.redrive = RetryTopic(topic, c.Group, 0)
		add(topic, &r)
		again := r
		again.retry = true
		for _, t := range append([]string{r.redrive}, r.tiers...) {
			add(t, &again)
		}
	}
	for topic := range c.Policies {
		if !slices.Contains(c.Topics, topic) {
			errs = append(errs, fmt.Errorf("the policy of topic %s is of no use: Topics does not have it", topic))
		}
	}
	for topic, r := range all {
		if _, loop := all[r.policy.DeadLetterTopic]; loop {
			errs = append(errs, fmt.Errorf("topic %s has %s as its dead-letter topic, which is itself read here", topic, r.policy.DeadLetterTopic))
		}
	}
	return all, errors.Join(errs...)
}

// subscription returns the topics that the client has to read and to write.
func (c *Consumer) subscription() Subscription {
	s := Subscription{Group: c.cfg.Group, Logger: c.log, Also: func(topic string) bool { return c.routes[topic] == nil && c.routeOf(topic) != nil }}
	targets := map[string]string{}
	for topic, r := range c.routes {
		s.Topics = append(s.Topics, topic)
		if r.retry {
			targets[topic] = r.source
		}
		if _, there := targets[r.policy.DeadLetterTopic]; !there {
			targets[r.policy.DeadLetterTopic] = ""
		}
	}
	for topic, like := range targets {
		s.Targets = append(s.Targets, Target{Topic: topic, Like: like})
	}
	slices.Sort(s.Topics)
	slices.SortFunc(s.Targets, func(a, b Target) int { return cmp.Compare(a.Topic, b.Topic) })
	return s
}
