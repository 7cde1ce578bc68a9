package app

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outbox"
)

// settings are the settings of an app on a database and brokers, with free ports.
func settings(t *testing.T, database string, brokers ...string) config.Config {
	t.Helper()
	c, err := config.Load(config.From{Flags: map[string]string{
		"database.url": database, "kafka.brokers": strings.Join(brokers, ","), "http.address": "127.0.0.1:0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run starts an app and returns it; the test ends by stopping it, twice.
func run(t *testing.T, o Options) *App {
	t.Helper()
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		began := time.Now()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if err := a.Stop(context.Background()); err != nil {
			t.Errorf("Stop again: %v", err)
		}
	})
	return a
}

// eventually waits until done, three minutes at most.
func eventually(t *testing.T, what string, done func() (bool, string)) {
	t.Helper()
	within(t, 3*time.Minute, what, done)
}

// within waits until done, and fails with what it last said when that takes too long.
func within(t *testing.T, limit time.Duration, what string, done func() (bool, string)) {
	t.Helper()
	deadline := time.After(limit)
	for {
		asked := time.Now()
		ok, state := done()
		if ok {
			return
		}
		select {
		case <-time.After(max(pgtest.Pause(asked), 20*time.Millisecond)):
		case <-deadline:
			t.Fatalf("%s: not within %v; %s", what, limit, state)
		}
	}
}

// readyz asks an app for its readiness.
func readyz(t *testing.T, a *App) (int, string) { return get(t, a, "/readyz") }

func get(t *testing.T, a *App, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	response, err := client.Get("http://" + a.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func waitReady(t *testing.T, a *App) {
	t.Helper()
	eventually(t, "ready", func() (bool, string) {
		status, body := readyz(t, a)
		return status == http.StatusOK, body
	})
}

// enqueue writes messages in one transaction.
func enqueue(t *testing.T, conn *pgx.Conn, messages ...outbox.Message) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		for _, m := range messages {
			if _, err := outbox.Enqueue(t.Context(), tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func waitRow(t *testing.T, conn *pgx.Conn, what, query string) {
	t.Helper()
	eventually(t, what, func() (bool, string) {
		var ok bool
		if err := conn.QueryRow(t.Context(), query).Scan(&ok); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return ok, query
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := kafkajars.FreePort() // no outgoing connection takes it meanwhile
	if err != nil {
		t.Fatal(err)
	}
	return port
}
