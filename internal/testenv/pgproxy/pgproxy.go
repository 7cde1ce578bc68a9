// Package pgproxy is a proxy between PostgreSQL clients and their server, for tests. It understands the
// messages that pass and cuts a connection at the one moment that matters: around a commit. It is the
// network too, and can freeze, break and slow down.
//
// A connection that is lost after the server has committed and before the client knows leaves the client
// with an unknown outcome. No fault injected from outside hits that moment; a proxy that reads the
// protocol does, every time.
package pgproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// moment is when a connection is cut.
type moment int

const (
	never moment = iota
	beforeCommit
	afterCommit
	atQuery
)

// Proxy passes connections on to one server.
type Proxy struct {
	url, server string
	listener    net.Listener
	cancel      context.CancelFunc
	wg          sync.WaitGroup

	mu    sync.Mutex
	when  moment
	match func(queries []string) bool
	left  int
	cuts  int
	weather
	open map[*session]struct{}
}

// Start starts a proxy for the server that the URL names. It ends with the test, and its connections
// with it.
func Start(t testing.TB, serverURL string) *Proxy {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatalf("pgproxy: the server's URL: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("pgproxy: %v", err)
	}
	server := u.Host
	u.Host = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{url: u.String(), server: server, listener: listener, cancel: cancel, open: map[*session]struct{}{}}
	p.wg.Go(func() { p.accept(ctx) })
	t.Cleanup(p.close)
	return p
}

// URL is the server's address through the proxy.
func (p *Proxy) URL() string { return p.url }

// CutBeforeCommit loses the next n commits of transactions whose queries match: the connection is cut
// when the client commits, and the server never hears of it. queries are the texts that the transaction
// has run, in order. It replaces what was to be cut before.
func (p *Proxy) CutBeforeCommit(n int, match func(queries []string) bool) {
	p.arm(beforeCommit, n, match)
}

// CutAfterCommit loses the answers to the next n commits of transactions whose queries match: the server
// has committed, and the connection is cut before the client knows.
func (p *Proxy) CutAfterCommit(n int, match func(queries []string) bool) {
	p.arm(afterCommit, n, match)
}

// CutAtQuery cuts the next n connections whose client sends a query that matches, together with what the
// transaction has run before it: the server never hears of it, nor of what comes after it.
func (p *Proxy) CutAtQuery(n int, match func(queries []string) bool) {
	p.arm(atQuery, n, match)
}

// Cuts is how many connections were cut so far.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Containing matches transactions with a query that contains the text.
func Containing(text string) func([]string) bool {
	return func(queries []string) bool {
		for _, q := range queries {
			if strings.Contains(q, text) {
				return true
			}
		}
		return false
	}
}

func (p *Proxy) arm(when moment, n int, match func([]string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.when, p.left, p.match = when, n, match
}

// cut decides whether a connection is to be cut now.
func (p *Proxy) cut(now moment, queries []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.when != now || p.left == 0 || !p.match(queries) {
		return false
	}
	p.left--
	p.cuts++
	return true
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.isDown() {
			_ = client.Close()
			continue
		}
		p.wg.Go(func() { p.serve(ctx, client) })
	}
}

func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	s := &session{proxy: p, over: make(chan struct{}), statements: map[string]string{}}
	s.client, s.server = through{client, s}, through{server, s}
	p.mu.Lock()
	p.open[s] = struct{}{}
	p.mu.Unlock()
	if ctx.Err() == nil && !p.isDown() {
		s.run()
	}
	s.end()
	p.mu.Lock()
	delete(p.open, s)
	p.mu.Unlock()
}

func (p *Proxy) close() {
	p.cancel()
	_ = p.listener.Close()
	p.mu.Lock()
	for s := range p.open {
		s.end()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// errCut ends a session on purpose.
var errCut = errors.New("cut")

func tooLong(n int) error { return fmt.Errorf("a message of %d bytes", n) }
