package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/demo"
)

// Options says what a development stack is made of.
type Options struct {
	// Config are the settings. The stack's own database and broker take the place of database.url
	// and kafka.brokers, and published events are always kept.
	Config config.Config
	// DataDir keeps the database and the broker's topics between runs; one process at a time uses
	// it. Defaults to empty: a temporary folder, removed at the end, and a broker in memory.
	DataDir string
	// KafkaPort and PostgresPort are ports on 127.0.0.1. Default to 0: DefaultKafkaPort and DefaultPostgresPort if they
	// are free, and otherwise free ones.
	KafkaPort, PostgresPort int
	// Demo runs the demonstration too. Defaults to false.
	Demo bool
	// Out receives the line that says that the stack is ready, how to look at it, and what the
	// demonstration has to say; and first of all, where there is no PostgreSQL, that one is fetched. Required.
	Out io.Writer
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// The ports on 127.0.0.1 that a stack takes where nothing else is said and they are free, so that addresses stay the same.
const (
	DefaultHTTPPort     = 18080
	DefaultPostgresPort = 15432
	DefaultKafkaPort    = 19092
)

// defaultAddress is where HTTP is served if it is free.
var defaultAddress = fmt.Sprintf("127.0.0.1:%d", DefaultHTTPPort)

// anyAddress is where HTTP is served otherwise.
const anyAddress = "127.0.0.1:0"

// Defaults returns the defaults of settings, by key, that suit a terminal on a machine with other
// things on it; see config.From.
func Defaults() map[string]string {
	return map[string]string{
		"http.address":               defaultAddress,
		"log.format":                 "text",
		"log.level":                  "warn",
		"kafka.allow_topic_creation": "true",
		// A person is watching.
		"staleness.detection_interval_seconds": "5",
	}
}

// stopLimit bounds the end of each server of the stack; the app has bounds of its own.
const stopLimit = 10 * time.Second

// readyLimit bounds the wait for readiness, with everything on this machine.
const readyLimit = time.Minute

// Run starts PostgreSQL, the broker and Postrider with all its roles, says so on Out when all of
// it is ready, and works until ctx ends. Then it stops everything, the last started first, and
// returns nil. An end before the stack was ready is no error either.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	err := run(ctx, o)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // interrupted while starting
	}
	if err == nil {
		fmt.Fprintf(o.Out, "postrider: stopped; %s\n", o.kept())
	}
	return err
}

// kept says what becomes of the data at the end.
func (o Options) kept() string {
	if o.DataDir == "" {
		return "the data is removed"
	}
	return "the data is kept in " + o.DataDir
}

func run(ctx context.Context, o Options) (err error) {
	postgres, err := startPostgres(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, postgres.Stop(stopping))
	}()
	broker, err := startKafka(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()

	o.Config.Database.URL = config.DatabaseURL(postgres.URL())
	o.Config.Kafka.Brokers = []string{broker.Addr()}
	// Without delivered events a person could not look at what went where.
	o.Config.Outbox.RetentionDays = max(o.Config.Outbox.RetentionDays, 1)
	topics := append(o.Config.DLQTopics(), o.Config.DLQ.ConsumerTopic, o.Config.Tasks.LifecycleTopic)
	if o.Demo {
		topics = append(topics, demo.Topics()...)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()))
	if err != nil {
		return fmt.Errorf("make a client of the embedded Kafka broker: %w", err)
	}
	err = CreateTopics(ctx, client, topics)
	client.Close()
	if err != nil {
		return err
	}
	a, err := app.New(ctx, app.Options{Config: o.Config, Migrate: true, Logger: o.Logger})
	if errors.Is(err, syscall.EADDRINUSE) && o.Config.HTTP.Address == defaultAddress {
		o.Config.HTTP.Address = anyAddress
		a, err = app.New(ctx, app.Options{Config: o.Config, Migrate: true, Logger: o.Logger})
	}
	if err != nil {
		return err
	}
	running, stopApp := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(running) }()
	defer func() {
		stopApp()
		err = errors.Join(err, <-ended)
	}()
	if err := awaitReady(running, a.Addr(), ended); err != nil {
		return err
	}
	address := httpAddress(a.Addr())
	key, link, err := makeKey(running, a, o.Config.HTTP.API && o.Config.Console.Enabled)
	if err != nil {
		return err
	}
	if link != "" {
		if err := a.Services().Access.SetConsoleURL(running, "http://"+address); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "postrider: ready http=http://%s database_url=%s kafka_brokers=%s%s\n", address, postgres.URL(), broker.Addr(), prefixed(" api_key=", key))
	fmt.Fprint(o.Out, howToLook(o, address, postgres.URL(), broker.Addr(), key, link))
	if o.Demo {
		stopDemo, err := startDemo(running, o)
		if err != nil {
			return err
		}
		defer stopDemo()
	}
	select {
	case <-ctx.Done():
		return nil
	case failure := <-ended:
		ended <- nil // for the deferred stop
		return failure
	case <-postgres.Done():
		return errors.New("the embedded PostgreSQL ended by itself; its log is in the error that follows")
	}
}

// startDemo returns what ends the demonstration, and waits for its end.
func startDemo(ctx context.Context, o Options) (stop func(), err error) {
	pool, err := pgxpool.New(ctx, o.Config.Database.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("open database connections of the demonstration: %w", err)
	}
	d, err := demo.New(ctx, demo.Config{Pool: pool, Out: o.Out, Logger: o.Logger})
	if err != nil {
		pool.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { d.Run(ctx); close(ended) }()
	return func() { cancel(); <-ended; pool.Close() }, nil
}

// awaitReady asks until /readyz agrees. A failure of the app is left in ended for the caller.
func awaitReady(ctx context.Context, address string, ended chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("ask for readiness: %w", err)
		}
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case failure := <-ended:
			ended <- nil
			return failure
		case <-ctx.Done():
			return fmt.Errorf("the stack did not become ready: %w", context.Cause(ctx))
		}
	}
}

// httpAddress is where this machine reaches a server that may listen on every interface.
func httpAddress(listening string) string {
	host, port, err := net.SplitHostPort(listening)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return listening
}
