// Command victim is a relay that kills itself, as kill -9 would, at a chosen step of its cycle. It is
// the real engine with the real adapters; only the ports are wrapped.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/kafka"
	"github.com/postrider/postrider/relay/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "victim:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	pool, err := postgres.NewPool(ctx, os.Getenv("DATABASE_URL"), postgres.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: strings.Split(os.Getenv("KAFKA_BROKERS"), ","), Logger: log})
	if err != nil {
		return err
	}
	defer publisher.Close()
	d := &death{step: os.Getenv("VICTIM_STEP")}
	if ms, err := strconv.Atoi(os.Getenv("VICTIM_AFTER_MS")); err == nil {
		d.after = time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	r, err := relay.New(relay.Config{
		Store:     &dyingStore{postgres.NewStore(pool, postgres.StoreOptions{DeletePublished: os.Getenv("VICTIM_DELETE") != ""}), d},
		Publisher: &dyingPublisher{publisher, d}, Logger: log, BatchSize: 500,
		TopicSettings: relay.ForAll(relay.TopicSettings{DLQTopic: os.Getenv("VICTIM_DLQ")}),
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}
