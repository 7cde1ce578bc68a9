package app

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// The database ends a transaction whose relay vanished. It must not end one whose relay waits as long as
// it may for acknowledgements and then settles; and not keep the locks of one that is gone for much longer.
func TestSessionsOutliveABatch(t *testing.T) {
	t.Parallel()
	for _, ms := range []string{"100", "1000", "10000", "12000"} {
		c, err := config.Load(config.From{Flags: map[string]string{"outbox.publish_timeout_ms": ms}})
		if err != nil {
			t.Fatal(err)
		}
		publish := relayPool(c, relayConnections).PublishTimeout
		if publish != c.Outbox.PublishTimeout {
			t.Errorf("the connections are made for %v, the relay waits %v", publish, c.Outbox.PublishTimeout)
		}
		limit, needed := postgres.IdleInTransactionLimit(publish), publish+config.SettleTime
		if limit <= needed || limit <= relay.LongestSilence(publish) || limit > needed+5*time.Second {
			t.Errorf("a batch may take %v, a session may be idle for %v", needed, limit)
		}
	}
	if _, err := config.Load(config.From{Flags: map[string]string{"outbox.publish_timeout_ms": "12001"}}); err == nil {
		t.Fatal("a longer wait is accepted")
	}
}

// Connections counts the connections that a process opens.
func TestConnections(t *testing.T) {
	t.Parallel()
	for both, more := range map[string]int{"true": 2, "false": 0} {
		c, err := config.Load(config.From{Flags: map[string]string{"outbox.dispatches": "7", "outbox.notifier": both, "console.enabled": both}})
		if err != nil {
			t.Fatal(err)
		}
		if got := Connections(c); got != relayConnections+serviceConnections+apiConnections+more {
			t.Errorf("with notifier and console %s: %d connections", both, got)
		}
	}
}

// The collector reads the dead-letter topics of all rules.
func TestCollectsFromTheTopicsOfRules(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte("topics:\n- {match: orders.*, dlq_topic: dead.orders}\n- {match: '*.eu', dlq_topic: dead.eu}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.From{File: file, Flags: map[string]string{
		"database.url": db.URL, "kafka.brokers": broker.Addrs[0], "http.address": "127.0.0.1:0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, topic := range []string{"postrider.dlq", "dead.orders", "dead.eu", "dead.other"} {
		broker.CreateTopic(t, topic, 1, nil)
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	run(t, Options{Config: c, Roles: []Role{Collector}})
	waitRow(t, db.Conn(t), "three letters", `select coalesce(array_agg(distinct dlq_topic order by dlq_topic) = '{dead.eu,dead.orders,postrider.dlq}', false) from postrider.dlq_letter`)
}
