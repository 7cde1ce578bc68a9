package relaytest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay/kafka"
)

// names is the name service of a relay: it knows two names of this machine, and may know them no more for a while.
type names struct {
	mu     sync.Mutex
	away   map[string]bool
	failed map[string]int // lookups
}

const databaseName, brokersName = "database.example", "brokers.example"

func newNames() *names { return &names{away: map[string]bool{}, failed: map[string]int{}} }

func (n *names) set(away bool, which ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range which {
		n.away[name], n.failed[name] = away, 0
	}
}

func (n *names) failures(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed[name]
}

// lookup answers as net.Resolver.LookupHost does.
func (n *names) lookup(_ context.Context, name string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.away[name]:
		n.failed[name]++
		return nil, &net.DNSError{Err: "server misbehaving", Name: name, Server: "192.0.2.1:53", IsTemporary: true}
	case name != databaseName && name != brokersName:
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return []string{"127.0.0.1"}, nil
}

// connect has sessions ask for the name of the database.
func (n *names) connect(c *pgx.ConnConfig) {
	c.LookupFunc = n.lookup
	c.Host = databaseName
	for _, other := range c.Fallbacks {
		other.Host = databaseName
	}
}

// brokers has clients ask for the name of the brokers, whatever address these give out, and go on through the wire.
func (n *names) brokers(w *wire) func(*kafka.Config) {
	return func(c *kafka.Config) {
		c.Brokers = slices.Clone(c.Brokers)
		for i, addr := range c.Brokers {
			if _, port, err := net.SplitHostPort(addr); err == nil {
				c.Brokers[i] = net.JoinHostPort(brokersName, port)
			}
		}
		c.Options = append(c.Options, kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			at, err := n.lookup(ctx, brokersName)
			if err != nil {
				return nil, &net.OpError{Op: "dial", Net: network, Err: err}
			}
			return w.dial(ctx, network, net.JoinHostPort(at[0], port))
		}))
	}
}

// TestFault44NamesAway: the name of the database, of the brokers or of both cannot be resolved for a while, again and
// again, and every connection there was is gone. The relay goes on asking, gives nothing up, and works again as soon as
// there is an answer.
func TestFault44NamesAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		names []string
		cut   func(r *rig, w *wire)
	}{
		"database": {[]string{databaseName}, func(r *rig, _ *wire) { r.proxy.Down(); r.proxy.Up() }},
		"brokers":  {[]string{brokersName}, func(_ *rig, w *wire) { w.setDown(true); w.setDown(false) }},
		"both": {[]string{databaseName, brokersName}, func(r *rig, w *wire) {
			w.setDown(true)
			w.setDown(false)
			r.proxy.Down()
			r.proxy.Up()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, n := newRig(t), newWire(t), newNames()
			topic, dlq := r.broker.Topic(t, 3, nil), r.broker.Topic(t, 1, nil)
			l := r.newLedger(topic)
			r.startWith(dlq, options{kafka: n.brokers(w), connect: n.connect})
			for range 3 {
				l.write(topic, 20, 10)
				r.until(`exists (select from postrider.v_outbox_event where state = 'published')`)
				n.set(true, c.names...)
				c.cut(r, w)
				l.write(topic, 20, 10)
				r.untilTrue(c.names[0]+" was asked for", func() bool { return n.failures(c.names[0]) >= 3 })
				n.set(false, c.names...)
				r.until(drained)
			}
			r.until(`not exists (select from postrider.outbox_hold)`)
			l.wantAll(dlq)
		})
	}
}
