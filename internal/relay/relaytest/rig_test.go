package relaytest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/retry"
)

// maxMessageBytes is small, so that an event that is too large costs little.
const maxMessageBytes = 20_000

// rig is a database behind a proxy, and a broker.
type rig struct {
	testing.TB
	pool   *pgxpool.Pool // past the proxy
	proxy  *pgproxy.Proxy
	broker *kafkatest.Broker
	log    *logtest.Buffer
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigOn(t, pgtest.New(t).URL, kafkatest.Kfake(t, kfake.NumBrokers(3)))
}

// newRigOn makes a rig of a database and a broker of the test's own.
func newRigOn(t testing.TB, url string, broker *kafkatest.Broker) *rig {
	t.Helper()
	return newRigAt(t, url, broker, func(url string) string { return url })
}

// newRigAt puts something before the database, between it and the proxy.
func newRigAt(t testing.TB, url string, broker *kafkatest.Broker, before func(url string) string) *rig {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := &rig{TB: t, pool: pool, proxy: pgproxy.Start(t, before(url)), log: &logtest.Buffer{}, broker: broker}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the relays said last:\n%s", r.log.Tail(12_000))
		}
	})
	return r
}

// running is a relay at work.
type running struct {
	stop    context.CancelFunc
	ended   chan struct{}
	metrics *prometheus.Registry
}

// options are what a test wants to be otherwise than start has it.
type options struct {
	url     string            // of the database; defaults to the proxy's
	session map[string]string // settings of the relay's sessions
	connect func(*pgx.ConnConfig)
	store   postgres.StoreOptions
	kafka   func(*kafka.Config)
	topic   func(*relay.TopicSettings) // of every topic
	engine  func(*relay.Config)
}

// engine makes a relay with connections and producers of its own, which close ends.
func (r *rig) engine(dlq string) (engine *relay.Relay, close func()) {
	r.Helper()
	engine, _, close = r.engineWith(dlq, options{})
	return engine, close
}

func (r *rig) engineWith(dlq string, o options) (engine *relay.Relay, metrics *prometheus.Registry, close func()) {
	r.Helper()
	log := slog.New(slog.NewTextHandler(r.log, nil))
	if o.url == "" {
		o.url = r.proxy.URL()
	}
	pool := r.sessions(context.Background(), o.url, o.session, o.connect)
	k := kafka.Config{Brokers: r.broker.Addrs, MaxMessageBytes: maxMessageBytes, Logger: log}
	if o.kafka != nil {
		o.kafka(&k)
	}
	publisher, err := kafka.NewPublisher(k)
	if err != nil {
		r.Fatal(err)
	}
	settings := relay.TopicSettings{DLQTopic: dlq, BreakerEvents: -1,
		Retry: retry.Policy{MaxAttempts: 3, Base: 20 * time.Millisecond, Max: 50 * time.Millisecond}}
	if o.topic != nil {
		o.topic(&settings)
	}
	c := relay.Config{
		Store: postgres.NewStore(pool, o.store), Publisher: publisher, BatchSize: 200,
		TopicSettings: relay.ForAll(settings), PublishTimeout: 500 * time.Millisecond, Logger: log,
		Registerer: prometheus.NewRegistry(), Notifier: postgres.NewNotifier(pool, postgres.NotifierOptions{Logger: log}),
	}
	if o.engine != nil {
		o.engine(&c)
	}
	engine, err = relay.New(c)
	if err != nil {
		r.Fatal(err)
	}
	return engine, c.Registerer.(*prometheus.Registry), func() {
		publisher.Close()
		pool.Close()
	}
}

// start runs a relay.
func (r *rig) start(dlq string) *running {
	r.Helper()
	return r.startWith(dlq, options{})
}

func (r *rig) startWith(dlq string, o options) *running {
	r.Helper()
	engine, metrics, finish := r.engineWith(dlq, o)
	ctx, stop := context.WithCancel(context.Background())
	e := &running{stop: stop, ended: make(chan struct{}), metrics: metrics}
	go func() {
		defer close(e.ended)
		if err := engine.Run(ctx); err != nil {
			r.Errorf("the relay ended with %v", err)
		}
		finish()
	}()
	r.Cleanup(e.halt)
	return e
}

// sessions opens a pool as a relay has it, with some settings and ways to connect of its own.
func (r *rig) sessions(ctx context.Context, url string, settings map[string]string, connect func(*pgx.ConnConfig)) *pgxpool.Pool {
	r.Helper()
	pool, err := postgres.NewPool(ctx, url, postgres.Options{})
	if err != nil {
		r.Fatal(err)
	}
	if len(settings) == 0 && connect == nil {
		return pool
	}
	cfg := pool.Config()
	pool.Close()
	before := cfg.BeforeConnect // sets the relay's own
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		err := before(ctx, c)
		for name, value := range settings {
			c.RuntimeParams[name] = value
		}
		if connect != nil {
			connect(c)
		}
		return err
	}
	if pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		r.Fatal(err)
	}
	return pool
}

// metric adds up a metric of the relay over the label values that are given.
func (e *running) metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	families, err := e.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			value := map[string]string{}
			for _, l := range m.GetLabel() {
				value[l.GetName()] = l.GetValue()
			}
			fits := true
			for i := 0; i < len(labels); i += 2 {
				fits = fits && value[labels[i]] == labels[i+1]
			}
			if fits {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// halt stops the relay and waits for its end.
func (e *running) halt() {
	e.stop()
	<-e.ended
}

func (r *rig) exec(sql string, args ...any) {
	r.Helper()
	pgtest.Exec(r, r.pool, sql, args...)
}

// until waits for a condition to come true.
func (r *rig) until(condition string, args ...any) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Minute)
	defer cancel()
	for {
		var ok bool
		asked := time.Now()
		if err := r.pool.QueryRow(ctx, `select `+condition, args...).Scan(&ok); err != nil {
			r.Fatalf("%s did not come true: %v\n%s", condition, err, r.states())
		}
		if ok {
			return
		}
		<-time.After(max(pgtest.Pause(asked), 20*time.Millisecond))
	}
}

// untilTrue waits for something that is no row.
func (r *rig) untilTrue(what string, is func() bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Minute)
	defer cancel()
	for asked := time.Now(); !is(); asked = time.Now() {
		select {
		case <-ctx.Done():
			r.Fatalf("%s did not come true\n%s", what, r.states())
		case <-time.After(pgtest.Pause(asked)):
		}
	}
}

// untilMetric waits for a metric of a relay to have a value.
func (r *rig) untilMetric(e *running, name string, want float64, labels ...string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Minute)
	defer cancel()
	for asked := time.Now(); e.metric(r, name, labels...) != want; asked = time.Now() {
		select {
		case <-ctx.Done():
			r.Fatalf("%s %v is %v, want %v\n%s", name, labels, e.metric(r, name, labels...), want, r.states())
		case <-time.After(pgtest.Pause(asked)):
		}
	}
}

// untilSome waits until a counter of a relay is above zero.
func (r *rig) untilSome(e *running, name string, labels ...string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Minute)
	defer cancel()
	for asked := time.Now(); e.metric(r, name, labels...) == 0; asked = time.Now() {
		select {
		case <-ctx.Done():
			r.Fatalf("%s %v stays 0\n%s", name, labels, r.states())
		case <-time.After(pgtest.Pause(asked)):
		}
	}
}

// hesitation is a publisher that waits before it publishes.
type hesitation struct {
	relay.Publisher
	pause atomic.Int64
}

func (h *hesitation) Publish(ctx context.Context, ms []relay.Message) []relay.Outcome {
	<-time.After(time.Duration(h.pause.Load()))
	return h.Publisher.Publish(ctx, ms)
}

const drained = `not exists (select from postrider.v_outbox_event where state not in ('published', 'dead_lettered'))`

// states counts the events by state, and describes the holds.
func (r *rig) states() (s string) {
	_ = r.pool.QueryRow(context.Background(), `
		select (select string_agg(topic || ' ' || state || ': ' || n, E'\n')
		        from (select topic, state, count(*) n from postrider.v_outbox_event group by 1, 2 order by 1, 2) c)
		    || coalesce((select E'\n' || string_agg(h::text, E'\n') from postrider.outbox_hold h), '')`).Scan(&s)
	return s
}
