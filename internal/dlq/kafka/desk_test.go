package kafka

import (
	"errors"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestTwoDesksAreToldApart: a desk whose collectors were given the group of another one is told so by name and takes no part in it,
// whether that one reads at the moment or not. The other desk reads on, and all of its letters.
func TestTwoDesksAreToldApart(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 2, nil)
		of := func(desk string, earlier ...string) *Source {
			return newSource(t, b, func(c *Config) { c.Desk, c.EarlierDesks = desk, earlier }, topic)
		}
		produce(t, b, append(numbered(topic, 0, 3), numbered(topic, 1, 3)...)...)
		first := of("desk-a")
		read(t, first, 6)

		second := of("desk-b")
		refused := func(s *Source) {
			t.Helper()
			records, err := s.Poll(within(t, patience))
			if !errors.Is(err, ErrOtherDesk) || len(records) > 0 || !strings.Contains(err.Error(), "desk-a") || !strings.Contains(err.Error(), "dlq.group") {
				t.Fatalf("the other desk read %d records, and %v", len(records), err)
			}
			if err := s.Ping(within(t, patience)); err != nil {
				t.Error(err)
			}
		}
		refused(second)
		produce(t, b, append(numbered(topic, 0, 3), numbered(topic, 1, 3)...)...)
		read(t, first, 6)
		members := func() []string {
			groups, err := b.Admin(t).DescribeGroups(within(t, patience), topic)
			if err != nil || groups[topic].Err != nil {
				t.Fatal(err, groups[topic].Err)
			}
			var ids []string
			for _, m := range groups[topic].Members {
				ids = append(ids, m.MemberID)
			}
			return ids
		}
		if n := members(); len(n) != 1 {
			t.Errorf("the group has the members %q", n)
		}
		first.Close()
		refused(of("desk-b"))

		if desk, err := GroupDesk(within(t, patience), b.Admin(t), topic); err != nil || desk != "desk-a" {
			t.Errorf("the group is of %q, %v", desk, err)
		}
		// A desk that takes the place of another says so.
		heir := of("desk-b", "desk-a")
		produce(t, b, append(numbered(topic, 0, 1), numbered(topic, 1, 1)...)...)
		read(t, heir, 2)
		heir.Close()
		again := of("desk-b")
		produce(t, b, numbered(topic, 0, 1)...)
		read(t, again, 1)
	})
}

// TestACommitOfAnotherDeskEndsAMembership: a group that two desks joined while it had no commits belongs to the one that commits
// first. The other is told so by its next assignment.
func TestACommitOfAnotherDeskEndsAMembership(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	one := newSource(t, b, func(c *Config) { c.Desk = "desk-a" }, topic)
	produce(t, b, numbered(topic, 0, 1)...)
	read(t, one, 1)
	one.Close()
	produce(t, b, numbered(topic, 0, 1)...)

	other := newSource(t, b, func(c *Config) { c.Desk = "desk-b" }, topic)
	other.member.admitted.Store(true) // it looked before the commit was there
	other.client.AddConsumeTopics(topic)
	for ctx := within(t, patience); ; {
		records, err := other.Poll(ctx)
		if errors.Is(err, ErrOtherDesk) && !other.member.admitted.Load() {
			return
		}
		if len(records) > 0 || ctx.Err() != nil {
			t.Fatalf("it read %d records, and %v", len(records), err)
		}
	}
}
