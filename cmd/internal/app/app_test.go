package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outbox"
)

func TestMain(m *testing.M) {
	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(m) }))
}

var tooLarge = outbox.Message{Topic: "orders", Key: []byte("large"), Payload: make([]byte, 2<<20)}

// Two whole apps in one process share the work: an event reaches its topic, an undeliverable one
// becomes one investigation, and both stop cleanly, twice.
func TestTwoAppsInOneProcess(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	broker.CreateTopic(t, "orders", 3, nil)
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	c := settings(t, db.URL, broker.Addrs...)
	first, second := run(t, Options{Config: c}), run(t, Options{Config: c})
	if first.Addr() == second.Addr() || first.Addr() == "" {
		t.Errorf("addresses %q and %q", first.Addr(), second.Addr())
	}
	waitReady(t, first)
	waitReady(t, second)
	conn := db.Conn(t)
	enqueue(t, conn, outbox.Message{Topic: "orders", Key: []byte("k"), Payload: []byte("hello")}, tooLarge)
	records := broker.ReadAll(t, "orders", 1)
	if len(records) != 1 || string(records[0].Value) != "hello" {
		t.Errorf("records %v", records)
	}
	waitRow(t, conn, "one investigation", `select count(*) = 1 from postrider.dlq_entry where resolution_status = 'pending' and topic = 'orders'`)
	waitRow(t, conn, "the published row is kept", `select count(*) = 1 from postrider.v_outbox_event where state = 'published'`)
}

// The rights in the roles script are enough for the relay and the collector.
func TestAppWithTheRelayRole(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	conn, address, password := asRelay(t, db, broker)
	c := settings(t, address, broker.Addrs...)
	c.Outbox.RetentionDays, c.Outbox.Log = 0, true
	var log logtest.Buffer
	waitReady(t, run(t, Options{Config: c, Logger: slog.New(slog.NewJSONHandler(&log, nil))}))
	enqueue(t, conn, outbox.Message{Topic: "orders", Payload: []byte("hello")}, tooLarge,
		outbox.Message{Topic: "missing", Key: []byte("k"), Payload: []byte("held")},
		outbox.Message{Topic: "orders", Payload: []byte("later"), AvailableAt: time.Now().Add(300 * time.Millisecond)})
	broker.ReadAll(t, "orders", 2)
	waitRow(t, conn, "an investigation", `select count(*) = 1 from postrider.dlq_entry`)
	waitRow(t, conn, "delivered rows are gone", `select count(*) = 0 from postrider.outbox_event where topic = 'orders'`)
	waitRow(t, conn, "the missing topic is held", `select count(*) = 1 from postrider.outbox_hold where topic = 'missing'`)
	broker.CreateTopic(t, "missing", 1, nil)
	waitRow(t, conn, "the hold ends", `select count(*) = 0 from postrider.outbox_hold`)
	for _, line := range []string{`"action":"publish"`, `"succeeded":1`, `"failed":1`, `"action":"dead_letter"`, `"dead_lettered":1`, `"action":"return"`, `"duration_ms":`} {
		eventually(t, "the action log has "+line, func() (bool, string) { s := log.String(); return strings.Contains(s, line), s })
	}
	if strings.Contains(log.String(), password) {
		t.Error("the password is in the log")
	}
}

// Brokers that are not there yet are no reason not to start.
func TestBrokersComeLater(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	port := freePort(t)
	a := run(t, Options{Config: settings(t, db.URL, "127.0.0.1:"+strconv.Itoa(port))})
	status, body := readyz(t, a)
	var answer struct {
		Checks map[string]struct{ OK bool }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	if status != http.StatusServiceUnavailable || !answer.Checks["database"].OK || answer.Checks["kafka"].OK {
		t.Errorf("without brokers: %d %s", status, body)
	}
	enqueue(t, db.Conn(t), outbox.Message{Topic: "orders", Key: []byte("k"), Payload: []byte("patient")})
	broker := kafkatest.Kfake(t, kfake.Ports(port), kfake.SeedTopics(1, "orders"))
	waitReady(t, a)
	if records := broker.ReadAll(t, "orders", 1); len(records) != 1 {
		t.Errorf("records %v", records)
	}
}

// Stop during Run, and before it.
func TestStopWithoutCancel(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	a, err := New(t.Context(), Options{Config: settings(t, db.URL, broker.Addrs...)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(context.Background()) }()
	waitReady(t, a)
	if err := a.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := a.Run(t.Context()); err != nil {
		t.Errorf("Run after Stop: %v", err)
	}
}
