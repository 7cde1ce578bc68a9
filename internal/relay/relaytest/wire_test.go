package relaytest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay/kafka"
)

// wire is the network between a relay and its brokers: real connections through a proxy in this process,
// which can freeze, break and lose what passes.
type wire struct {
	ctx      context.Context
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	conns   map[*wireConn]struct{}
	dialled map[string]string // the broker's address by the client's
	frozen  map[string]bool   // by the broker's address; "" is all
	changed chan struct{}     // closed and replaced when frozen changes
	down    bool
	replies int // answers to lose, with their connections
	cuts    int // requests to cut in the middle
	cut     int // how often it did either
	slice   int
	pause   time.Duration
}

type wireConn struct {
	addr           string
	client, server net.Conn
	once           sync.Once
	over           chan struct{}
}

func (c *wireConn) end() {
	c.once.Do(func() {
		close(c.over)
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

func newWire(t testing.TB) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &wire{ctx: ctx, listener: listener, conns: map[*wireConn]struct{}{}, dialled: map[string]string{}, frozen: map[string]bool{}, changed: make(chan struct{})}
	w.wg.Go(w.accept)
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		w.mu.Lock()
		for c := range w.conns {
			c.end()
		}
		w.mu.Unlock()
		w.wg.Wait()
	})
	return w
}

// use makes a relay's producers connect through the wire.
func (w *wire) use(c *kafka.Config) { c.Options = append(c.Options, kgo.Dialer(w.dial)) }

// dial connects to the proxy, and tells it for whom: the proxy sees the address that this end has.
func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: net.ErrClosed}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, w.listener.Addr().String())
	if err == nil {
		w.dialled[c.LocalAddr().String()] = addr
	}
	return c, err
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.wg.Go(func() { w.serve(client) })
	}
}

func (w *wire) serve(client net.Conn) {
	w.mu.Lock()
	addr := w.dialled[client.RemoteAddr().String()]
	w.mu.Unlock()
	var d net.Dialer
	server, err := d.DialContext(w.ctx, "tcp", addr)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &wireConn{addr: addr, client: client, server: server, over: make(chan struct{})}
	w.mu.Lock()
	w.conns[c] = struct{}{}
	closed := w.down || w.ctx.Err() != nil
	w.mu.Unlock()
	if closed {
		c.end()
	}
	var both sync.WaitGroup
	both.Go(func() { defer c.end(); w.pass(c, client, server, false) })
	both.Go(func() { defer c.end(); w.pass(c, server, client, true) })
	both.Wait()
	w.mu.Lock()
	delete(w.conns, c)
	w.mu.Unlock()
}

// pass copies what comes, as the weather allows.
func (w *wire) pass(c *wireConn, from io.Reader, to io.Writer, replies bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			if !w.open(c) {
				return
			}
			w.mu.Lock()
			piece, lost, half := rest, replies && w.replies > 0, !replies && w.cuts > 0 && len(rest) > 200
			if lost {
				w.replies--
				w.cut++
			}
			if half {
				w.cuts--
				w.cut++
				piece = rest[:len(rest)/2]
			}
			pause := time.Duration(0)
			if w.slice > 0 {
				piece, pause = piece[:min(len(piece), w.slice)], w.pause
			}
			w.mu.Unlock()
			if lost {
				return
			}
			if pause > 0 {
				select {
				case <-time.After(pause):
				case <-c.over:
					return
				}
			}
			if _, err := to.Write(piece); err != nil || half {
				return
			}
			rest = rest[len(piece):]
		}
		if err != nil {
			return
		}
	}
}

// open waits while the connection's broker is frozen; it is false when the connection ended meanwhile.
func (w *wire) open(c *wireConn) bool {
	for {
		w.mu.Lock()
		stuck, changed := w.frozen[c.addr] || w.frozen[""], w.changed
		w.mu.Unlock()
		if !stuck {
			return true
		}
		select {
		case <-changed:
		case <-c.over:
			return false
		}
	}
}

// freeze lets nothing pass to and from a broker, or all with "", and closes nothing.
func (w *wire) freeze(addr string, frozen bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen[addr] = frozen
	close(w.changed)
	w.changed = make(chan struct{})
}

// setDown cuts all connections and refuses new ones, or ends that.
func (w *wire) setDown(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
	if down {
		for c := range w.conns {
			c.end()
		}
	}
}

// lose loses the next answers and cuts the next requests in the middle, each with its connection.
func (w *wire) lose(replies, requests int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replies, w.cuts = replies, requests
}

// slow passes everything on in pieces of so many bytes with a pause before each.
func (w *wire) slow(bytes int, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slice, w.pause = bytes, pause
}

// broken is how many answers were lost and requests cut.
func (w *wire) broken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}
