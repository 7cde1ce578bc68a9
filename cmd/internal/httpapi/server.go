package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/postrider/postrider/cmd/internal/forwarded"
)

// Config is what a Server is made of.
type Config struct {
	// Address to listen on, host:port; port 0 picks a free one. Required.
	Address string
	// Checks decide about readiness; all must pass. Defaults to none.
	Checks []Check
	// CheckTimeout bounds each check. Defaults to 2s.
	CheckTimeout time.Duration
	// Metrics are what /metrics shows. Required.
	Metrics prometheus.Gatherer
	// Registerer receives the server's own metrics, postrider_ready. Defaults to none.
	Registerer prometheus.Registerer
	// API answers requests under /v1/ and /api/. Defaults to none.
	API http.Handler
	// MCP answers requests under /mcp, for agents. Defaults to none.
	MCP http.Handler
	// Proxies are the networks of proxies whose word about the client counts. Defaults to none.
	Proxies []netip.Prefix
	// Console answers every other request: the pages for people. Defaults to none.
	Console http.Handler
	// Timeout is how long an operation of the API may take; the answer has some seconds more to be read.
	// Defaults to 25s.
	Timeout time.Duration
	// MaxBody is the largest body of a request, in bytes. Defaults to 1 MiB.
	MaxBody int64
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Server listens from New on, answers from Serve on, and ends with Stop.
type Server struct {
	http     *http.Server
	listener net.Listener
	ready    *readiness
	log      *slog.Logger
	unasked  sync.Map // connections on which nothing was asked yet
}

// New listens on the address, so that an address in use is found out here.
func New(cfg Config) (*Server, error) {
	if cfg.Metrics == nil {
		return nil, errors.New("httpapi: Metrics is required")
	}
	if cfg.CheckTimeout == 0 {
		cfg.CheckTimeout = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 25 * time.Second
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 1 << 20
	}
	log := cfg.Logger.With("component", "http")
	listener, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	s := &Server{listener: listener, ready: newReadiness(cfg.Checks, cfg.CheckTimeout, log), log: log}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(s.ready.shown); err != nil {
			return nil, errors.Join(fmt.Errorf("httpapi: register metrics: %w", err), listener.Close())
		}
	}
	s.http = &http.Server{
		Handler:  s.routes(cfg),
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		// A client that sends or reads slowly holds a connection no longer than this.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      max(cfg.Timeout, 10*time.Second) + 20*time.Second, // reading may take 15 s of it
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.unasked.Store(c, nil)
			} else {
				s.unasked.Delete(c)
			}
		},
	}
	return s, nil
}

// routes is everything the server answers.
func (s *Server) routes(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", live)
	mux.Handle("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError),
		// A collector that fails takes only its own metrics away.
		ErrorHandling: promhttp.ContinueOnError,
		// The only format that has exemplars; the caller chooses it.
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	}))
	if cfg.API != nil {
		mux.HandleFunc("GET /api/openapi.yaml", serveOpenAPI)
		for _, path := range []string{"/v1", "/v1/", "/api", "/api/"} { // without the first of each the mux answers with HTML
			mux.Handle(path, cfg.API)
		}
	}
	if cfg.MCP != nil {
		mux.Handle("/mcp", cfg.MCP)
	}
	if cfg.Console != nil {
		mux.Handle("/", cfg.Console)
	}
	return forwarded.Handler(cfg.Proxies, guarded(mux, cfg.MaxBody))
}

// guarded adds what every answer carries.
func guarded(next http.Handler, maxBody int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// live answers as long as the process does, whatever happens to others.
func live(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// Addr is where the server listens, with the port it got.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve answers until Stop, and returns nil then.
func (s *Server) Serve() error {
	s.log.Info("listening", "address", s.Addr())
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("httpapi: %w", err)
	}
	return nil
}

// CheckReadiness makes the checks of /readyz, for an operator who looks at the metric and never asks.
func (s *Server) CheckReadiness(ctx context.Context) { s.ready.results(ctx) }

// Drain makes /readyz answer 503 from now on, so that nothing new is sent here while the rest of
// the process stops.
func (s *Server) Drain() { s.ready.draining.Store(true) }

// Stop finishes the requests in hand until ctx ends, then cuts them. It may be called more than
// once, and without Serve.
func (s *Server) Stop(ctx context.Context) error {
	s.Drain()
	// Shutdown would wait five seconds for a request on a connection that has had none, which is all the time of a stop.
	s.unasked.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("httpapi: requests were cut: %w", err), s.http.Close())
	}
	// Shutdown closes only listeners that Serve has seen.
	if closing := s.listener.Close(); closing != nil && !errors.Is(closing, net.ErrClosed) {
		err = errors.Join(err, fmt.Errorf("httpapi: %w", closing))
	}
	return err
}
