package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/kafka"
	"github.com/postrider/postrider/message"
)

// order is what the topic's messages hold.
type order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// A consumer of orders: what it cannot decode or will never accept is given up at once, an outage is waited out in
// retry topics. The broker here is an in-process fake.
func Example() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", consumer.DefaultDeadLetterTopic))
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	publish(cluster, `{"id":"a","cents":100}`, `not JSON`, `{"id":"b","cents":-1}`, `{"id":"c","cents":300}`)

	client, err := kafka.NewClient(kafka.Config{Brokers: cluster.ListenAddrs(), CreateTopics: true})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	outage := true
	c, err := consumer.New(consumer.Config{
		Client: client,
		Group:  "billing",
		Topics: []string{"orders"},
		Policy: consumer.Policy{Delays: []time.Duration{100 * time.Millisecond, time.Second}},
	}, consumer.JSON(func(_ context.Context, m *consumer.Message, o order) error {
		switch {
		case o.Cents < 0:
			return consumer.PermanentAs(message.Validation, errors.New("a negative amount")) // it must be changed
		case o.ID == "c" && outage:
			outage = false
			return errors.New("the bank is away")
		}
		fmt.Printf("charged %s at attempt %d, read from %s\n", o.ID, m.Attempt(), m.Topic)
		if o.ID == "c" {
			stop()
		}
		return nil
	}))
	if err != nil {
		panic(err)
	}
	if err := c.Run(ctx); err != nil {
		panic(err)
	}
	for _, letter := range read(cluster, consumer.DefaultDeadLetterTopic, 2) {
		fmt.Println("dead letter:", letter)
	}
	// Output:
	// charged a at attempt 1, read from orders
	// charged c at attempt 2, read from orders.billing.retry.100ms
	// dead letter: not JSON
	// dead letter: {"id":"b","cents":-1} validation
}

func publish(cluster *kfake.Cluster, values ...string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	for _, v := range values {
		if err := client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte(v)}).FirstErr(); err != nil {
			panic(err)
		}
	}
}

func read(cluster *kfake.Cluster, topic string, n int) (values []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for len(values) < n && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			value := string(r.Value)
			for _, h := range r.Headers {
				if h.Key == message.HeaderErrorCategory {
					value += " " + string(h.Value)
				}
			}
			values = append(values, value)
		})
	}
	return values
}
