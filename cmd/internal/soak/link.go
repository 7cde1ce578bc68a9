package soak

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Condition is the state of a network link.
type Condition struct {
	// NothingUp and NothingDown let nothing pass that clients send, or that the server answers.
	// Connections stay open and what was sent waits, as for packets that a network drops and that are
	// sent again when it is back. A new connection hangs under either. Default to false.
	NothingUp, NothingDown bool
	// Delay is how long every piece of data is under way. Defaults to 0.
	Delay time.Duration
	// Slice is the largest piece, in bytes. Defaults to 16 KiB.
	Slice int
}

// Link is a network link to one server that can be broken: a TCP proxy on loopback.
type Link struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu        sync.Mutex
	target    string
	condition Condition
	changed   chan struct{} // closed and replaced with each change of condition
	open      map[*wire]struct{}
	closed    bool
}

// wire is one connection through a link.
type wire struct {
	client, server net.Conn // server is nil until it is connected
	done           chan struct{}
	once           sync.Once
}

// NewLink opens a link on a port of its own; it leads nowhere until Aim.
func NewLink() (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a link: %w", err)
	}
	l := &Link{listener: listener, changed: make(chan struct{}), open: map[*wire]struct{}{}}
	l.wg.Go(l.accept)
	return l, nil
}

// Addr is where clients connect to, host:port.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Port is the port of Addr.
func (l *Link) Port() int { return l.listener.Addr().(*net.TCPAddr).Port }

// Aim says which server new connections lead to, host:port.
func (l *Link) Aim(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// Set changes the condition of the link, of connections that are open too. The zero Condition heals it,
// and what waited goes on.
func (l *Link) Set(c Condition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.condition = c
	close(l.changed)
	l.changed = make(chan struct{})
}

// Cut resets every open connection. Data that waited in them is gone.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.open {
		w.end()
	}
}

// Close ends the link and its connections.
func (l *Link) Close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.Cut()
	l.wg.Wait()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.wg.Go(func() { l.carry(&wire{client: client, done: make(chan struct{})}) })
	}
}

func (l *Link) carry(w *wire) {
	l.mu.Lock()
	l.open[w] = struct{}{}
	closed := l.closed
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		w.end()
		delete(l.open, w)
		l.mu.Unlock()
	}()
	if closed || !l.pass(w, func(c Condition) bool { return !c.NothingUp && !c.NothingDown }) {
		return
	}
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		return
	}
	l.mu.Lock()
	w.server = server
	l.mu.Unlock()
	select {
	case <-w.done: // cut while it was dialled
		_ = server.Close()
		return
	default:
	}
	var both sync.WaitGroup
	both.Go(func() { l.copy(w, w.client, server, func(c Condition) bool { return !c.NothingUp }) })
	both.Go(func() { l.copy(w, server, w.client, func(c Condition) bool { return !c.NothingDown }) })
	both.Wait()
}

// copy carries data one way, when the condition of the link lets it pass, until either side ends.
func (l *Link) copy(w *wire, from, to net.Conn, passes func(Condition) bool) {
	defer w.end()
	piece := make([]byte, 16<<10)
	for {
		n, err := from.Read(piece)
		for data := range slices.Chunk(piece[:n], l.slice()) {
			if !l.pass(w, passes) {
				return
			}
			if _, err := to.Write(data); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *Link) slice() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.condition.Slice > 0 {
		return l.condition.Slice
	}
	return 16 << 10
}

// pass waits until the condition lets data pass, and for its delay. It reports false when the connection
// ended meanwhile.
func (l *Link) pass(w *wire, passes func(Condition) bool) bool {
	for {
		l.mu.Lock()
		condition, changed := l.condition, l.changed
		l.mu.Unlock()
		if passes(condition) {
			if condition.Delay == 0 {
				return !w.ended()
			}
			delay := time.NewTimer(condition.Delay)
			defer delay.Stop()
			select {
			case <-delay.C:
				return true
			case <-w.done:
				return false
			}
		}
		select {
		case <-changed:
		case <-w.done:
			return false
		}
	}
}

func (w *wire) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// end resets both sides: with no linger a close sends a reset and drops what was not sent.
func (w *wire) end() {
	w.once.Do(func() {
		close(w.done)
		for _, conn := range []net.Conn{w.client, w.server} {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
				_ = tcp.Close()
			}
		}
	})
}
