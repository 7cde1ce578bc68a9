package kafka

import (
	"errors"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// What was not committed waits, whether it was read or not; a topic that does not exist has nothing that waits.
func TestLag(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 2, nil)
		produce(t, b, numbered(topic, 0, 7)...)
		produce(t, b, numbered(topic, 1, 3)...)
		s := newSource(t, b, func(c *Config) { c.MaxRecords = 2 }, topic, topic+"-missing")
		lag := func() map[string]int64 {
			t.Helper()
			ctx := within(t, patience)
			for {
				got, err := Lag(ctx, kadm.NewClient(s.client), topic, topic, topic+"-missing")
				// A cluster that never had a group has no coordinator yet.
				if errors.Is(err, kerr.CoordinatorNotAvailable) && ctx.Err() == nil {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
		}
		if got := lag(); !maps.Equal(got, map[string]int64{topic: 10}) {
			t.Errorf("before anything was read: %v", got)
		}
		got, _ := read(t, s, 2)
		if got := lag(); got[topic] != 8 {
			t.Errorf("after two of ten: %v", got)
		}
		if rest, _ := read(t, s, 8); len(got)+len(rest) != 10 {
			t.Fatalf("%d records", len(got)+len(rest))
		}
		if got, err := s.Lag(within(t, patience)); err != nil || !maps.Equal(got, map[string]int64{topic: 0}) {
			t.Errorf("at the end: %v, %v", got, err)
		}
		if got, err := Lag(within(t, patience), kadm.NewClient(s.client), topic); err != nil || len(got) != 0 {
			t.Errorf("of no topics: %v, %v", got, err)
		}
	})
}
