package devstack

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxRequestBytes is Apache Kafka's socket.request.max.bytes.
const maxRequestBytes = 100 << 20

// guardListen listens like net.Listen and breaks connections that do not speak
// Kafka. kfake believes what it reads: a browser's "GET " is a request of
// 1.2 GB to it, and a request that it does not know ends the process.
func guardListen(network, addr string) (net.Listener, error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, err
	}
	return guardedListener{l}, nil
}

type guardedListener struct{ net.Listener }

func (l guardedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guardedConn{Conn: conn}, nil
}

// guardedConn passes on what it reads, one checked request after the other. A
// single goroutine reads from it.
type guardedConn struct {
	net.Conn
	header [6]byte // of the current request: its size and its kind
	unread []byte  // what of header the reader has not got yet
	left   int     // how much of the request follows the header
}

// Read reads from the current request, never beyond its end.
func (c *guardedConn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 && c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.unread) > 0 {
		n := copy(p, c.unread)
		c.unread = c.unread[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// next reads and checks the header of the next request. Every request has at
// least ten bytes after its size: kind, version, id and the client's name.
func (c *guardedConn) next() error {
	if _, err := io.ReadFull(c.Conn, c.header[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(c.header[:4]))
	key := int16(binary.BigEndian.Uint16(c.header[4:]))
	if size < 10 || size > maxRequestBytes || kmsg.RequestForKey(key) == nil {
		return fmt.Errorf("%s does not speak Kafka: a request of %d bytes of kind %d", c.RemoteAddr(), size, key)
	}
	c.unread, c.left = c.header[:], size-2
	return nil
}
