package obs

import (
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// KafkaClients counts what the Kafka clients of a process do on the wire, by client: all of one purpose are one.
type KafkaClients struct {
	connects    *prometheus.CounterVec
	disconnects *prometheus.CounterVec
	failures    *prometheus.CounterVec
	written     *prometheus.CounterVec
	read        *prometheus.CounterVec
	requests    *prometheus.HistogramVec
	throttled   *prometheus.CounterVec
	produced    *prometheus.CounterVec
	batches     *prometheus.CounterVec
	compressed  *prometheus.CounterVec
	fetched     *prometheus.CounterVec
}

// The stages at which something goes wrong between a client and a broker, as the label says them.
const (
	stageConnect = "connect"
	stageWrite   = "write"
	stageRead    = "read"
)

// NewKafkaClients registers the metrics postrider_kafka_client_*.
func NewKafkaClients(reg prometheus.Registerer) *KafkaClients {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "postrider_kafka_client_" + name, Help: help}, append([]string{"client"}, labels...))
		reg.MustRegister(c)
		return c
	}
	k := &KafkaClients{
		connects:    counter("connects_total", "Connections opened to brokers, by client: publisher or collector."),
		disconnects: counter("disconnects_total", "Connections to brokers that ended."),
		failures:    counter("errors_total", "Failures on the way to brokers, by stage: connect, write or read. The client tries again.", "stage"),
		written:     counter("written_bytes_total", "Bytes of requests."),
		read:        counter("read_bytes_total", "Bytes of answers."),
		throttled:   counter("throttled_seconds_total", "Time for which brokers asked the client to wait, because of a quota."),
		produced:    counter("produced_records_total", "Records that brokers acknowledged."),
		batches:     counter("produced_batches_total", "Batches of records that brokers acknowledged."),
		compressed:  counter("produced_bytes_total", "Bytes of acknowledged batches, after compression."),
		fetched:     counter("fetched_records_total", "Records read from brokers, transaction markers included."),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "postrider_kafka_client_request_seconds",
			Help: "Time from the beginning of a request to the end of its answer, by request: produce, fetch or other. A fetch waits up to a second for records.",
			// From half a millisecond to half a minute.
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, []string{"client", "request"}),
	}
	reg.MustRegister(k.requests)
	return k
}

// Hook counts for the clients of one purpose, publisher for example. It is an option for any number of these clients.
func (k *KafkaClients) Hook(client string) kgo.Opt {
	h := &kafkaHook{
		connects: k.connects.WithLabelValues(client), disconnects: k.disconnects.WithLabelValues(client),
		connectFailures: k.failures.WithLabelValues(client, stageConnect),
		writeFailures:   k.failures.WithLabelValues(client, stageWrite), readFailures: k.failures.WithLabelValues(client, stageRead),
		written: k.written.WithLabelValues(client), read: k.read.WithLabelValues(client), throttled: k.throttled.WithLabelValues(client),
		produced: k.produced.WithLabelValues(client), batches: k.batches.WithLabelValues(client), compressed: k.compressed.WithLabelValues(client),
		fetched: k.fetched.WithLabelValues(client),
		produce: k.requests.WithLabelValues(client, "produce"), fetch: k.requests.WithLabelValues(client, "fetch"), other: k.requests.WithLabelValues(client, "other"),
	}
	return kgo.WithHooks(h)
}

// kafkaHook has its metrics at hand: it is asked about each request.
type kafkaHook struct {
	connects, disconnects, connectFailures, writeFailures, readFailures prometheus.Counter
	written, read, throttled, produced, batches, compressed, fetched    prometheus.Counter
	produce, fetch, other                                               prometheus.Observer
}

var (
	_ kgo.HookBrokerConnect       = (*kafkaHook)(nil)
	_ kgo.HookBrokerDisconnect    = (*kafkaHook)(nil)
	_ kgo.HookBrokerE2E           = (*kafkaHook)(nil)
	_ kgo.HookBrokerThrottle      = (*kafkaHook)(nil)
	_ kgo.HookProduceBatchWritten = (*kafkaHook)(nil)
	_ kgo.HookFetchBatchRead      = (*kafkaHook)(nil)
)

func (h *kafkaHook) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		h.connectFailures.Inc()
		return
	}
	h.connects.Inc()
}

func (h *kafkaHook) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { h.disconnects.Inc() }

func (h *kafkaHook) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	h.written.Add(float64(e2e.BytesWritten))
	h.read.Add(float64(e2e.BytesRead))
	switch {
	case e2e.WriteErr != nil:
		h.writeFailures.Inc()
	case e2e.ReadErr != nil:
		h.readFailures.Inc()
	case key == int16(kmsg.Produce):
		h.produce.Observe(e2e.DurationE2E().Seconds())
	case key == int16(kmsg.Fetch):
		h.fetch.Observe(e2e.DurationE2E().Seconds())
	default:
		h.other.Observe(e2e.DurationE2E().Seconds())
	}
}

func (h *kafkaHook) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	h.throttled.Add(d.Seconds())
}

func (h *kafkaHook) OnProduceBatchWritten(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.ProduceBatchMetrics) {
	h.batches.Inc()
	h.produced.Add(float64(m.NumRecords))
	h.compressed.Add(float64(m.CompressedBytes))
}

func (h *kafkaHook) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	h.fetched.Add(float64(m.NumRecords))
}
