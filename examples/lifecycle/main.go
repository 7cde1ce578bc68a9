// Command lifecycle keeps the present state of each task in a table of its own, from the lifecycle events that
// Postrider writes to Kafka. Its README says how to run it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := consume(ctx, log); err != nil && !errors.Is(err, context.Canceled) {
		log.Error("ended", "err", err)
		return 1
	}
	return 0
}

// setting is a variable of the environment, or what it is without one.
func setting(name, without string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return without
}

func consume(ctx context.Context, log *slog.Logger) error {
	database := os.Getenv("DATABASE_URL")
	if database == "" {
		return errors.New("DATABASE_URL is empty: give the database in which the states are kept")
	}
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schemaSQL); err != nil {
		return fmt.Errorf("create the table: %w", err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(setting("KAFKA_BROKERS", "localhost:9092"), ",")...),
		kgo.ConsumerGroup(setting("GROUP", "lifecycle-example")),
		kgo.ConsumeTopics(strings.Split(setting("TOPICS", "postrider.lifecycle"), ",")...),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), // what was before this group began is state, too
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // and so is the rest of the topic after a gap
		kgo.SessionTimeout(10*time.Second),                // how long the partitions of one that died wait
		kgo.DisableAutoCommit(),                           // an offset is committed when its states are
	)
	if err != nil {
		return err
	}
	defer client.Close()
	states := states{pool: pool, log: log}
	for {
		fetches := client.PollRecords(ctx, 500)
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, failed := range fetches.Errors() { // the client goes on by itself
			log.Warn("not read", "topic", failed.Topic, "partition", failed.Partition, "err", failed.Err)
		}
		records := fetches.Records()
		if len(records) == 0 {
			continue
		}
		if err := states.apply(ctx, records); err != nil {
			return err
		}
		// Not committed, they come again and change nothing.
		if err := client.CommitRecords(ctx, records...); err != nil && ctx.Err() == nil {
			log.Warn("offsets not committed", "err", err)
		}
	}
}
