package console

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// API runs operations of the HTTP API in the process; *httpapi.API is one.
type API interface {
	Call(ctx context.Context, method, path string, query url.Values, body any) (any, error)
}

// Sessions know who is signed in; access.Recently is one.
type Sessions interface {
	// Session may know it from a moment ago; SessionNow looks it up, for what changes something.
	Session(ctx context.Context, token string) (access.Session, error)
	SessionNow(ctx context.Context, token string) (access.Session, error)
	SessionByKey(ctx context.Context, key string, age time.Duration) (access.Session, string, error)
	SessionByLink(ctx context.Context, link string, age time.Duration) (access.Session, string, error)
	LinkOf(ctx context.Context, link string) (name string, err error)
	EndSession(ctx context.Context, id string) error
}

// Outbox has figures of the log for plots; *postgres.Store of internal/relay is one.
type Outbox interface {
	Delivered(ctx context.Context, after int64, since time.Time) (last int64, counts []relay.TimeCount, err error)
	Latency(ctx context.Context) (half, most time.Duration, known bool, err error)
}

// Investigations have figures of dead letters for plots; *postgres.Investigations of internal/dlq is one.
type Investigations interface {
	GroupHours(ctx context.Context, groups []uuid.UUID) (map[uuid.UUID][]dlq.HourCount, error)
	OpenedSince(ctx context.Context, since time.Time) (counts []dlq.HourCount, next time.Time, err error)
	Messages(ctx context.Context, entries []uuid.UUID) (map[uuid.UUID]string, error)
}

// Config is what a Console is made of. API, Sessions, Outbox and Investigations are required.
type Config struct {
	// API does everything that a page asks for. Required.
	API API
	// Sessions know who is signed in. Required.
	Sessions Sessions
	// Outbox and Investigations have the figures of plots. Required.
	Outbox         Outbox
	Investigations Investigations
	// Failures limits how often an address may present a key or a link that does not work; it is the API's limiter.
	// Defaults to no limit.
	Failures *access.Limiter
	// URL is where browsers reach the console; with https, cookies are for https alone. Defaults to "", this machine.
	URL string
	// Name says which installation it is. Defaults to "".
	Name string
	// SessionAge is how long a session lasts at most. Defaults to 12h.
	SessionAge time.Duration
	// Every is how often figures are read while a page asks for them. Defaults to 2s.
	Every time.Duration
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Console serves the pages.
type Console struct {
	cfg     Config
	log     *slog.Logger
	figures *sampler
	pages   *renderer
	handler http.Handler
	cookies cookies
	known   lastKnown
	streams atomic.Int64  // open pages that hear of changes
	ended   chan struct{} // closed when Run ends
}

//go:embed static
var static embed.FS

// New checks the configuration and reads the templates.
func New(cfg Config) (*Console, error) {
	if cfg.API == nil || cfg.Sessions == nil || cfg.Outbox == nil || cfg.Investigations == nil {
		return nil, errors.New("console: API, Sessions, Outbox and Investigations are required")
	}
	if cfg.Failures == nil {
		cfg.Failures = access.NewLimiter(0, 0)
	}
	if cfg.SessionAge == 0 {
		cfg.SessionAge = 12 * time.Hour
	}
	if cfg.Every == 0 {
		cfg.Every = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	pages, err := newRenderer()
	if err != nil {
		return nil, err
	}
	own, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, err
	}
	c := &Console{cfg: cfg, log: cfg.Logger.With("component", "console"), pages: pages, cookies: cookies{own: own}, ended: make(chan struct{})}
	c.figures = &sampler{api: cfg.API, outbox: cfg.Outbox, investigations: cfg.Investigations, every: cfg.Every, log: c.log, changed: make(chan struct{}), wake: make(chan struct{}, 1)}
	c.handler = c.routes()
	return c, nil
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Run reads figures until ctx ends. Pages are served without it, too; they have no figures then.
func (c *Console) Run(ctx context.Context) error {
	defer close(c.ended)
	c.figures.run(ctx)
	return nil
}

// routes is everything that the console answers.
func (c *Console) routes() http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // it is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /console/static/", http.StripPrefix("/console/static/", cached(http.FileServerFS(files))))
	mux.HandleFunc("GET /login", c.showLogin)
	mux.HandleFunc("POST /login", c.login)
	mux.HandleFunc("POST /logout", c.logout)
	mux.HandleFunc("GET /console/events", c.events)
	for _, p := range pages() {
		mux.HandleFunc(p.pattern, c.serve(p))
	}
	mux.HandleFunc("/", c.serve(page{pattern: "/", scope: access.Read, show: notFound}))
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.stranger(w, r, http.StatusForbidden, "This came from another site, and was not done.",
			"Open the console itself, and do it there. If this is the console, its address differs from console.url.")
	}))
	return guarded(c.sameHost(crossOrigin.Handler(mux)))
}

// cached lets browsers keep files for a while: they are small, and change with the program alone.
func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=300")
		next.ServeHTTP(w, r)
	})
}

// guarded adds what keeps browsers from doing what no page of ours asks for. Nothing is allowed from elsewhere, and no
// code or style within a page.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Request-Id", rand.Text())
		next.ServeHTTP(w, r)
	})
}
