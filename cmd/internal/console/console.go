package console

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/oidclogin"
	"github.com/postrider/postrider/internal/dlq"
)

// API runs operations of the HTTP API in the process; *httpapi.API is one.
type API interface {
	Call(ctx context.Context, method, path string, query url.Values, body any) (any, error)
}

// inPages asks an API for no larger pages than it gives.
type inPages struct {
	API
	most int
}

func (p inPages) Call(ctx context.Context, method, path string, query url.Values, body any) (any, error) {
	if n, err := strconv.Atoi(query.Get("page_size")); err == nil && n > p.most {
		query = maps.Clone(query)
		query.Set("page_size", strconv.Itoa(p.most))
	}
	return p.API.Call(ctx, method, path, query, body)
}

// Sessions know who is signed in; access.Recently is one.
type Sessions interface {
	Session(ctx context.Context, token string, use access.Use) (access.Session, error)
	SessionByKey(ctx context.Context, key string, age time.Duration) (access.Session, string, error)
	SessionByLink(ctx context.Context, link string, age time.Duration) (access.Session, string, error)
	SessionByPerson(ctx context.Context, p access.Person, age time.Duration) (access.Session, string, error)
	LinkOf(ctx context.Context, link string) (name string, err error)
	EndSession(ctx context.Context, id string) error
	// OtherSessionsOf are the newest of the other sessions of a person, and how many there are; EndSessionsOf ends some of
	// them, and EndOtherSessionsOf all others. Both return the ids of the ended sessions.
	OtherSessionsOf(ctx context.Context, of access.Session) (newest []access.OwnSession, all int, err error)
	EndSessionsOf(ctx context.Context, of access.Session, ids ...string) ([]string, error)
	EndOtherSessionsOf(ctx context.Context, of access.Session) ([]string, error)
}

// Outbox has what the API does not: latencies, and headers of many events for comparing; *postgres.Store of internal/relay is one.
type Outbox interface {
	Latency(ctx context.Context) (half, most time.Duration, known bool, err error)
	EventHeaders(ctx context.Context, ids []int64) (map[int64][]byte, error)
}

// Investigations have figures of causes, messages and keys for lists, and parts of what the API reads as a whole;
// *postgres.Investigations of internal/dlq is one.
type Investigations interface {
	Groups(ctx context.Context, ids []uuid.UUID) ([]dlq.Group, error)
	GroupStates(ctx context.Context) (groups map[dlq.GroupState]int64, pending int64, err error)
	GroupHours(ctx context.Context, groups []uuid.UUID) (map[uuid.UUID][]dlq.HourCount, error)
	Messages(ctx context.Context, entries []uuid.UUID) (map[uuid.UUID]string, error)
	Keys(ctx context.Context, entries []uuid.UUID) (map[uuid.UUID]string, error)
	Closings(ctx context.Context, group uuid.UUID) ([]dlq.Closing, error)
	AllClosed(ctx context.Context, entries []uuid.UUID) (bool, error)
	PendingOf(ctx context.Context, t dlq.SubjectType) (int64, error)
}

// Pinger asks the database for nothing. It does not wait for the connections that pages use: a full pool is no silence.
type Pinger interface {
	Ping(ctx context.Context) error
	Close(ctx context.Context) error
}

// Config is what a Console is made of. API, Sessions, Outbox and Investigations are required.
type Config struct {
	// API does everything that a page asks for. Required.
	API API
	// Sessions know who is signed in. Required.
	Sessions Sessions
	// Outbox and Investigations have the figures that the API does not have. Required.
	Outbox         Outbox
	Investigations Investigations
	// Failures limits how often an address may present a key or a link that does not work; it is the API's limiter.
	// Defaults to no limit.
	Failures *access.Limiter
	// PageSizeMax is how many items the API lists at once; it is dlq.page_size_max. Defaults to 100.
	PageSizeMax int
	// URL is where browsers reach the console; with https, cookies are for https alone. Defaults to "", this machine.
	URL string
	// Name says which installation it is. Defaults to "".
	Name string
	// Sources says that the settings may name other databases than that of database.url; the menu has their page then.
	// Defaults to false.
	Sources bool
	// SessionAge is how long a session lasts at most. Defaults to 12h.
	SessionAge time.Duration
	// Groups say what people may do who are named by the provider or the proxy. Defaults to nothing.
	Groups access.GroupScopes
	// Provider is the OpenID provider at which people sign in. Defaults to none.
	Provider *oidclogin.Provider
	// ProviderLabel is what the button calls it. Defaults to the host of its issuer.
	ProviderLabel string
	// UserHeader and GroupsHeader are the headers in which a trusted proxy (package forwarded) names the person and the
	// person's groups. Default to "": no header does.
	UserHeader, GroupsHeader string
	// Every is how often figures are read while a page asks for them. Defaults to 2s.
	Every time.Duration
	// Database is the database that all of them use, on a connection of its own. Run closes it. Defaults to none: a database
	// that is silent, instead of away, is noticed when a read has taken as long as it may.
	Database Pinger
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Console serves the pages.
type Console struct {
	cfg     Config
	log     *slog.Logger
	figures *sampler
	table   []page // all pages
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
	if cfg.PageSizeMax == 0 {
		cfg.PageSizeMax = 100
	}
	cfg.API = inPages{cfg.API, cfg.PageSizeMax}
	if cfg.Every == 0 {
		cfg.Every = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	renderer, err := newRenderer()
	if err != nil {
		return nil, err
	}
	own, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Provider != nil && cfg.ProviderLabel == "" {
		if at, err := url.Parse(cfg.Provider.Issuer()); err == nil {
			cfg.ProviderLabel = at.Host
		}
	}
	c := &Console{cfg: cfg, log: cfg.Logger.With("component", "console"), table: pages(), pages: renderer, cookies: cookies{own: own}, ended: make(chan struct{})}
	c.figures = &sampler{api: cfg.API, outbox: cfg.Outbox, investigations: cfg.Investigations, every: cfg.Every, sources: cfg.Sources, log: c.log, database: cfg.Database, silent: make(chan struct{}), changed: make(chan struct{}), wake: make(chan struct{}, 1)}
	c.cfg.Sessions = promptly{cfg.Sessions, c.figures}
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
	mux.HandleFunc("POST /login/proxy", c.loginByProxy)
	if c.cfg.Provider != nil {
		mux.HandleFunc("GET /login/oidc", c.beginOIDC)
		mux.HandleFunc("GET "+oidcBack, c.finishOIDC)
	}
	mux.HandleFunc("POST /logout", c.logout)
	mux.HandleFunc("GET /console/events", c.events)
	for _, p := range c.table {
		mux.HandleFunc(p.pattern, c.serve(p))
	}
	mux.HandleFunc(anyPath, c.serve(page{pattern: anyPath, scope: access.Read, show: notFound}))
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.refusePage(w, r, http.StatusForbidden, "This came from another site, and was not done.",
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
