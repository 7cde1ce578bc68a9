package pgproxy

import (
	"io"
	"net"
	"time"
)

// weather is what the network between the clients and the server does.
type weather struct {
	frozen chan struct{} // closed when bytes pass again; nil while they do
	down   bool
	slice  int
	pause  time.Duration
}

// Freeze lets nothing pass any more, in either direction, and closes nothing: half-open connections, as
// when a machine or a switch vanishes. New connections are accepted and get no answer either.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.weather.frozen == nil {
		p.weather.frozen = make(chan struct{})
	}
}

// Thaw ends Freeze: what was sent meanwhile arrives.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.weather.frozen != nil {
		close(p.weather.frozen)
		p.weather.frozen = nil
	}
}

// Down cuts all connections and every new one, as when a server is away or a firewall refuses.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather.down = true
	for s := range p.open {
		s.end()
	}
}

// Up ends Down.
func (p *Proxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather.down = false
}

// Slow passes everything on in pieces of so many bytes with a pause before each; 0 bytes ends it.
func (p *Proxy) Slow(bytes int, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather.slice, p.weather.pause = bytes, pause
}

// isDown reports whether connections are refused.
func (p *Proxy) isDown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weather.down
}

// through is a connection whose writes go through the weather.
type through struct {
	net.Conn
	s *session
}

var _ io.Writer = through{}

func (c through) Write(b []byte) (int, error) {
	written := 0
	for {
		p := c.s.proxy
		p.mu.Lock()
		w := p.weather
		p.mu.Unlock()
		if w.frozen != nil {
			select {
			case <-w.frozen:
				continue
			case <-c.s.over:
				return written, net.ErrClosed
			}
		}
		piece := b[written:]
		if w.slice > 0 {
			piece = piece[:min(w.slice, len(piece))]
			select {
			case <-time.After(w.pause):
			case <-c.s.over:
				return written, net.ErrClosed
			}
		}
		n, err := c.Conn.Write(piece)
		written += n
		if err != nil || written == len(b) {
			return written, err
		}
	}
}
