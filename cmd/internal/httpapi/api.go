package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/forwarded"
)

// Keys tells who a token belongs to, and keeps answers for repeated requests.
type Keys interface {
	Authenticate(ctx context.Context, token string, use access.Use) (access.Key, error)
	Begin(ctx context.Context, key string, request []byte) (access.Claim, *access.Answer, error)
	End(ctx context.Context, c access.Claim, a access.Answer) error
	Forget(ctx context.Context, c access.Claim) error
}

// APIConfig is what an API is made of.
type APIConfig struct {
	// Routes are its operations. Required.
	Routes []Route
	// Keys know who asks. Required.
	Keys Keys
	// MaxBody is the largest body, in bytes. Defaults to 1 MiB.
	MaxBody int64
	// Timeout bounds each operation whose route has no longer limit. Defaults to 25s.
	Timeout time.Duration
	// Requests limits how often each key may ask. Defaults to no limit.
	Requests *access.Limiter
	// Failures limits how often an address may present a key that does not work; keys that work are answered whatever
	// came from their address before. Defaults to no limit.
	Failures *access.Limiter
	// Describe maps errors of services to what clients are told; nil where it does not know one. Defaults to none.
	Describe func(error) *Error
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// API serves operations to holders of keys.
type API struct {
	cfg APIConfig
	mux *http.ServeMux
	log *slog.Logger
}

// answerTime is how long an answer may take to be read, where the operation's limit is longer than usual.
const answerTime = 20 * time.Second

// prefixes are the path styles; both serve the same.
var prefixes = []string{"/v1", "/api/v1"}

// allMethods are the methods that a client may ask with; GET stands for HEAD, too.
var allMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace}

// NewAPI checks the configuration.
func NewAPI(cfg APIConfig) (*API, error) {
	if cfg.Keys == nil || len(cfg.Routes) == 0 {
		return nil, errors.New("httpapi: Routes and Keys are required")
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 1 << 20
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 25 * time.Second
	}
	if cfg.Requests == nil {
		cfg.Requests = access.NewLimiter(0, 0)
	}
	if cfg.Failures == nil {
		cfg.Failures = access.NewLimiter(0, 0)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &API{cfg: cfg, mux: http.NewServeMux(), log: cfg.Logger.With("component", "api")}
	paths := map[string][]string{}
	for _, r := range cfg.Routes {
		if r.Scope == "" || r.Handle == nil {
			return nil, errors.New("httpapi: route " + r.Method + " " + r.Path + " has no scope or does nothing")
		}
		for _, prefix := range prefixes {
			a.mux.Handle(r.Method+" "+prefix+r.Path, a.operation(r, prefix))
		}
		paths[r.Path] = append(paths[r.Path], r.Method)
	}
	for path, methods := range paths { // a known path with a wrong method is not unknown
		for _, method := range allMethods { // a pattern without a method would be at odds with GET /dlq/{id}
			for _, prefix := range prefixes {
				if !slices.Contains(methods, method) {
					a.mux.Handle(method+" "+prefix+path, a.wrongMethod(methods))
				}
			}
		}
	}
	a.mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.write(w, r, nil, refuse(NotFound, "there is nothing at %s", shown(r.URL.Path)), time.Now())
	}))
	return a, nil
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Request-Id", requestID(r))
	a.mux.ServeHTTP(w, r)
}

func (a *API) wrongMethod(methods []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		a.write(w, r, nil, refuse(NotAllowed, "%s takes %s", shown(r.URL.Path), strings.Join(methods, ", ")), time.Now())
	})
}

// requestID is the client's, if it is a plain word, otherwise a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
	}
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(c rune) bool { return !plain(c) }) {
		return rand.Text()
	}
	return id
}

// operation serves a route.
func (a *API) operation(route Route, prefix string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		limit := max(a.cfg.Timeout, route.Limit)
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		actor, err := a.authenticate(ctx, w, r)
		if err == nil {
			actor.RequestID = w.Header().Get("X-Request-Id")
			err = a.admit(w, actor, route)
		}
		if err != nil {
			a.write(w, r, nil, err, began)
			return
		}
		ctx = access.Limited(ctx, actor)
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.cfg.MaxBody))
		if err != nil {
			a.write(w, r, nil, badBody(err), began)
			return
		}
		if route.changes() {
			// A change that was begun is carried out and its answer kept, also when the client goes away meanwhile. If it were
			// cut off in the middle, the client could not know what became of it.
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), limit)
			defer cancel()
		}
		if limit > a.cfg.Timeout { // the server's own limits are made for the others
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit + answerTime)) // in memory there is none
		}
		req := &Request{Request: r.WithContext(ctx), Actor: actor, Prefix: prefix, Body: body}
		key := r.Header.Get("Idempotency-Key")
		if key == "" || !route.changes() {
			data, err := a.run(ctx, route, req)
			a.write(w, r, data, err, began)
			return
		}
		a.once(ctx, w, req, route, key, began)
	})
}

func badBody(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return refuse(TooLarge, "the body has more than %d bytes", large.Limit)
	}
	return refuse(Validation, "the body could not be read to its end")
}

// authenticate tells who asks, by X-API-Key or by Authorization: Bearer.
func (a *API) authenticate(ctx context.Context, w http.ResponseWriter, r *http.Request) (access.Actor, error) {
	if actor, is := known(ctx); is {
		return actor, nil
	}
	token := r.Header.Get("X-API-Key")
	// The scheme's name is written in any case (RFC 9110, 11.1).
	if scheme, bearer, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && token == "" && strings.EqualFold(scheme, "Bearer") {
		token = strings.TrimLeft(bearer, " ")
	}
	if token == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="postrider"`)
		return access.Actor{}, refuse(Unauthenticated, "an API key is needed, as X-API-Key or as Authorization: Bearer; postrider apikey create makes one")
	}
	use := access.Changing
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		use = access.Reading
	}
	k, err := a.cfg.Keys.Authenticate(ctx, token, use)
	if errors.Is(err, access.ErrUnknownKey) {
		// Counted behind the look and not before it: many share an address, and a holder of a key that works must not be
		// kept out by others' mistakes.
		if wait := a.cfg.Failures.Take(forwarded.Address(r), 1); wait > 0 {
			return access.Actor{}, limited(w, wait, "this key does not work, and too many such came from this address")
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="postrider", error="invalid_token"`)
		return access.Actor{}, refuse(Unauthenticated, "%s", access.ErrUnknownKey)
	}
	if err != nil {
		return access.Actor{}, err
	}
	return access.Actor{Name: k.Name, KeyID: k.ID, Scopes: k.Scopes, Sources: k.Sources}, nil
}

// admit checks the actor's scope, its sources and how often it asks.
func (a *API) admit(w http.ResponseWriter, actor access.Actor, route Route) error {
	if wait := a.cfg.Requests.Take(actor.KeyID, max(route.Cost, 1)); wait > 0 {
		return limited(w, wait, "this key asks too often")
	}
	if !actor.May(route.Scope) {
		return refuse(Forbidden, "this needs the scope %s, which the key %q does not have", route.Scope, actor.Name)
	}
	return route.Reach.RefuseSources(actor.Sources, actor.Name)
}

func limited(w http.ResponseWriter, wait time.Duration, why string) error {
	seconds := int(math.Ceil(wait.Seconds()))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	return refuse(RateLimited, "%s; try again in %d s", why, seconds)
}

// run calls the operation. A panic of it is an error of the server's.
func (a *API) run(ctx context.Context, route Route, req *Request) (data any, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("an operation panicked", "method", req.Method, "route", route.Path, "request_id", req.Actor.RequestID,
				"panic", p, "stack", string(debug.Stack()))
			data, err = nil, refuse(Internal, "something failed that is not the request's fault; the log has it under request id %s", req.Actor.RequestID)
		}
	}()
	return route.Handle(ctx, req)
}

// keepLimit bounds the time to keep an answer when its request has ended.
const keepLimit = 10 * time.Second

// once runs an operation once per Idempotency-Key. Only what was done is kept. After a refusal or an error the key may be
// used again, unless something was committed under it: that is noted in the transaction of the change itself
// (access.Store.Audit), so it holds whatever became of the answer, the connections and this process. (Stripe keeps no
// refusals of parameters, keys and rates either. It does keep the refusals by an operation, and sends them again when they
// are long untrue.)
func (a *API) once(ctx context.Context, w http.ResponseWriter, req *Request, route Route, key string, began time.Time) {
	if len(key) > 255 || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		a.write(w, req.Request, nil, refuse(Validation, "the Idempotency-Key must be 1 to 255 printable ASCII characters"), began)
		return
	}
	claim, known, err := a.cfg.Keys.Begin(ctx, key, bytes.Join([][]byte{[]byte(req.Method), []byte(req.URL.Path), []byte(req.URL.RawQuery), req.Body}, []byte{0}))
	lost, isLost := errors.AsType[*access.LostError](err)
	switch {
	case isLost && route.Recall != nil:
		claim, err = lost.Claim, nil
		route.Handle = func(ctx context.Context, r *Request) (any, error) { return route.Recall(ctx, r, lost) }
	case isLost, errors.Is(err, access.ErrInWork):
		err = refuse(Conflict, "%s", err)
	case errors.Is(err, access.ErrOtherRequest):
		err = refuse(IdempotencyMismatch, "%s", err)
	case err == nil && known != nil:
		w.Header().Set("Idempotency-Replayed", "true")
		a.send(w, req.Request, known.Status, known.Body, began)
		return
	}
	if err != nil {
		a.write(w, req.Request, nil, err, began)
		return
	}
	data, err := a.run(access.WithClaim(ctx, claim), route, req)
	status, body := a.answer(w, req.Request, data, err)
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	defer cancel()
	if status >= http.StatusBadRequest {
		err = a.cfg.Keys.Forget(keep, claim)
	} else {
		err = a.cfg.Keys.End(keep, claim, access.Answer{Status: status, Body: body})
	}
	if err != nil {
		a.log.Warn("the answer to a request with an Idempotency-Key was not kept", "request_id", req.Actor.RequestID, "err", err)
	}
	a.send(w, req.Request, status, body, began)
}

// write sends what an operation returned.
func (a *API) write(w http.ResponseWriter, r *http.Request, data any, err error, began time.Time) {
	if got, is := r.Context().Value(calledKey{}).(*called); is {
		got.answered = true
		if got.data = data; err != nil {
			got.err = toldError(a.tell(r, err, w.Header().Get("X-Request-Id")), w.Header().Get("X-Request-Id"))
		}
		return
	}
	status, body := a.answer(w, r, data, err)
	a.send(w, r, status, body, began)
}

// answer makes the status and body of an answer.
func (a *API) answer(w http.ResponseWriter, r *http.Request, data any, err error) (int, []byte) {
	id := w.Header().Get("X-Request-Id")
	status := http.StatusOK
	switch d := data.(type) {
	case Moved:
		prefix := prefixes[0]
		if strings.HasPrefix(r.URL.Path, prefixes[1]) {
			prefix = prefixes[1]
		}
		to := (&url.URL{Path: prefix + d.To, RawQuery: r.URL.RawQuery}).String()
		w.Header().Set("Location", to)
		status, data = http.StatusMovedPermanently, map[string]string{"location": to}
	case Created:
		status, data = http.StatusCreated, d.Data
	}
	if err == nil {
		var body []byte
		if body, err = encode(envelope{OK: true, Data: data}); err == nil {
			return status, body
		}
	}
	return answerError(a.tell(r, err, id), id)
}

// tell turns an error into the text for the client, and logs the rest.
func (a *API) tell(r *http.Request, err error, id string) error {
	var told *Error
	if errors.As(err, &told) {
		return told
	}
	if a.cfg.Describe != nil {
		if told := a.cfg.Describe(err); told != nil {
			return told
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		told = refuse(Unavailable, "this took longer than it may; ask for less, or try again")
	}
	if !errors.Is(err, context.Canceled) { // the client went away
		a.log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "request_id", id, "err", err)
	}
	if told != nil {
		return told
	}
	return err
}

func (a *API) send(w http.ResponseWriter, r *http.Request, status int, body []byte, began time.Time) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
	a.log.Debug("request", "method", r.Method, "path", r.URL.Path, "status", status, "duration_ms", milliseconds(time.Since(began)),
		"request_id", w.Header().Get("X-Request-Id"))
}

// parseQuery reads a query strictly: a parameter that cannot be read must not be taken for absent.
func parseQuery(raw string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, refuse(Validation, "the query string cannot be read: %s", shown(err.Error()))
	}
	return values, nil
}
