package check

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/kafkaauth"
)

const dialTimeout = 5 * time.Second

// Brokers returns what opens clients of the brokers of the settings. They give up soon.
func Brokers(c config.Kafka) func(...kgo.Opt) (*kgo.Client, error) {
	return func(more ...kgo.Opt) (*kgo.Client, error) {
		auth, err := kafkaauth.Options(c, dialTimeout)
		if err != nil {
			return nil, err
		}
		return kgo.NewClient(append(append(auth, kgo.SeedBrokers(c.Brokers...), kgo.ClientID(c.ClientID+"-check"), kgo.DialTimeout(dialTimeout),
			kgo.RetryTimeout(15*time.Second)), more...)...)
	}
}
