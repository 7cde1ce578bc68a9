package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/wire"
	"github.com/postrider/postrider/retry"
)

// topicsSection is the list of rules in the file. It is no section of keys.
const topicsSection = "topics"

// topicKeys are what a rule may set, with the key of the sections that is its default and says which
// values are allowed.
var topicKeys = []struct{ name, standard string }{
	{"max_attempts", "outbox.max_attempts"},
	{"retry_base_ms", "outbox.retry_base_ms"},
	{"retry_max_ms", "outbox.retry_max_ms"},
	{"after_last_attempt", "outbox.after_last_attempt"},
	{"dlq_topic", "dlq.topic"},
	{"max_message_bytes", "kafka.max_message_bytes"},
	{"route_dead_letter_after_seconds", "outbox.route_dead_letter_after_seconds"},
	{"max_age_seconds", "outbox.max_age_seconds"},
	{"commit_order", "outbox.commit_order"},
	{"storm_events", "outbox.storm_events"},
	{"storm_window_seconds", "outbox.storm_window_seconds"},
}

// topicKey returns the key that a name in a rule stands for.
func topicKey(name string) (Key, bool) {
	for _, k := range topicKeys {
		if k.name == name {
			return named(k.standard)
		}
	}
	return Key{}, false
}

// TopicKeys returns the names of what a rule may set.
func TopicKeys() []string {
	names := make([]string, len(topicKeys))
	for i, k := range topicKeys {
		names[i] = k.name
	}
	return names
}

// TopicRule is one rule of the section topics. It sets some values for the topics that it matches,
// and leaves the others as they are.
type TopicRule struct {
	match, origin string
	values        []topicValue
	// wire is what the rule says of the records' bytes, and wireOrigin where; nil for nothing.
	wire       *wire.Rule
	wireOrigin string
}

// topicValue is one value of a rule.
type topicValue struct {
	name string // as in topicKeys
	found
	parsed reflect.Value
}

// newTopicValue parses a value once; topics are asked for often.
func newTopicValue(name string, f found) (topicValue, error) {
	v := topicValue{name: name, found: f}
	var scratch Config
	if err := f.key.set(&scratch, f.text); err != nil {
		return v, err
	}
	v.parsed = f.key.fieldOf(reflect.ValueOf(scratch))
	return v, nil
}

// give puts the value into a Config.
func (v topicValue) give(c *Config) { v.key.fieldOf(reflect.ValueOf(c).Elem()).Set(v.parsed) }

// Match is the topic name or the glob of the rule.
func (r TopicRule) Match() string { return r.match }

// Origin is where the rule stands, FILE:LINE.
func (r TopicRule) Origin() string { return r.origin }

// String shows the rule in one line.
func (r TopicRule) String() string {
	parts := []string{r.match}
	for _, v := range r.values {
		parts = append(parts, v.name+"="+strings.TrimSpace(v.text))
	}
	if r.wire != nil {
		parts = append(parts, wireKey+"="+r.wire.String())
	}
	return strings.Join(parts, " ")
}

// Settings returns what the rule sets.
func (r TopicRule) Settings() []Setting {
	var c Config
	settings := make([]Setting, len(r.values))
	for i, v := range r.values {
		v.give(&c)
		settings[i] = Setting{Name: v.name, Value: v.key.value(c), Text: v.key.text(c), Origin: v.origin.text}
	}
	if r.wire != nil {
		settings = append(settings, Setting{Name: wireKey, Value: r.wire.String(), Text: r.wire.String(), Origin: r.wireOrigin})
	}
	return settings
}

func (r TopicRule) sets(name string) bool {
	return slices.ContainsFunc(r.values, func(v topicValue) bool { return v.name == name })
}

// forTopic returns the Config with the rules for a topic applied to the sections, from the first to the
// last. It notes in origins, unless that is nil, where each value that a rule gave came from, by name.
func (c Config) forTopic(topic string, origins map[string]string) Config {
	for _, r := range c.Topics {
		if !fits(r.match, topic) {
			continue
		}
		for _, v := range r.values {
			v.give(&c)
			if origins != nil {
				origins[v.name] = v.origin.text + ", topics: " + r.match
			}
		}
	}
	return c
}

// TopicSettings returns the settings of a topic: the values of the sections outbox, dlq and kafka,
// changed by every rule of the section topics that matches the name, one after the other as they stand
// in the file. A rule changes only what it names, and a later rule wins over an earlier one. Where rules
// that were checked apart leave the longest retry delay below the first, it is raised to that.
func (c Config) TopicSettings(topic string) relay.TopicSettings {
	w, _ := c.wireOf(topic)
	c = c.forTopic(topic, nil)
	s := relay.TopicSettings{
		Retry:                retry.Default(),
		AfterLastAttempt:     relay.Policy(c.Outbox.AfterLastAttempt),
		DLQTopic:             c.DLQ.Topic,
		MaxMessageBytes:      c.Kafka.MaxMessageBytes,
		RouteDeadLetterAfter: c.Outbox.RouteDeadLetterAfter,
		MaxAge:               c.Outbox.MaxAge,
		CommitOrder:          c.Outbox.CommitOrder,
		BreakerEvents:        c.Outbox.StormEvents,
		BreakerWindow:        c.Outbox.StormWindow,
		Wire:                 w,
	}
	s.Retry.MaxAttempts, s.Retry.Base = c.Outbox.MaxAttempts, c.Outbox.RetryBase
	s.Retry.Max = max(c.Outbox.RetryMax, c.Outbox.RetryBase)
	if s.BreakerEvents == 0 {
		s.BreakerEvents = -1 // never; there 0 is the default
	}
	return s
}

// wireOf returns what the last rule that matches a topic and has a wire says of it, and where that stands; nil for none.
func (c Config) wireOf(topic string) (w *wire.Rule, origin string) {
	for _, r := range c.Topics {
		if r.wire != nil && fits(r.match, topic) {
			w, origin = r.wire, r.wireOrigin+", topics: "+r.match
		}
	}
	return w, origin
}

// ExplainTopic returns the settings of a topic under the names of the section topics, each with where
// it came from. wire is among them where a rule says it.
func (c Config) ExplainTopic(topic string) []Setting {
	origins := map[string]string{}
	own := c.forTopic(topic, origins)
	settings := make([]Setting, len(topicKeys))
	for i, t := range topicKeys {
		k, _ := named(t.standard)
		origin := origins[t.name]
		if origin == "" {
			origin = c.origin(k) + ", " + t.standard
		}
		settings[i] = Setting{Name: t.name, Value: k.value(own), Text: k.text(own), Origin: origin}
	}
	if w, origin := c.wireOf(topic); w != nil {
		settings = append(settings, Setting{Name: wireKey, Value: w.String(), Text: w.String(), Origin: origin})
	}
	return settings
}

// RulesFor returns the rules that match a topic, in the order in which they apply.
func (c Config) RulesFor(topic string) []TopicRule {
	return slices.DeleteFunc(slices.Clone(c.Topics), func(r TopicRule) bool { return !fits(r.match, topic) })
}

// DLQTopicOf returns the dead-letter topic of a topic's events.
func (c Config) DLQTopicOf(topic string) string { return c.TopicSettings(topic).DLQTopic }

// DLQTopics returns every dead-letter topic that an event may go to, each once: dlq.topic first, then the topics of the
// rules.
func (c Config) DLQTopics() []string {
	topics := []string{c.DLQ.Topic}
	for _, r := range c.Topics {
		for _, v := range r.values {
			if v.name == "dlq_topic" && !slices.Contains(topics, v.parsed.String()) {
				topics = append(topics, v.parsed.String())
			}
		}
	}
	return topics
}

// CollectedTopics returns the dead-letter topics that the collector reads by name, each once: the topics that events may
// go to, that of consumers, and the topics of collector.topics.
func (c Config) CollectedTopics() []string {
	topics := c.DLQTopics()
	for _, topic := range append([]string{c.DLQ.ConsumerTopic}, c.Collector.Topics...) {
		if !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	return topics
}

// describe names a rule's value for a message.
func (v topicValue) describe(match string) string {
	return fmt.Sprintf("%s of the rule for %s", v.name, shown(match))
}

// The uses of Postrider's own topics, as OwnTopics has them.
const (
	ownDeadLetters = "dead letters"
	ownLifecycle   = "lifecycle events"
	ownConsumers   = "dead letters of consumers"
)

// OwnTopics returns the topics that Postrider itself and its library write, each with what for: every dead-letter topic that an
// event may go to, that of consumers, and that of lifecycle events. Services may not write events for them. No setting names the
// retry topics of consumers: they are their groups'.
func (c Config) OwnTopics() map[string]string {
	own := map[string]string{}
	if c.Tasks.LifecycleTopic != "" {
		own[c.Tasks.LifecycleTopic] = ownLifecycle
	}
	own[c.DLQ.ConsumerTopic] = ownConsumers
	for _, topic := range c.DLQTopics() {
		own[topic] = ownDeadLetters
	}
	return own
}

// AttemptRules returns after how many attempts events are given up, each with a regular expression of the topics: of those
// that match a topic the last counts. The first is for all.
func (c Config) AttemptRules() (topics []string, attempts []int) {
	topics, attempts = []string{""}, []int{c.Outbox.MaxAttempts}
	for _, r := range c.Topics {
		for _, v := range r.values {
			if v.name == "max_attempts" {
				var own Config
				v.give(&own)
				topics, attempts = append(topics, matching(r.match)), append(attempts, own.Outbox.MaxAttempts)
			}
		}
	}
	return topics, attempts
}

// LongestRetry is as long as the delay between the attempts of any topic's events can be, jitter included.
func (c Config) LongestRetry() time.Duration {
	longest := max(c.Outbox.RetryMax, c.Outbox.RetryBase) // see TopicSettings
	for _, r := range c.Topics {
		for _, v := range r.values {
			var own Config
			v.give(&own)
			longest = max(longest, own.Outbox.RetryMax, own.Outbox.RetryBase)
		}
	}
	return longest + time.Duration(float64(longest)*retry.Default().Jitter)
}
