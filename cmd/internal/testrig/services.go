package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// startTimeout bounds the start of a server, a first download included.
const startTimeout = 5 * time.Minute

// startPostgres starts PostgreSQL from local binaries, which it fetches where
// there are none, unless the environment names a server. If they cannot be
// fetched the test packages are on their own: they may still find Docker.
func startPostgres(ctx context.Context) (service, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if url := os.Getenv(pgtest.URLEnv); url != "" {
		version, err := serverVersion(ctx, url)
		if err != nil {
			return service{}, fmt.Errorf("PostgreSQL that %s names: %w", pgtest.URLEnv, err)
		}
		return service{name: fmt.Sprintf("PostgreSQL %s (%s)", version, pgtest.URLEnv)}, nil
	}
	s, err := pgtest.StartLocal(ctx, os.Stderr)
	if errors.Is(err, pgserver.ErrNotFound) || errors.Is(err, errors.ErrUnsupported) {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		return service{name: "PostgreSQL as each package finds it (" + reason + ")"}, nil
	}
	if err != nil {
		return service{}, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return service{
		name: fmt.Sprintf("PostgreSQL %s (local binaries)", s.Version()),
		env:  []string{pgtest.URLEnv + "=" + s.URL()},
		stop: s.Stop,
	}, nil
}

// serverVersion asks the server at url for its version.
func serverVersion(ctx context.Context, url string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	var version string
	if err := conn.QueryRow(ctx, "select current_setting('server_version')").Scan(&version); err != nil {
		return "", fmt.Errorf("ask for its version: %w", err)
	}
	version, _, _ = strings.Cut(version, " ")
	return version, nil
}

// startKafka starts the broker that kafkatest chooses. kfake is not shared: a
// fake cluster belongs in the process of its tests, so there they are told to
// use one each, and not to look for more.
func startKafka(ctx context.Context) (service, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	b, stop, err := kafkatest.Start(ctx)
	if err != nil {
		return service{}, fmt.Errorf("start Kafka: %w", err)
	}
	if !b.Real() {
		return service{
			name: b.String() + ", one per package: NO REAL BROKER",
			env:  []string{kafkatest.EnvKind + "=" + string(kafkatest.KindKfake)},
		}, stop()
	}
	return service{
		name: b.String(),
		env: []string{
			kafkatest.EnvBrokers + "=" + strings.Join(b.Addrs, ","),
			kafkatest.EnvKind + "=" + string(kafkatest.KindEnv),
		},
		stop: func(context.Context) error { return stop() },
	}, nil
}
