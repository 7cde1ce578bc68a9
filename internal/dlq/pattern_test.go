package dlq

import (
	"strings"
	"testing"
)

func TestTopicPatterns(t *testing.T) {
	t.Parallel()
	p, err := NewTopicPatterns([]string{`.*[-.](dlq|dlt|DLT)$`, `dead\.[a-z]+`})
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]bool{
		"orders-dlt": true, "orders.DLT": true, "a.b.dlq": true, "dead.letters": true,
		"orders": false, "orders-dlt-2": false, "dead.letters2": false, "undead.letters": false, "-dlq": true,
		"__consumer_offsets": false, "__internal-dlq": false, "orders.billing.retry.10s": false, "orders.retry.x-dlq": false,
	} {
		if p.Fits(topic) != want {
			t.Errorf("%s: %v", topic, !want)
		}
	}
	var none *TopicPatterns
	if none.Any() || none.Fits("a-dlq") {
		t.Error("no patterns choose a topic")
	}
}

func TestBadTopicPatterns(t *testing.T) {
	t.Parallel()
	for pattern, says := range map[string]string{
		"":                                     "must not be empty",
		"(":                                    "must be a regular expression",
		"a)|(?:b":                              "must be a regular expression",
		".*":                                   "fits about every topic",
		".+":                                   "fits about every topic",
		`[a-z0-9._-]*`:                         "fits about every topic",
		`.*dlq|.*`:                             "fits about every topic",
		strings.Repeat("x", MaxPatternBytes+1): "is longer than",
	} {
		if _, err := NewTopicPatterns([]string{"ok-dlq", pattern}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v, want %q", pattern, err, says)
		}
	}
}
