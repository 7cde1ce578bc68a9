// Command member is a member of a consumer group for the churn run: it writes a line for each message that it is given,
// before it is done with it, and handles it in a database, through an inbox. It ends when it is told to or when its parent
// is gone.
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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/inbox"
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
	pool, err := pgxpool.New(context.Background(), os.Getenv("MEMBER_DATABASE"))
	if err != nil {
		return err
	}
	defer pool.Close()
	topic := os.Getenv("MEMBER_TOPIC")
	processor, err := inbox.New(pool, inbox.Options{Group: topic})
	if err != nil {
		return err
	}
	c, err := consumer.New(consumer.Config{Client: client, Group: topic, Topics: []string{topic}, Concurrency: concurrency,
		CommitInterval: 500 * time.Millisecond, Middleware: []consumer.Middleware{say},
		Policy: consumer.Policy{Mode: consumer.Ordered, DeadLetterTopic: topic + ".dlq"}},
		inbox.Handler(processor, func(ctx context.Context, tx pgx.Tx, m *consumer.Message) error {
			_, err := tx.Exec(ctx, `insert into effect (key, number) values ($1::text::int, $2::text::int)`, string(m.Key), string(m.Value))
			return err
		}))
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// say writes the line of a message when it comes, and not when it is tried again here.
func say(next consumer.Handler) consumer.Handler {
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		if m.Attempt() == 1 {
			// One write, so that a death leaves whole lines.
			if _, err := fmt.Fprintf(os.Stdout, "%d %s %s\n", time.Now().UnixNano(), m.Key, m.Value); err != nil {
				return err
			}
		}
		return next.Handle(ctx, m)
	})
}
