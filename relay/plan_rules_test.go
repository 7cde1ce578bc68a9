package relay

import (
	"slices"
	"testing"

	"github.com/postrider/postrider/relay/outbox"
)

// planCase is a batch, the outcomes of what is sent of it, and what is decided about all of it.
type planCase struct {
	rules    rules
	batch    Batch
	sent     []int64
	outcomes []Outcome // of those that are sent
	want     string
}

func (c *planCase) run(t *testing.T) {
	t.Helper()
	p := newPlan(&c.batch, c.rules)
	if got := sentIDs(p); !slices.Equal(got, c.sent) {
		t.Fatalf("sent %v, want %v", got, c.sent)
	}
	if len(c.outcomes) != len(c.sent) {
		t.Fatalf("the case has %d outcomes for %d events", len(c.outcomes), len(c.sent))
	}
	for i := range c.outcomes {
		p.settle(i, &c.outcomes[i])
	}
	if got := describe(p.settlement()); got != c.want {
		t.Errorf("settlement:\n%s\nwant:\n%s", got, c.want)
	}
}

func runPlanCases(t *testing.T, cases map[string]planCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(t)
		})
	}
}

func events(es ...outbox.Event) []outbox.Event { return es }

// outcomes are outcomes of these classes, each with its class for a code.
func outcomes(classes ...Class) []Outcome {
	var os []Outcome
	for _, c := range classes {
		o := Outcome{Class: c, Code: string(c), Message: "why"}
		if c == Delivered {
			o = Outcome{Class: c}
		}
		os = append(os, o)
	}
	return os
}

// through is what a hold has let through in the tests' shard.
func through(id int64) map[int16]int64 { return map[int16]int64{3: id} }

func onKey(id int64, key string, h Hold) *Hold {
	h.ID, h.Scope, h.Topic, h.Key = id, ScopeKey, "t", []byte(key)
	return &h
}

func onTopic(id int64, h Hold) *Hold {
	h.ID, h.Scope, h.Topic = id, ScopeTopic, "t"
	return &h
}

// onPartition is a hold of one of n partitions. The fakes put a key on the partition len(key) % n.
func onPartition(id int64, partition, n int32, h Hold) *Hold {
	h.ID, h.Scope, h.Topic, h.Partition, h.Partitions = id, ScopePartition, "t", partition, n
	return &h
}
