package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outbox"
)

// A stop in the middle of the work loses nothing and sends nothing twice.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	broker.CreateTopic(t, "orders", 3, nil)
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	conn := db.Conn(t)
	const events = 5000
	if _, err := conn.Exec(t.Context(), `insert into postrider.outbox_event (topic, key, payload)
		select 'orders', convert_to((n % 97)::text, 'UTF8'), convert_to(n::text, 'UTF8') from generate_series(1, $1) n`, events); err != nil {
		t.Fatal(err)
	}
	c := settings(t, db.URL, broker.Addrs...)
	c.Outbox.BatchSize = 50
	left := events
	for stops := 0; left > 0; stops++ {
		a, err := New(t.Context(), Options{Config: c})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- a.Run(context.Background()) }()
		before := left
		eventually(t, "progress", func() (bool, string) {
			if err := conn.QueryRow(t.Context(), `select count(*) from postrider.v_outbox_event where state <> 'published'`).Scan(&left); err != nil {
				t.Fatal(err)
			}
			return left < before, fmt.Sprint(left, " left")
		})
		if stops < 5 || left == 0 {
			if err := a.Stop(t.Context()); err != nil {
				t.Errorf("stop %d: %v", stops, err)
			}
		} else { // enough of it
			waitRow(t, conn, "the rest", `select count(*) = 0 from postrider.v_outbox_event where state <> 'published'`)
			left = 0
			if err := a.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	last := map[string]int{}
	records := broker.ReadAll(t, "orders", events)
	for _, r := range records {
		var n int
		if _, err := fmt.Sscan(string(r.Value), &n); err != nil || n <= last[string(r.Key)] {
			t.Fatalf("key %s: %s after %d", r.Key, r.Value, last[string(r.Key)])
		}
		last[string(r.Key)] = n
	}
	if len(records) != events {
		t.Errorf("%d records, want %d", len(records), events)
	}
}

// With the brokers gone the relay stops in its time, and its events stay.
func TestStopWithoutBrokers(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	broker.CreateTopic(t, "orders", 1, nil)
	conn := db.Conn(t)
	c := settings(t, db.URL, broker.Addrs...)
	c.Outbox.PublishTimeout = time.Second
	a := run(t, Options{Config: c})
	enqueue(t, conn, outbox.Message{Topic: "orders", Payload: []byte("first")})
	waitRow(t, conn, "sent", `select count(*) = 0 from postrider.v_outbox_event where state <> 'published'`)
	broker.Cluster.Close()
	enqueue(t, conn, outbox.Message{Topic: "orders", Payload: []byte("second")})
	eventually(t, "the relay waits for brokers", func() (bool, string) {
		_, metrics := get(t, a, "/metrics")
		return strings.Contains(metrics, "postrider_outbox_brokers_away 1"), "the metric postrider_outbox_brokers_away"
	})
	waitRow(t, conn, "nothing is held for the other relays", `select count(*) = 0 from postrider.outbox_hold`)
	if status, body := readyz(t, a); status != http.StatusServiceUnavailable {
		t.Errorf("readiness without brokers: %d %s", status, body)
	}
	began := time.Now()
	if err := a.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %v", took)
	}
	waitRow(t, conn, "the event stays, no attempt is spent", `select count(*) = 1 from postrider.v_outbox_event where state <> 'published' and attempts = 0`)
}

// A restart of the database is an outage like any other: the process goes on and becomes ready again.
func TestDatabaseRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Started by root, PostgreSQL runs as another user, which must be let in.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	options := pgserver.Options{Dir: dir, Port: freePort(t), Settings: map[string]string{"fsync": "off"}}
	server, err := pgserver.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	broker := kafkatest.Kfake(t)
	broker.CreateTopic(t, "orders", 1, nil)
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	a := run(t, Options{Config: settings(t, server.URL(), broker.Addrs...), Migrate: true})
	waitReady(t, a)
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	status, body := readyz(t, a)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "database") {
		t.Errorf("readiness without a database: %d %s", status, body)
	}
	if server, err = pgserver.Start(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	waitReady(t, a)
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	enqueue(t, conn, outbox.Message{Topic: "orders", Payload: []byte("after")}, tooLarge)
	broker.ReadAll(t, "orders", 1)
	waitRow(t, conn, "the collector works too", `select count(*) = 1 from postrider.dlq_entry`)
}
