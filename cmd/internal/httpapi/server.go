package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Server listens from New on, answers from Serve on, and ends with Stop.
type Server struct {
	http     *http.Server
	listener net.Listener
	ready    *readiness
	log      *slog.Logger
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
	log := cfg.Logger.With("component", "http")
	listener, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	s := &Server{listener: listener, ready: newReadiness(cfg.Checks, cfg.CheckTimeout, log), log: log}
	s.http = &http.Server{
		Handler:  s.routes(cfg.Metrics),
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		// A client that sends or reads slowly holds a connection no longer than this.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	return s, nil
}

// routes is everything the server answers.
func (s *Server) routes(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", live)
	mux.Handle("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError),
		// A collector that fails takes only its own metrics away.
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	}))
	return guarded(mux)
}

// guarded adds what every answer carries.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
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

// Drain makes /readyz answer 503 from now on, so that nothing new is sent here while the rest of
// the process stops.
func (s *Server) Drain() { s.ready.draining.Store(true) }

// Stop finishes the requests in hand until ctx ends, then cuts them. It may be called more than
// once, and without Serve.
func (s *Server) Stop(ctx context.Context) error {
	s.Drain()
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
