package kafka

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestMissingTopics: a topic that is not there is missing, and so is a topic that the login may not see, with the broker's
// error; a topic beside them is not. No topic is created, also where brokers may. A publisher that is closed says so.
func TestMissingTopics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		there, hidden := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		p := newPublisher(t, b, func(c *Config) { c.AllowTopicCreation = true })
		fault(b, kmsg.Metadata, hidden, kerr.TopicAuthorizationFailed, 0)
		for range 2 {
			missing, err := p.MissingTopics(t.Context(), []string{"absent", there, hidden})
			if want := []string{"absent", hidden + " (TOPIC_AUTHORIZATION_FAILED)"}; err != nil || !slices.Equal(missing, want) {
				t.Errorf("missing are %q, %v, want %q", missing, err, want)
			}
		}
		if missing, err := p.MissingTopics(t.Context(), []string{there}); len(missing) > 0 || err != nil {
			t.Errorf("missing are %q, %v, want none", missing, err)
		}
		wantClients(t, p, 1, 1)
		p.Close()
		if missing, err := p.MissingTopics(t.Context(), []string{there}); !errors.Is(err, kgo.ErrClientClosed) || missing != nil {
			t.Errorf("closed: missing are %q, %v, want none and %v", missing, err, kgo.ErrClientClosed)
		}
	})
}
