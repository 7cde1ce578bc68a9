package kafka

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

func withPattern(pattern string, exclude ...string) func(*Config) {
	return func(c *Config) {
		c.Patterns, c.Exclude, c.Discover = []string{pattern}, exclude, 50*time.Millisecond
	}
}

// TestPatterns reads a topic that is named, one that a pattern fits, and one that is created later; and none that the
// pattern fits and must not be read.
func TestPatterns(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		named := b.Topic(t, 1, nil)
		there, later, lifecycle := named+"-a-dlt", named+"-b.dlq", named+"-life-dlt"
		for _, topic := range []string{there, lifecycle, named + ".retry.10s", named + "-plain"} {
			b.CreateTopic(t, topic, 1, nil)
			produce(t, b, numbered(topic, 0, 1)...)
		}
		s := newSource(t, b, withPattern(`\Q`+named+`\E.*([-.](dlq|dlt)|retry\.10s)`, lifecycle), named)
		got, _ := read(t, s, 1)
		if got[0].Topic != there {
			t.Errorf("read %s", got[0].Topic)
		}
		b.CreateTopic(t, later, 2, nil)
		produce(t, b, append(numbered(later, 0, 2), append(numbered(later, 1, 1), numbered(named, 0, 1)...)...)...)
		got, errs := read(t, s, 4)
		count := map[string]int{}
		for _, r := range got {
			count[r.Topic]++
		}
		if count[later] != 3 || count[named] != 1 {
			t.Errorf("read %v, errors %v", count, errs)
		}
		nothing(t, s)
	})
}

// TestPatternsRecreated deletes a topic that a pattern found, and creates it again with more letters.
func TestPatternsRecreated(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		named := b.Topic(t, 1, nil)
		found := named + "-dlt"
		b.CreateTopic(t, found, 1, nil)
		produce(t, b, numbered(found, 0, 5)...)
		s := newSource(t, b, withPattern(`\Q`+named+`\E-dlt`), named)
		got, _ := read(t, s, 5)
		wantOffsets(t, got, 0, 4)
		if _, err := b.Admin(t).DeleteTopic(within(t, patience), found); err != nil {
			t.Fatal(err)
		}
		gone(t, b, found)
		for ctx := within(t, patience); slices.Contains(s.client.GetConsumeTopics(), found); {
			if ctx.Err() != nil {
				t.Fatalf("still reads %v", s.client.GetConsumeTopics())
			}
			nothing(t, s)
		}
		b.CreateTopic(t, found, 1, nil)
		produce(t, b, numbered(found, 0, 7)...)
		got, errs := read(t, s, 7)
		wantOffsets(t, got, 0, 6)
		t.Logf("errors on the way: %v", errs)
	})
}

func TestDiscoveryForgetsSlowly(t *testing.T) {
	t.Parallel()
	d, err := newDiscovery(Config{Topics: []string{"named-dlt"}, Exclude: []string{"life-dlt"}, Patterns: []string{`.*-dlt`}})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct{ there, found, gone string }{
		{"a-dlt named-dlt life-dlt orders x.retry.1-dlt", "a-dlt", ""},
		{"a-dlt b-dlt", "b-dlt", ""},
		{"b-dlt", "", ""},
		{"a-dlt b-dlt", "", ""}, // the broker had only just started
		{"b-dlt", "", ""},
		{"b-dlt", "", "a-dlt"},
		{"b-dlt", "", ""},
		{"a-dlt b-dlt", "a-dlt", ""},
	} {
		found, gone := d.look(strings.Fields(step.there))
		if strings.Join(found, " ") != step.found || strings.Join(gone, " ") != step.gone {
			t.Errorf("step %d: found %v, gone %v", i, found, gone)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*Config){
		"fits about every topic": withPattern(".*"),
		"regular expression":     withPattern("("),
		"Discover is":            func(c *Config) { c.Discover = -1 },
	} {
		cfg := Config{Brokers: []string{"127.0.0.1:1"}, Topics: []string{"t"}}
		change(&cfg)
		if _, err := NewSource(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
