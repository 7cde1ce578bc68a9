package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// visit is one request of a person who is signed in.
type visit struct {
	*http.Request
	console *Console
	writer  http.ResponseWriter
	ctx     context.Context
	// person is who asks.
	person access.Session
	// frame is the page that is being made.
	frame *frame
	// wrote says that the answer was written already.
	wrote bool
}

// call runs an operation of the API, whose handler returns a T.
func call[T any](ctx context.Context, a API, method, path string, query url.Values, body any) (T, error) {
	var none T
	data, err := a.Call(ctx, method, path, query, body)
	if err != nil {
		return none, err
	}
	got, is := data.(T)
	if !is {
		return none, fmt.Errorf("%s %s returns a %T, not a %T", method, path, data, none)
	}
	return got, nil
}

// ask is call in the name of the person.
func ask[T any](v *visit, method, path string, query url.Values, body any) (T, error) {
	return call[T](v.ctx, v.console.cfg.API, method, path, query, body)
}

// get is ask for what changes nothing.
func get[T any](v *visit, path string, query url.Values) (T, error) {
	return ask[T](v, http.MethodGet, path, query, nil)
}

// id is a part of the path that names something, escaped for a path of the API.
func (v *visit) id() string { return url.PathEscape(v.PathValue("id")) }

// param returns a parameter of the address.
func (v *visit) param(name string) string { return v.URL.Query().Get(name) }

// say tells the person something on the next page: that something was done, or why not.
func (v *visit) say(format string, args ...any) {
	v.console.cookies.notice(v.writer, v.Request, "fine", fmt.Sprintf(format, args...))
}

// serve answers for a page of the table.
func (c *Console) serve(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		look := c.cfg.Sessions.Session
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			look = c.cfg.Sessions.SessionNow
		}
		person, ok := c.session(w, r, func(token string) (access.Session, error) {
			n, err := look(r.Context(), token)
			if err == nil {
				c.known.keep(token, n)
			} else if errors.Is(err, access.ErrUnknownSession) {
				c.known.forget(token)
			}
			return n, err
		})
		if !ok {
			return
		}
		c.visit(w, r, p, person)
	}
}

// visit makes a page, or does what a form asks for, for a person.
func (c *Console) visit(w http.ResponseWriter, r *http.Request, p page, person access.Session) {
	actor := person.Actor()
	actor.RequestID = w.Header().Get("X-Request-Id")
	v := &visit{Request: r, console: c, writer: w, ctx: access.WithActor(r.Context(), actor), person: person}
	v.frame = c.newFrame(v, p)
	defer func() {
		if failed := recover(); failed != nil {
			if failed == http.ErrAbortHandler {
				panic(failed) // an answer that is not whole must not end as a whole one
			}
			c.log.Error("a page panicked", "path", r.URL.Path, "request_id", actor.RequestID, "panic", failed, "stack", string(debug.Stack()))
			c.fail(v, &httpapi.Error{Code: httpapi.Internal, Message: "This page could not be made."})
		}
	}()
	if !actor.May(p.scope) {
		c.fail(v, &httpapi.Error{Code: httpapi.Forbidden, Message: fmt.Sprintf("This page needs the scope %s, which %q does not have.", p.scope, person.Name)})
		return
	}
	if p.do != nil {
		plainLines(r)
		to, err := p.do(v)
		if v.wrote {
			return
		}
		if err != nil {
			c.log.Log(r.Context(), slog.LevelDebug, "a form was refused", "path", r.URL.Path, "err", err)
			c.cookies.notice(w, r, "waiting", sentence(told(err).Message))
		}
		http.Redirect(w, r, ownPath(to), http.StatusSeeOther)
		return
	}
	v.frame.NoticeKind, v.frame.Notice = c.cookies.takeNotice(w, r)
	if err := p.show(v); err != nil {
		c.fail(v, err)
		return
	}
	if !v.wrote {
		c.write(w, r, http.StatusOK, p.template, v.frame)
	}
}

// plainLines gives the texts of a form the line ends that they were shown with: browsers send CR LF.
func plainLines(r *http.Request) {
	if r.ParseForm() != nil {
		return // the page says so
	}
	for _, form := range []url.Values{r.Form, r.PostForm} {
		for _, values := range form {
			for i := range values {
				values[i] = strings.ReplaceAll(values[i], "\r\n", "\n")
			}
		}
	}
}

// failure is an error page.
type failure struct {
	// Title and Text say what is wrong, and what to do.
	Title, Text string
	// Quote is what the log has the failure under; empty where the request was wrong.
	Quote string
	// Again says that the page asks again by itself.
	Again bool
}

// told is what a person may be told of an error.
func told(err error) *httpapi.Error {
	if e, is := errors.AsType[*httpapi.Error](err); is {
		return e
	}
	return &httpapi.Error{Code: httpapi.Internal, Message: "Something failed that is not your fault."}
}

// fail shows an error page in the frame.
func (c *Console) fail(v *visit, err error) {
	e := told(err)
	status := e.Status()
	f := failure{Title: "This cannot be shown.", Text: sentence(e.Message)}
	switch e.Code {
	case httpapi.NotFound:
		f.Title = "There is nothing here."
	case httpapi.Forbidden:
		f.Title = "You may not see this."
	case httpapi.Unavailable:
		f.Title, f.Again = "The database does not answer.", v.Method == http.MethodGet
		v.frame.Old = true
	case httpapi.RateLimited:
		f.Title = "You ask too often."
	case httpapi.Internal:
		f.Title, f.Quote = "This page could not be made. It is our mistake.", v.writer.Header().Get("X-Request-Id")
		if !errors.As(err, new(*httpapi.Error)) {
			c.log.Error("a page failed", "path", v.URL.Path, "request_id", f.Quote, "err", err)
		}
	}
	if f.Again {
		v.writer.Header().Set("Refresh", "5")
	}
	v.frame.Title, v.frame.View, v.frame.Crumbs = f.Title, f, nil
	c.write(v.writer, v.Request, status, "failure", v.frame)
}

// away answers while the database is away, so nobody can be looked up: a person whom this process knew a moment ago sees
// the last figures. Nothing else is shown, and nothing can be changed.
func (c *Console) away(w http.ResponseWriter, r *http.Request) {
	person, is := c.known.find(c.cookies.get(r, sessionCookie))
	if r.Method != http.MethodGet {
		c.stranger(w, r, http.StatusServiceUnavailable, "The database does not answer.",
			"Nothing was changed. Events are safe: they stay in the table until it is back. Go back, and try again.")
		return
	}
	w.Header().Set("Refresh", "5")
	if !is || !person.Actor().May(access.Read) {
		c.stranger(w, r, http.StatusServiceUnavailable, "The database does not answer.",
			"Events are safe: they stay in the table until it is back. This page asks again every 5 seconds.")
		return
	}
	v := &visit{Request: r, console: c, writer: w, ctx: r.Context(), person: person}
	v.frame = c.newFrame(v, page{pattern: "GET /{$}"})
	v.frame.Old = true
	if f, _, _ := c.figures.latest(); f != nil && r.URL.Path == "/" {
		v.showNow(f)
		c.write(w, r, http.StatusOK, "now", v.frame)
		return
	}
	c.fail(v, &httpapi.Error{Code: httpapi.Unavailable, Message: "Events are safe: they stay in the table until it is back. This page asks again every 5 seconds."})
}

// lastKnown are the persons whom this process has looked up, for the time when the database is away. Its zero value is
// empty.
type lastKnown struct {
	mu      sync.Mutex
	persons map[[sha256.Size]byte]knownPerson
}

type knownPerson struct {
	access.Session
	until time.Time
}

const (
	// knownFor is how long after the last look-up a person still sees figures while the database is away.
	knownFor = 10 * time.Minute
	maxKnown = 10_000
)

func (k *lastKnown) keep(token string, n access.Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.persons == nil || len(k.persons) >= maxKnown {
		k.persons = map[[sha256.Size]byte]knownPerson{}
	}
	until := time.Now().Add(knownFor)
	if n.ExpiresAt.Before(until) {
		until = n.ExpiresAt
	}
	k.persons[sha256.Sum256([]byte(token))] = knownPerson{n, until}
}

func (k *lastKnown) find(token string) (access.Session, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, is := k.persons[sha256.Sum256([]byte(token))]
	return n.Session, is && time.Now().Before(n.until)
}

// forget is for a person who signs out.
func (k *lastKnown) forget(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.persons, sha256.Sum256([]byte(token)))
}
