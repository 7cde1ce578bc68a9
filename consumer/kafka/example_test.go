package kafka_test

import (
	"context"
	"crypto/tls"
	"log"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/kafka"
)

// A client with TLS and a login. Package consumer has an example that runs.
func Example() {
	client, err := kafka.NewClient(kafka.Config{
		Brokers: strings.Split(os.Getenv("KAFKA_BROKERS"), ","),
		Options: []kgo.Opt{
			kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}),
			kgo.SASL(scram.Auth{User: "billing", Pass: os.Getenv("KAFKA_PASSWORD")}.AsSha512Mechanism()),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	c, err := consumer.New(consumer.Config{Client: client, Group: "billing", Topics: []string{"orders"}},
		consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			log.Printf("%s: %s", m.Topic, m.Value)
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
