package obs

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) {
	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(m) }))
}

// shown returns the value of a series, or the number of its observations.
func shown(t *testing.T, reg *prometheus.Registry, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && fits(m, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("there is no %s%v", name, labels)
	return 0
}

func fits(m *dto.Metric, labels map[string]string) bool {
	n := 0
	for _, l := range m.GetLabel() {
		if labels[l.GetName()] == l.GetValue() {
			n++
		}
	}
	return n == len(labels)
}

// What goes over the wire is counted, for each client apart.
func TestKafkaClients(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	b.CreateTopic(t, "orders", 1, nil)
	reg := prometheus.NewRegistry()
	k := NewKafkaClients(reg)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	writer := b.Client(t, k.Hook("publisher"))
	for range 3 {
		if err := writer.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	reader := b.Client(t, k.Hook("collector"), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for n := 0; n < 3; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		n += fetches.NumRecords()
	}
	of := func(client string) map[string]string { return map[string]string{"client": client} }
	for name, want := range map[string]float64{"produced_records_total": 3, "produced_batches_total": 3, "fetched_records_total": 0, "errors_total": 0} {
		if got := shown(t, reg, "postrider_kafka_client_"+name, of("publisher")); got != want {
			t.Errorf("publisher: %s is %v, want %v", name, got, want)
		}
	}
	if got := shown(t, reg, "postrider_kafka_client_fetched_records_total", of("collector")); got != 3 {
		t.Errorf("%v records fetched", got)
	}
	for _, name := range []string{"connects_total", "written_bytes_total", "read_bytes_total", "produced_bytes_total"} {
		if got := shown(t, reg, "postrider_kafka_client_"+name, of("publisher")); got <= 0 {
			t.Errorf("%s is %v", name, got)
		}
	}
	if got := shown(t, reg, "postrider_kafka_client_request_seconds", map[string]string{"client": "publisher", "request": "produce"}); got != 3 {
		t.Errorf("%v produce requests", got)
	}
	// With the broker gone, connecting fails and is counted; its connections have ended.
	b.Cluster.Close()
	failed := func() float64 {
		return shown(t, reg, "postrider_kafka_client_errors_total", map[string]string{"client": "publisher", "stage": "connect"})
	}
	for failed() < 1 && ctx.Err() == nil { // the first attempts may meet connections that are just ending
		if err := writer.Ping(ctx); err == nil {
			t.Fatal("a broker that is gone answers")
		}
	}
	if ctx.Err() != nil {
		t.Error("no failed connect is counted")
	}
	if got := shown(t, reg, "postrider_kafka_client_disconnects_total", of("publisher")); got < 1 {
		t.Errorf("%v disconnects", got)
	}
}

// A pool's figures are the figures of its connections.
func TestPools(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	pools := NewPools(reg)
	cfg, err := pgxpool.ParseConfig(pgtest.NewEmpty(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	pools.Add("relay", pool)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := pool.Acquire(soon); err == nil {
		t.Fatal("two connections of one")
	}
	in := func(state string) float64 {
		return shown(t, reg, "postrider_database_pool_connections", map[string]string{"pool": "relay", "state": state})
	}
	if acquired, idle := in("acquired"), in("idle"); acquired != 1 || idle != 0 {
		t.Errorf("%v in use, %v idle", acquired, idle)
	}
	conn.Release()
	of := map[string]string{"pool": "relay"}
	for name, want := range map[string]float64{"max_connections": 1, "acquires_total": 1, "acquire_cancels_total": 1, "opened_connections_total": 1} {
		if got := shown(t, reg, "postrider_database_pool_"+name, of); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	pools.Add("closed", pool)
	pool.Close()
	if got := in("idle"); got != 0 {
		t.Errorf("a closed pool has %v idle connections", got)
	}
}
