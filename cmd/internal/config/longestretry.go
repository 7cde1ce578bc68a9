package config

import (
	"time"

	"github.com/postrider/postrider/retry"
)

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
