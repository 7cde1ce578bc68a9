// Command orders is a service that consumes order events and counts, for each customer, what was ordered: exactly once,
// whatever is delivered twice. Its README says how to run it.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/consumer/kafka"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := settingsOf(os.Getenv)
	if err == nil {
		err = serve(ctx, s, log)
	}
	if err != nil {
		log.Error("ended", "err", err)
		return 1
	}
	return 0
}

// settings are the variables of the environment; the README explains them.
type settings struct {
	database, topic, group, deadLetters string
	brokers                             []string
	delays                              []time.Duration
	retention                           time.Duration
}

func settingsOf(getenv func(string) string) (settings, error) {
	or := func(name, without string) string {
		if value := getenv(name); value != "" {
			return value
		}
		return without
	}
	s := settings{
		database: getenv("DATABASE_URL"), brokers: strings.Split(or("KAFKA_BROKERS", "localhost:9092"), ","),
		topic: or("TOPIC", "orders"), group: or("GROUP", "order-totals"), deadLetters: or("DLQ_TOPIC", consumer.DefaultDeadLetterTopic),
	}
	if s.database == "" {
		return s, fmt.Errorf("DATABASE_URL is empty: give the database of this service")
	}
	for text := range strings.SplitSeq(or("RETRY_DELAYS", "1s,10s,30s,2m"), ",") {
		delay, err := time.ParseDuration(text)
		if err != nil {
			return s, fmt.Errorf("RETRY_DELAYS: %w", err)
		}
		s.delays = append(s.delays, delay)
	}
	var err error
	if s.retention, err = time.ParseDuration(or("INBOX_RETENTION", "720h")); err != nil {
		return s, fmt.Errorf("INBOX_RETENTION: %w", err)
	}
	return s, nil
}

func serve(ctx context.Context, s settings, log *slog.Logger) error {
	pool, err := pgxpool.New(ctx, s.database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schemaSQL); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	if err := inbox.Migrate(ctx, pool); err != nil {
		return err
	}
	processor, err := inbox.New(pool, inbox.Options{Group: s.group})
	if err != nil {
		return err
	}
	client, err := kafka.NewClient(kafka.Config{Brokers: s.brokers, CreateTopics: true, Logger: log})
	if err != nil {
		return err
	}
	c, err := consumer.New(consumer.Config{
		Client: client, Group: s.group, Topics: []string{s.topic}, Logger: log,
		Concurrency: 4, // customers do not wait for one another; orders of one key do
		Policy:      consumer.Policy{Delays: s.delays, DeadLetterTopic: s.deadLetters},
	}, handler(processor))
	if err != nil {
		return err
	}
	purged := make(chan error, 1)
	purging, stop := context.WithCancel(ctx)
	go func() {
		purged <- inbox.RunPurger(purging, pool, inbox.PurgerOptions{OlderThan: s.retention, Logger: log})
	}()
	err = c.Run(ctx)
	stop()
	if purgeErr := <-purged; err == nil {
		err = purgeErr
	}
	return err
}
