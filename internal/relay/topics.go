package relay

import (
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/wire"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/retry"
)

// Policy says what becomes of a key when one of its events was given up.
type Policy string

const (
	// PolicyContinue lets the later events of the key go once the event is committed as exhausted.
	PolicyContinue Policy = "continue"
	// PolicyHaltKey holds the later events of the key until an operator puts the event back in its place or
	// releases the key.
	PolicyHaltKey Policy = "halt_key"
)

// DefaultDLQTopic is the dead-letter topic where the settings name no other.
const DefaultDLQTopic = "postrider.dlq"

// TopicSettings are the rules for the events of one topic.
type TopicSettings struct {
	// Retry is the policy for events that fail by their own fault. Defaults to retry.Default.
	Retry retry.Policy
	// AfterLastAttempt decides about the key of an event that was given up. Defaults to PolicyContinue.
	AfterLastAttempt Policy
	// DLQTopic is the dead-letter topic. Defaults to DefaultDLQTopic.
	DLQTopic string
	// MaxMessageBytes is the largest record to send, in bytes; it should be the topic's max.message.bytes.
	// Defaults to 0, the publisher's limit; a larger value changes nothing.
	MaxMessageBytes int
	// RouteDeadLetterAfter gives up events of a topic that has been missing or refused for so long.
	// Defaults to 0, never: they wait until the topic is there.
	RouteDeadLetterAfter time.Duration
	// MaxAge gives up events that could not be sent for so long because brokers, leaders or the topic were
	// away: that is how old the hold of their topic or partition must be, and they themselves. Defaults to 0,
	// never. Whether an event without an answer arrived is not known then, so it may be in its topic and in
	// the dead-letter topic.
	MaxAge time.Duration
	// CommitOrder publishes an event only when no transaction can commit an earlier one any more, for
	// writers that do not serialise on a key. A long transaction on the outbox delays the topic. Defaults
	// to false.
	CommitOrder bool
	// BreakerEvents and BreakerWindow open a circuit breaker: if more than BreakerEvents were given up with one code
	// within BreakerWindow, further events that fail with it are parked instead, and all others go. If BreakerEvents is
	// negative, there is no circuit breaker. Default to 100 and 1m.
	BreakerEvents int
	BreakerWindow time.Duration
	// Wire has the events sent as Debezium's event router sends its records, without headers of ours; docs/design/wire.md
	// says what their rows have. Defaults to nil: an event is sent as it stands.
	Wire *wire.Rule
}

func (s TopicSettings) withDefaults() TopicSettings {
	if s.Retry == (retry.Policy{}) {
		s.Retry = retry.Default()
	}
	if s.AfterLastAttempt == "" {
		s.AfterLastAttempt = PolicyContinue
	}
	if s.DLQTopic == "" {
		s.DLQTopic = DefaultDLQTopic
	}
	if s.BreakerEvents == 0 {
		s.BreakerEvents = 100
	}
	if s.BreakerWindow == 0 {
		s.BreakerWindow = time.Minute
	}
	return s
}

// Validate returns an error that names the first setting out of range. Zero values stand for defaults.
func (s TopicSettings) Validate() error {
	s = s.withDefaults()
	if err := s.Retry.Validate(); err != nil {
		return err
	}
	if err := message.ValidTopic(s.DLQTopic); err != nil {
		return fmt.Errorf("dead-letter topic: %w", err)
	}
	switch {
	case s.AfterLastAttempt != PolicyContinue && s.AfterLastAttempt != PolicyHaltKey:
		return fmt.Errorf("policy after the last attempt is %q, it must be %s or %s", s.AfterLastAttempt, PolicyContinue, PolicyHaltKey)
	case s.MaxMessageBytes < 0:
		return fmt.Errorf("max message bytes is %d, it must not be negative", s.MaxMessageBytes)
	case s.RouteDeadLetterAfter < 0:
		return fmt.Errorf("route dead letter after is %v, it must not be negative", s.RouteDeadLetterAfter)
	case s.MaxAge < 0:
		return fmt.Errorf("max age is %v, it must not be negative", s.MaxAge)
	case s.BreakerWindow < 0:
		return fmt.Errorf("breaker window is %v, it must be positive", s.BreakerWindow)
	}
	return nil
}

// ForAll returns the same settings for every topic, for Config.TopicSettings.
func ForAll(s TopicSettings) func(topic string) TopicSettings {
	return func(string) TopicSettings { return s }
}
