package relaytest

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/kafka"
	"github.com/postrider/postrider/relay/kafka/kafkatest"
	"github.com/postrider/postrider/relay/outbox"
	"github.com/postrider/postrider/relay/postgres"
	"github.com/postrider/postrider/relay/postgres/pgproxy"
)

// maxMessageBytes is small, so that an event that is too large costs little.
const maxMessageBytes = 20_000

// rig is a database behind a proxy, and a broker.
type rig struct {
	testing.TB
	pool   *pgxpool.Pool // past the proxy
	proxy  *pgproxy.Proxy
	broker *kafkatest.Broker
	log    *lockedBuffer
}

func newRig(t testing.TB) *rig {
	t.Helper()
	db := pgtest.New(t)
	r := &rig{TB: t, pool: db.Pool(t), proxy: pgproxy.Start(t, db.URL), log: &lockedBuffer{},
		broker: kafkatest.Kfake(t, kfake.NumBrokers(3))}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the relays said last:\n%s", r.log.tail(12_000))
		}
	})
	return r
}

// running is a relay at work.
type running struct {
	stop  context.CancelFunc
	ended chan struct{}
}

// start runs a relay with connections and producers of its own.
func (r *rig) start(dlq string) *running {
	r.Helper()
	return r.startWith(dlq, func(s *relay.TopicSettings) { s.StormEvents = -1 })
}

// startWith runs a relay with other settings of its topics.
func (r *rig) startWith(dlq string, change func(*relay.TopicSettings)) *running {
	r.Helper()
	settings := relay.TopicSettings{DLQTopic: dlq, Retry: outbox.RetryPolicy{MaxAttempts: 3, Base: 20 * time.Millisecond, Max: 50 * time.Millisecond}}
	change(&settings)
	log := slog.New(slog.NewTextHandler(r.log, nil))
	ctx, stop := context.WithCancel(context.Background())
	pool, err := postgres.NewPool(ctx, r.proxy.URL(), postgres.Options{})
	if err != nil {
		r.Fatal(err)
	}
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: r.broker.Addrs, MaxMessageBytes: maxMessageBytes, Logger: log})
	if err != nil {
		r.Fatal(err)
	}
	engine, err := relay.New(relay.Config{
		Store: postgres.NewStore(pool, postgres.StoreOptions{}), Publisher: publisher, Workers: 3, BatchSize: 200,
		TopicSettings: relay.ForAll(settings), PublishTimeout: 500 * time.Millisecond, Logger: log,
	})
	if err != nil {
		r.Fatal(err)
	}
	e := &running{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		if err := engine.Run(ctx); err != nil {
			r.Errorf("the relay ended with %v", err)
		}
		publisher.Close()
		pool.Close()
	}()
	r.Cleanup(e.halt)
	return e
}

// halt stops the relay and waits for its end.
func (e *running) halt() {
	e.stop()
	<-e.ended
}

func (r *rig) exec(sql string, args ...any) {
	r.Helper()
	if _, err := r.pool.Exec(r.Context(), sql, args...); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
}

// until waits for a condition to come true.
func (r *rig) until(within time.Duration, condition string, args ...any) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	for {
		var ok bool
		if err := r.pool.QueryRow(ctx, `select `+condition+` from pg_sleep(0.02)`, args...).Scan(&ok); err != nil {
			r.Fatalf("%s did not come true: %v\n%s", condition, err, r.states())
		}
		if ok {
			return
		}
	}
}

const drained = `not exists (select from postrider.outbox_event where state not in ('published', 'dead_lettered'))`

// states counts the events by state, and describes the holds.
func (r *rig) states() (s string) {
	_ = r.pool.QueryRow(context.Background(), `
		select (select string_agg(topic || ' ' || state || ': ' || n, E'\n')
		        from (select topic, state, count(*) n from postrider.outbox_event group by 1, 2 order by 1, 2) c)
		    || coalesce((select E'\n' || string_agg(h::text, E'\n') from postrider.outbox_hold h), '')`).Scan(&s)
	return s
}

// lockedBuffer is where several relays log to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) tail(n int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.buf.Bytes()
	return bytes.Clone(all[max(0, len(all)-n):])
}
