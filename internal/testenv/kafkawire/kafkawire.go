// Package kafkawire makes the in-process broker behave on the network as brokers of other makers do: it closes connections on
// large requests, or takes long to acknowledge records.
package kafkawire

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// Manner is how a broker behaves. The zero Manner is that of Apache Kafka.
type Manner struct {
	// MaxRequest is the largest request in bytes. A connection with a larger one is closed when the request begins, without
	// an answer. Defaults to 0, which is any.
	MaxRequest int
	// Cut is called with the size of each request that was too large. It may be called concurrently. May be nil.
	Cut func(bytes int)
	// ProduceTime is the time from the beginning of a request with records to its answer. Requests are worked on meanwhile,
	// and answers keep their order. Defaults to 0.
	ProduceTime time.Duration
}

// Listen is what kfake listens with.
type Listen = func(network, address string) (net.Listener, error)

// Over makes connections behave so, for kfake.ListenFn; listen is net.Listen, or that of a virtual network.
func (m Manner) Over(listen Listen) Listen {
	return func(network, address string) (net.Listener, error) {
		l, err := listen(network, address)
		if err != nil {
			return nil, err
		}
		return listener{l, m}, nil
	}
}

type listener struct {
	net.Listener
	manner Manner
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	b := &conn{Conn: c, manner: l.manner, closed: make(chan struct{})}
	if b.manner.ProduceTime > 0 {
		b.due, b.answers = make(chan time.Time, inFlight), make(chan answer, inFlight)
		go b.send()
	}
	return b, nil
}

// inFlight is how many requests a connection has without an answer at most. A client has a few.
const inFlight = 1000

// A request begins with its size in four bytes and its kind in two. Produce is kind 0.
const (
	sizeBytes    = 4
	requestBytes = sizeBytes + 2
)

// conn is a connection as the broker has it.
type conn struct {
	net.Conn
	manner Manner
	// head is the beginning of a request that the broker has not read yet, left what follows it.
	head []byte
	left int

	due     chan time.Time // of the answer to each request
	answers chan answer
	closed  chan struct{}
	once    sync.Once
}

// answer is what the broker has written, and when the client gets it.
type answer struct {
	bytes []byte
	due   time.Time
}

// Read reads what a client asks.
func (c *conn) Read(b []byte) (int, error) {
	if len(c.head) == 0 && c.left == 0 {
		if err := c.begin(); err != nil {
			return 0, err
		}
	}
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// begin reads the beginning of a request.
func (c *conn) begin() error {
	head := make([]byte, requestBytes)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head))
	if c.manner.MaxRequest > 0 && size > c.manner.MaxRequest {
		if c.manner.Cut != nil {
			c.manner.Cut(size)
		}
		_ = c.Close()
		return net.ErrClosed
	}
	if c.due != nil {
		due := time.Now()
		if binary.BigEndian.Uint16(head[sizeBytes:]) == 0 {
			due = due.Add(c.manner.ProduceTime)
		}
		select {
		case c.due <- due:
		case <-c.closed:
			return net.ErrClosed
		}
	}
	c.head, c.left = head, size-(requestBytes-sizeBytes)
	return nil
}

// Write takes an answer. The broker writes each answer at once.
func (c *conn) Write(b []byte) (int, error) {
	if c.due == nil {
		return c.Conn.Write(b)
	}
	a := answer{bytes: append([]byte(nil), b...)}
	select {
	case a.due = <-c.due:
	case <-c.closed:
		return 0, net.ErrClosed
	}
	select {
	case c.answers <- a:
		return len(b), nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

// send gives the client each answer when it is due.
func (c *conn) send() {
	for {
		select {
		case a := <-c.answers:
			wait := time.NewTimer(time.Until(a.due))
			select {
			case <-wait.C:
			case <-c.closed:
				wait.Stop()
				return
			}
			if _, err := c.Conn.Write(a.bytes); err != nil {
				_ = c.Close()
				return
			}
		case <-c.closed:
			return
		}
	}
}

// Close closes the connection. Answers that are not due yet are lost.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
