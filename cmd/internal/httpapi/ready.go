package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Check asks one thing that this process depends on.
type Check struct {
	// Name is its name in the answer, "database" for example.
	Name string
	// Run returns nil when it is usable. Its context ends after the server's CheckTimeout.
	Run func(context.Context) error
	// Remedy says what to do when it fails. Everybody may read it. Defaults to nothing.
	Remedy string
}

// readiness answers /readyz.
type readiness struct {
	probes   []*probe
	draining atomic.Bool
	shown    *prometheus.GaugeVec
}

func newReadiness(checks []Check, timeout time.Duration, log *slog.Logger) *readiness {
	r := &readiness{shown: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "postrider_ready",
		Help: "1 while what this process depends on is usable, by check, otherwise 0; as /readyz says."}, []string{"check"})}
	for _, c := range checks {
		r.probes = append(r.probes, &probe{Check: c, timeout: timeout, log: log, shown: r.shown.WithLabelValues(c.Name)})
	}
	return r
}

// checkResult is the state of one check in the answer.
type checkResult struct {
	OK     bool    `json:"ok"`
	TookMS float64 `json:"took_ms"`
	Error  string  `json:"error,omitempty"`
	Remedy string  `json:"remedy,omitempty"`
}

// answer is the body of /readyz.
type answer struct {
	Ready bool `json:"ready"`
	// Message says in one line what fails and what to do.
	Message  string                 `json:"message"`
	Stopping bool                   `json:"stopping"`
	Checks   map[string]checkResult `json:"checks"`
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	results := r.results(req.Context())
	a := answer{Stopping: r.draining.Load(), Checks: map[string]checkResult{}}
	var failed []string
	if a.Stopping {
		failed = append(failed, "this process is stopping; ask another one")
	}
	for i, p := range r.probes {
		if !results[i].OK {
			results[i].Remedy = p.Remedy
			failed = append(failed, strings.TrimSuffix(fmt.Sprintf("%s: %s; %s", p.Name, results[i].Error, p.Remedy), "; "))
		}
		a.Checks[p.Name] = results[i]
	}
	a.Ready, a.Message = len(failed) == 0, "ready"
	if !a.Ready {
		a.Message = "not ready: " + strings.Join(failed, ". ")
	}
	w.Header().Set("Content-Type", "application/json")
	if !a.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(a) // the client may be gone
}

// results makes all checks.
func (r *readiness) results(ctx context.Context) []checkResult {
	results := make([]checkResult, len(r.probes))
	var wg sync.WaitGroup
	for i, p := range r.probes {
		wg.Go(func() { results[i] = p.result(ctx) })
	}
	wg.Wait()
	return results
}

// probe runs one check for all who ask at the same time, so that many requests, or a check that
// hangs, cost one call. The text of an error goes to the log only: anybody may ask this endpoint,
// and the text names hosts and users.
type probe struct {
	Check
	timeout time.Duration
	log     *slog.Logger
	shown   prometheus.Gauge

	mu      sync.Mutex
	running chan struct{} // closed when the call under way has ended; nil when there is none
	last    checkResult
	failing bool
}

// result waits for a call that is under way, or makes one.
func (p *probe) result(ctx context.Context) checkResult {
	p.mu.Lock()
	if p.running == nil {
		p.running = make(chan struct{})
		// The call serves others too, so it does not end with the request that began it.
		go p.call(context.WithoutCancel(ctx), p.running)
	}
	running := p.running
	p.mu.Unlock()

	patience := time.NewTimer(p.timeout + 100*time.Millisecond) // a check that ignores its context
	defer patience.Stop()
	select {
	case <-running:
	case <-patience.C:
		return p.late()
	case <-ctx.Done():
		return p.late()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *probe) late() checkResult {
	return checkResult{TookMS: milliseconds(p.timeout), Error: fmt.Sprintf("no answer within %v", p.timeout)}
}

func (p *probe) call(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	began := time.Now()
	err := p.Run(ctx)
	r := checkResult{OK: err == nil, TookMS: milliseconds(time.Since(began))}
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		r.Error = p.late().Error
	default:
		r.Error = "failed; the log of this process says why (\"not ready\")"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if changed := p.failing != (err != nil); changed && err != nil {
		p.log.Warn("not ready", "check", p.Name, "err", err)
	} else if changed {
		p.log.Info("ready again", "check", p.Name)
	}
	p.last, p.failing, p.running = r, err != nil, nil
	shown := 1.0
	if err != nil {
		shown = 0
	}
	p.shown.Set(shown)
	close(done)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
