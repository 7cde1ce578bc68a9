package kafka

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A broker closes the connection on a request that is larger than it takes, without an answer. Kafka's own limit is 100 MiB
// (socket.request.max.bytes), that of Azure Event Hubs is 1,046,528 bytes. The client would send the same request for ever.

// requestRoom is what a request has beside the records of one partition: its header, and names of topics.
const requestRoom = 16 << 10

// DefaultMaxRequestBytes is Kafka's own default of socket.request.max.bytes.
const DefaultMaxRequestBytes = 100 << 20

// MinMaxRequestBytes is the least that Config.MaxRequestBytes may be.
const MinMaxRequestBytes = 64 << 10

// saferRequest is the least limit that is found. A found limit is at least this. The largest 4 % of what Kafka's default of
// message.max.bytes allows do not fit into it.
const saferRequest = 1 << 20 * 98 / 100

// partWritten is how much of a request was written at least when the other end closed the connection meanwhile: what is smaller
// fits into the buffers of the connection.
const partWritten = 64 << 10

// cutsInARow is how many connections to a broker in a row must end with a large request before it is taken for too large. A
// broker that is restarted does not answer what a client asks first on a new connection, so that these requests are not sent there.
const cutsInARow = 3

// limitRequests bounds the requests of clients that are made from now on, and so the batches of partitions in them.
func (p *Publisher) limitRequests(bytes int) {
	p.maxRequest.Store(int64(bytes))
	p.maxBatch.Store(int64(min(p.cfg.MaxMessageBytes, bytes-requestRoom)))
}

// cuts counts the connections of one client to one broker that ended with a large request. It is a part of met.
type cuts struct {
	connects, counted int // connections that were made, and the one that was counted last
	inARow            int
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (m *met) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cutsOf(meta.NodeID).connects++
}

// cutsOf returns the cuts of a broker. m.mu is held.
func (m *met) cutsOf(broker int32) *cuts {
	if m.cuts == nil {
		m.cuts = map[int32]*cuts{}
	}
	if m.cuts[broker] == nil {
		m.cuts[broker] = &cuts{}
	}
	return m.cuts[broker]
}

// tooLarge notes how a request with records ended, and reports whether its size seems to be the reason. Only a connection that
// the other end has closed is counted, and no silence.
func (c *cuts) tooLarge(e2e kgo.BrokerE2E) bool {
	err := e2e.Err()
	large := e2e.BytesWritten > saferRequest || e2e.WriteErr != nil && e2e.BytesWritten >= partWritten
	switch {
	case !large:
	case err == nil:
		c.inARow = 0
	case !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE):
	case c.counted != c.connects: // all requests in flight on a connection end with it
		c.counted = c.connects
		c.inARow++
	}
	return c.inARow >= cutsInARow
}

// tooLarge gives up a client whose requests are cut, so that its records go out anew in smaller ones, and lets no later
// client send such large ones.
func (p *Publisher) tooLarge(c *kgo.Client, bytes int) {
	p.mu.Lock()
	generation, known := p.all[c]
	if !known || p.closed {
		p.mu.Unlock()
		return
	}
	if generation == p.generation {
		found := max(saferRequest, bytes/2)
		if p.cfg.MaxMessageBytes > DefaultMaxMessageBytes { // brokers take this, say the settings
			found = max(found, p.cfg.MaxMessageBytes+requestRoom)
		}
		p.limitRequests(found)
		p.generation++
		p.cfg.Logger.Warn("brokers close the connection on large requests; requests are smaller from now on, until the next start",
			"cut_bytes", bytes, "max_bytes", found, "remedy", fmt.Sprintf("set kafka.max_request_bytes to what the brokers take, such as %d", found))
	}
	delete(p.all, c)
	delete(p.met, c)
	p.idle = slices.DeleteFunc(p.idle, func(idle *kgo.Client) bool { return idle == c })
	p.mu.Unlock()
	c.Close()
}
