package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// hubLimit is the largest request that Azure Event Hubs takes, in bytes.
const hubLimit = 1046528

// cutting is a connection whose other end closes it on a request that is too large. The client writes a request at once.
type cutting struct {
	net.Conn
	limit int
	cut   *atomic.Int64
}

func (c cutting) Write(b []byte) (int, error) {
	if len(b) <= c.limit {
		return c.Conn.Write(b)
	}
	c.cut.Add(1)
	_, _ = c.Conn.Write(b[:4]) // the size, which is all that the other end looks at
	_ = c.Close()
	if c.cut.Load()%2 == 0 {
		return partWritten, syscall.ECONNRESET // the other end was faster than the writing
	}
	return len(b), nil // the system has taken it
}

// Read tells of the end as a connection does whose other end has closed it.
func (c cutting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, net.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// cutAt returns settings of a publisher whose broker cuts requests over the limit.
func cutAt(limit int, cut *atomic.Int64, dial dial) kgo.Opt {
	return kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return cutting{conn, limit, cut}, err
	})
}

// large are n messages of size bytes, in the order of their keys.
func large(topic string, n, size int, keys ...string) []relay.Message {
	ms := messages(topic, n, keys...)
	for i := range ms {
		ms[i].Value = append(ms[i].Value, strings.Repeat(".", size)...)
	}
	return ms
}

// publishAll publishes until everything is delivered, as a relay does that begins anew behind what failed.
func publishAll(t *testing.T, p *Publisher, ms []relay.Message) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; {
		var left []relay.Message
		var last relay.Outcome
		for i, o := range publish(t, p, ms...) {
			switch o.Class {
			case relay.Delivered:
			case relay.Infrastructure, relay.Withheld:
				left, last = append(left, ms[i]), o
			default:
				t.Fatalf("message %d of %d: %s %s %s", i, len(ms), o.Class, o.Code, o.Message)
			}
		}
		if len(left) == 0 {
			return
		}
		if ms = left; time.Now().After(deadline) {
			t.Fatalf("%d are left; the last: %s %s %s", len(left), last.Class, last.Code, last.Message)
		}
	}
}

// TestBrokersThatCutLargeRequests: a backlog of 4 kB events goes through a broker that closes the connection on requests over
// the limit of Event Hubs, with the setting at once, and without it when the publisher has found out; each once and in order.
func TestBrokersThatCutLargeRequests(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		for _, setting := range []int{0, hubLimit} {
			t.Run(fmt.Sprint(setting), func(t *testing.T) {
				t.Parallel()
				topic := b.Topic(t, 3, nil)
				var cut atomic.Int64
				p := newPublisher(t, b, func(c *Config) {
					c.MaxRequestBytes = setting
					c.Options = []kgo.Opt{cutAt(hubLimit, &cut, dialer(t, b))}
				})
				ms := large(topic, 500, 4<<10, keys(6)...)
				publishAll(t, p, ms)
				wantTopic(t, b, topic, ms...)
				if got := cut.Load(); (got > 0) != (setting == 0) {
					t.Errorf("%d requests were cut", got)
				}
				seen := cut.Load()
				more := large(topic, 500, 4<<10, keys(6)...)
				publishAll(t, p, more)
				if got := cut.Load(); got != seen {
					t.Errorf("%d requests were cut after the publisher had found out", got-seen)
				}
			})
		}
	})
}

// TestOneCutIsNoLimit: brokers that go away in the middle of large requests, and take them later, make no request smaller.
func TestOneCutIsNoLimit(t *testing.T) {
	t.Parallel()
	failed := kgo.BrokerE2E{BytesWritten: 4 << 20, ReadErr: io.EOF}
	taken := kgo.BrokerE2E{BytesWritten: 4 << 20}
	var c cuts
	for round := range 10 {
		c.connects++
		for range 5 { // all in flight on the connection
			if c.tooLarge(failed) {
				t.Fatalf("round %d: a limit was found", round)
			}
		}
		c.connects++
		for _, nothing := range []kgo.BrokerE2E{{BytesWritten: 2000, ReadErr: io.EOF}, {BytesWritten: 3000}, {BytesWritten: 4 << 20, ReadErr: os.ErrDeadlineExceeded},
			{BytesWritten: 4 << 20, ReadErr: errors.New("the client has closed the connection")}} {
			if c.tooLarge(nothing) {
				t.Fatalf("a limit was found by %+v", nothing)
			}
		}
		if round%2 == 1 && c.tooLarge(taken) {
			t.Fatal("a limit was found by a request that was taken")
		}
	}
	for range cutsInARow - 1 {
		c.connects++
		if c.tooLarge(failed) {
			t.Fatal("a limit was found too early")
		}
	}
	c.connects++
	if !c.tooLarge(kgo.BrokerE2E{BytesWritten: 100_000, WriteErr: syscall.ECONNRESET}) { // the other end was faster than the writing
		t.Error("no limit was found")
	}
}

// TestCheckKnowsTheRequest: an event that fits into a batch and into no request is refused before it is sent.
func TestCheckKnowsTheRequest(t *testing.T) {
	t.Parallel()
	p, err := NewPublisher(Config{Brokers: []string{"127.0.0.1:1"}, MaxRequestBytes: MinMaxRequestBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m := messageOf("orders", "k", strings.Repeat("x", MinMaxRequestBytes-requestRoom))
	if o := p.Check(&m, 0); o == nil || o.Class != relay.Permanent || !strings.Contains(o.Message, "kafka max_request_bytes") {
		t.Errorf("outcome %+v", o)
	}
	m.Value = m.Value[:len(m.Value)-1000]
	if o := p.Check(&m, 0); o != nil {
		t.Errorf("outcome %+v", o)
	}
	for _, wrong := range []int{-1, MinMaxRequestBytes - 1, 1<<30 + 1} {
		if _, err := NewPublisher(Config{Brokers: []string{"127.0.0.1:1"}, MaxRequestBytes: wrong}); err == nil || !strings.Contains(err.Error(), "MaxRequestBytes is") {
			t.Errorf("%d: %v", wrong, err)
		}
	}
}
