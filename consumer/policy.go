package consumer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider/message"
)

// Mode says what waits while a failed message does.
type Mode string

const (
	// Tiers: nothing waits. The message goes to a retry topic of this group and comes back when it is due, so later
	// messages of its key overtake it. After the last tier it goes to the dead-letter topic.
	Tiers Mode = "tiers"
	// Ordered: the messages of its key wait, and other keys pass. The message stays in memory with the later ones of
	// its key behind it, and the partition's offset does not pass it. When Config.MaxAhead messages are ahead of it the
	// partition waits, too. A message without a key waits alone.
	Ordered Mode = "ordered"
	// Blocking: its partition waits.
	Blocking Mode = "blocking"
)

// Policy says what becomes of the messages of a topic that cannot be handled.
type Policy struct {
	// Mode defaults to Tiers.
	Mode Mode
	// Delays are how long a message waits after its first failed attempt, its second and so on; after one attempt
	// more than there are delays it is given up. In the mode Tiers each needs a topic, see RetryTopic. An empty
	// slice that is not nil gives up after the first attempt. Defaults to 1s, 10s, 30s, 2m.
	Delays []time.Duration
	// Endless repeats the last delay until the message is handled, or fails for good. Not in the mode Tiers.
	// Defaults to false.
	Endless bool
	// DeadLetterTopic is the topic for messages that are given up. Defaults to "postrider.consumer.dlq".
	DeadLetterTopic string
	// HandleTimeout bounds one call of the handler, which sees it as its context's deadline; 0 is no bound. A slow
	// handler does not lose its partitions. Defaults to 0.
	HandleTimeout time.Duration
	// Breaker bounds how much of the topic is given up. Its zero value has the defaults of its fields.
	Breaker Breaker
}

// Breaker is the circuit breaker that keeps a consumer from giving up a whole topic. When Consecutive or Ratio is
// passed, the topic pauses in this process. After Pause one message is tried. When it is handled, the topic goes on.
// When it fails, it is given up, and the pause doubles up to MaxPause.
type Breaker struct {
	// Off switches it off. Defaults to false.
	Off bool
	// Consecutive is how many messages may be given up with none handled between. Defaults to 100.
	Consecutive int
	// Ratio is the largest share of the last Window messages that may be given up, above 0 to 1; it counts from a tenth
	// of Window on. Defaults to 0.5.
	Ratio float64
	// Window is about how many messages Ratio looks at. Defaults to 1000.
	Window int
	// Pause is the first pause. Defaults to 30s.
	Pause time.Duration
	// MaxPause is the longest. Defaults to 5m.
	MaxPause time.Duration
}

// DefaultDeadLetterTopic is the default of Policy.DeadLetterTopic. It is none of the topics that relays write their dead letters to:
// brokers let consumers write to this one alone.
const DefaultDeadLetterTopic = "postrider.consumer.dlq"

// DefaultDelays returns the default of Policy.Delays.
func DefaultDelays() []time.Duration {
	return []time.Duration{time.Second, 10 * time.Second, 30 * time.Second, 2 * time.Minute}
}

func (p Policy) withDefaults() Policy {
	if p.Mode == "" {
		p.Mode = Tiers
	}
	if p.Delays == nil {
		p.Delays = DefaultDelays()
	}
	p.Delays = slices.Clone(p.Delays)
	if p.DeadLetterTopic == "" {
		p.DeadLetterTopic = DefaultDeadLetterTopic
	}
	s := &p.Breaker
	setDefault(&s.Consecutive, 100)
	setDefault(&s.Ratio, 0.5)
	setDefault(&s.Window, 1000)
	setDefault(&s.Pause, 30*time.Second)
	setDefault(&s.MaxPause, max(5*time.Minute, s.Pause))
	return p
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (p Policy) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Mode != Tiers && p.Mode != Ordered && p.Mode != Blocking {
		fail("Mode is %q, it must be tiers, ordered or blocking", p.Mode)
	}
	for i, d := range p.Delays {
		if d <= 0 {
			fail("Delays[%d] is %v, it must be positive", i, d)
		}
		if p.Mode == Tiers && slices.Index(p.Delays, d) < i {
			fail("Delays[%d] is %v once more: each tier is a topic of its own delay", i, d)
		}
		if p.Mode == Tiers && d%time.Millisecond != 0 {
			fail("Delays[%d] is %v, a retry topic's is in whole milliseconds", i, d)
		}
	}
	if p.Endless && (p.Mode == Tiers || len(p.Delays) == 0) {
		fail("Endless needs the mode ordered or blocking, and a delay")
	}
	if err := message.ValidTopic(p.DeadLetterTopic); err != nil {
		fail("DeadLetterTopic: %w", err)
	}
	if p.HandleTimeout < 0 {
		fail("HandleTimeout is %v, it must not be negative", p.HandleTimeout)
	}
	s := p.Breaker
	if s.Consecutive < 1 || s.Window < 10 || !(s.Ratio > 0 && s.Ratio <= 1) {
		fail("Breaker is %d consecutive, %v of %d: it needs at least 1, above 0 to 1, and at least 10", s.Consecutive, s.Ratio, s.Window)
	}
	if s.Pause <= 0 || s.MaxPause < s.Pause {
		fail("Breaker pauses for %v to %v: the first must be positive and not the longer one", s.Pause, s.MaxPause)
	}
	return errors.Join(errs...)
}
