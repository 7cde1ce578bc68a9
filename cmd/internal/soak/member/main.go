// Command member is a member of a consumer group for the churn run: it writes a line for each message that it handles,
// before it is done with it, and ends when it is told to or when its parent is gone.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/kafka"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the parent
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	concurrency, err := strconv.Atoi(os.Getenv("MEMBER_CONCURRENCY"))
	if err != nil {
		return fmt.Errorf("MEMBER_CONCURRENCY: %w", err)
	}
	client, err := kafka.NewClient(kafka.Config{Brokers: strings.Split(os.Getenv("KAFKA_BROKERS"), ","), SessionTimeout: 6 * time.Second})
	if err != nil {
		return err
	}
	topic := os.Getenv("MEMBER_TOPIC")
	c, err := consumer.New(consumer.Config{Client: client, Group: topic, Topics: []string{topic}, Concurrency: concurrency,
		CommitInterval: 500 * time.Millisecond,
		Policy:         consumer.Policy{Mode: consumer.Ordered, DeadLetterTopic: topic + ".dlq"}},
		consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			// One write, so that a death leaves whole lines.
			_, err := fmt.Fprintf(os.Stdout, "%d %s %s\n", time.Now().UnixNano(), m.Key, m.Value)
			return err
		}))
	if err != nil {
		return err
	}
	return c.Run(ctx)
}
