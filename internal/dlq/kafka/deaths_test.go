package kafka

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// wire dials for one source, until it is cut: then its connections are closed and there are no more, as after kill -9.
type wire struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	mu   sync.Mutex
	dead bool
	open []net.Conn
}

func (w *wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return nil, errors.New("this process is dead")
	}
	conn, err := w.dial(ctx, network, addr)
	if err == nil {
		w.open = append(w.open, conn)
	}
	return conn, err
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	for _, conn := range w.open {
		_ = conn.Close()
	}
}

// TestManyDeaths: collectors that die one after the other, without a goodbye, do not keep the next one from its
// partitions for longer than one session and a few rebalances: they are not waited for in turn.
func TestManyDeaths(t *testing.T) {
	t.Parallel()
	for _, span := range []time.Duration{600 * time.Millisecond, 3 * time.Second, 12 * time.Second} {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			b := kafkatest.Virtual(t)
			topic := b.Topic(t, 3, nil)
			dial := b.Client(t).OptValue(kgo.Dialer).(func(ctx context.Context, network, addr string) (net.Conn, error))
			start := func() (*Source, *wire) {
				w := &wire{dial: dial}
				var s *Source
				// After Close, which ran before: the client's own goodbye of one that died in the middle of a poll waits for that.
				t.Cleanup(func() { s.client.AllowRebalance() })
				s = newSource(t, b, func(c *Config) { c.Options = []kgo.Opt{kgo.Dialer(w.Dial)} }, topic)
				return s, w
			}
			client := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for p := range int32(3) {
				for _, r := range numbered(topic, p, 60) {
					if err := client.ProduceSync(t.Context(), toKgo(r)).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 20 {
				s, w := start()
				ctx, cancel := context.WithCancel(t.Context())
				var reading sync.WaitGroup
				reading.Go(func() { // it reads, and never commits: the next reader reads all
					for ctx.Err() == nil {
						_, _ = s.Poll(ctx)
						s.client.AllowRebalance()
					}
				})
				time.Sleep(time.Duration(rng.Int64N(int64(span))))
				w.cut()
				cancel()
				reading.Wait()
			}
			began := time.Now()
			last, _ := start()
			read(t, last, 3*60)
			// A session (10s) until the dead are out, and a rebalance (5s) before it and one after: 21s was the most in
			// many runs. Were they waited for in turn it would be 100s or more.
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("seed %d, deaths within %v: the letters were read after %v", seed, span, took)
			}
		})
	}
}
