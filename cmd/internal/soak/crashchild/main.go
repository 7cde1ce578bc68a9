// Command crashchild is a relay that kills itself, as kill -9 would, at a chosen step of its cycle. It is
// the real engine with the real adapters; only the ports are wrapped. The step comes with a time from the
// environment, or at any time from the standard input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/relay/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "crashchild:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	pool, err := openPool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	settings := kafka.Config{Brokers: strings.Split(os.Getenv("KAFKA_BROKERS"), ","), Logger: log}
	if a, err := openAcks(); err != nil {
		return err
	} else if a != nil {
		settings.Options = append(settings.Options, kgo.WithHooks(a))
	}
	publisher, err := kafka.NewPublisher(settings)
	if err != nil {
		return err
	}
	defer publisher.Close()
	d := &death{}
	switch after := milliseconds("CRASHCHILD_AFTER_MS"); {
	case after == 0:
	case os.Getenv("CRASHCHILD_AFTER_WORK") != "":
		d.chooseAfterWork(os.Getenv("CRASHCHILD_STEP"), after)
	default:
		d.choose(os.Getenv("CRASHCHILD_STEP"), time.Now().Add(after))
	}
	if os.Getenv("CRASHCHILD_CONTROL") != "" {
		go obey(d)
	}
	r, err := relay.New(relay.Config{
		Store:     &dyingStore{postgres.NewStore(pool, postgres.StoreOptions{LeaderSilence: milliseconds("CRASHCHILD_LEADER_SILENCE_MS")}), d},
		Publisher: &dyingPublisher{publisher, d}, Logger: log, BatchSize: 500,
		TopicSettings:  relay.ForAll(relay.TopicSettings{DLQTopic: os.Getenv("CRASHCHILD_DLQ"), BreakerEvents: -1}),
		PublishTimeout: milliseconds("CRASHCHILD_PUBLISH_TIMEOUT_MS"),
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// milliseconds reads a duration from the environment; 0 leaves the default.
func milliseconds(name string) time.Duration {
	ms, _ := strconv.Atoi(os.Getenv(name))
	return time.Duration(ms) * time.Millisecond
}

// obey reads from the standard input at which step to die, one a line. When the input ends, the process that
// started this one has ended, and this one ends, too.
func obey(d *death) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		d.choose(in.Text(), time.Now())
	}
	die()
}

// openPool opens the relay's own pool, with another end to idle transactions if the environment says so.
func openPool(ctx context.Context) (*pgxpool.Pool, error) {
	pool, err := postgres.NewPool(ctx, os.Getenv("DATABASE_URL"), postgres.Options{PublishTimeout: milliseconds("CRASHCHILD_PUBLISH_TIMEOUT_MS")})
	idle := milliseconds("CRASHCHILD_IDLE_TRANSACTION_MS")
	if err != nil || idle == 0 {
		return pool, err
	}
	defer pool.Close()
	cfg := pool.Config()
	// After the pool's own, which sets all that its sessions get.
	own := cfg.BeforeConnect
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		if err := own(ctx, c); err != nil {
			return err
		}
		c.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(idle.Milliseconds(), 10)
		return nil
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}
