package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
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

// list is get for a list whose filter is in the address. A filter that the API refuses leaves the list empty: the page has its
// form, and says what is wrong at it.
func list[T any](v *visit, path string, query url.Values) (found T, err error) {
	if v.frame.Wrong != "" {
		return found, nil
	}
	found, err = get[T](v, path, query)
	if err != nil && told(err).Code == httpapi.Validation {
		v.frame.Wrong, err = refusal(err), nil
	}
	return found, err
}

// refuseUnknown says which parameter of the address the page does not take: a misspelt filter must not show everything.
func (v *visit) refuseUnknown(p page) {
	if p.pattern == anyPath {
		return // there is no such page
	}
	for _, name := range slices.Sorted(maps.Keys(v.URL.Query())) {
		if !slices.Contains(p.takes, name) {
			takes := "no parameter"
			if len(p.takes) > 0 {
				takes = strings.Join(p.takes, ", ")
			}
			v.frame.Wrong = fmt.Sprintf("Parameter %q is not known here. This page takes %s.", oneLine(name, 60), takes)
			return
		}
	}
}

// pageTime is how long a page may take besides its slowest operation.
const pageTime = 30 * time.Second

// mayTake lengthens the time until the page must be written, for an operation with a limit of its own. Called in this process
// the operation has no connection whose deadline it could move.
func (v *visit) mayTake(limit time.Duration) {
	_ = http.NewResponseController(v.writer).SetWriteDeadline(time.Now().Add(limit + pageTime)) // a recorder in memory has none
}

// seesOwn reports whether the person sees what is in the desk's own database.
func (v *visit) seesOwn() bool { return v.person.Sources.Has(dlq.MainSource) }

// id is a part of the path that names something, escaped for a path of the API.
func (v *visit) id() string { return url.PathEscape(v.PathValue("id")) }

// param returns a parameter of the address.
func (v *visit) param(name string) string { return v.URL.Query().Get(name) }

// howLong is for how long a form wants something; 0 is without end.
func (v *visit) howLong() (time.Duration, error) {
	text := strings.TrimSpace(v.FormValue("for"))
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, &httpapi.Error{Code: httpapi.Validation, Message: "For how long is " + quoted(text) + "; it must be a time such as 1h."}
	}
	return d, nil
}

// say tells the person something on the next page: that something was done, or why not.
func (v *visit) say(format string, args ...any) {
	v.console.cookies.notice(v.writer, v.Request, "fine", fmt.Sprintf(format, args...))
}

// serve answers for a page of the table.
func (c *Console) serve(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		use := access.Reading
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			use = access.Changing
		case isFragment(r):
			use = access.Watching
		}
		person, ok := c.session(w, r, func(token string) (access.Session, error) {
			n, err := c.cfg.Sessions.Session(r.Context(), token, use)
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

// isFragment reports whether an open page asks for itself, to show what is new: its person has done nothing.
func isFragment(r *http.Request) bool { return r.Header.Get("X-Fragment") != "" }

// visit makes a page, or does what a form asks for, for a person.
func (c *Console) visit(w http.ResponseWriter, r *http.Request, p page, person access.Session) {
	actor := person.Actor()
	actor.RequestID = w.Header().Get("X-Request-Id")
	v := &visit{Request: r, console: c, writer: w, ctx: access.Limited(r.Context(), actor), person: person}
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
	if err := p.reach().RefuseSources(person.Sources, person.Name); err != nil {
		c.fail(v, err)
		return
	}
	if p.do != nil {
		if err := readForm(r); err != nil {
			c.fail(v, err)
			return
		}
		to, err := p.do(v)
		if v.wrote {
			return
		}
		if err != nil {
			c.log.Log(r.Context(), slog.LevelDebug, "a form was refused", "path", r.URL.Path, "err", err)
			c.cookies.notice(w, r, "waiting", refusal(err))
		}
		http.Redirect(w, r, ownPath(to), http.StatusSeeOther)
		return
	}
	reading, done := c.figures.whileItAnswers(v.ctx)
	defer done()
	v.ctx = reading
	v.refuseUnknown(p)
	if v.frame.Wrong != "" && p.template == "" { // a file, or the way to another page
		c.fail(v, &httpapi.Error{Code: httpapi.Validation, Message: v.frame.Wrong})
		return
	}
	err := ifSilent(reading, p.show(v))
	if v.wrote {
		return // an export, or the way to another page: it shows no notice
	}
	if !isFragment(r) { // an open page shows what its person has not read yet
		v.frame.NoticeKind, v.frame.Notice = c.cookies.takeNotice(w, r)
	}
	if err != nil {
		c.fail(v, err)
		return
	}
	status := http.StatusOK
	if v.frame.Wrong != "" {
		status = http.StatusBadRequest
	}
	c.write(w, r, status, p.template, v.frame)
}

// readForm reads a form, and gives its texts the line ends that they were shown with: browsers send CR LF.
func readForm(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		if large, is := errors.AsType[*http.MaxBytesError](err); is {
			return &httpapi.Error{Code: httpapi.TooLarge, Message: fmt.Sprintf("The form has more than %s (http.max_body_bytes), and was not read: nothing was changed. Go back, and send less: a shorter text, or fewer investigations", bytesText(large.Limit))}
		}
		return &httpapi.Error{Code: httpapi.Validation, Message: "The form could not be read, and nothing was changed: " + err.Error()}
	}
	for _, form := range []url.Values{r.Form, r.PostForm} {
		for _, values := range form {
			for i := range values {
				values[i] = strings.ReplaceAll(values[i], "\r\n", "\n")
			}
		}
	}
	return nil
}

// failure is an error page.
type failure struct {
	// Title and Text say what is wrong, and what to do.
	Title, Text string
	// Quote is what the log has the failure under; empty where the request was wrong.
	Quote string
	// Again says that the page asks again by itself.
	Again bool
	// Typed are the texts of a form that was refused.
	Typed []pair
}

// told is what a person may be told of an error. Figures that the API does not have are read beside it, and their errors are
// told as the API tells its own.
func told(err error) *httpapi.Error {
	if e, is := errors.AsType[*httpapi.Error](err); is {
		return e
	}
	if e := httpapi.Describe(err); e != nil && e.Code == httpapi.Unavailable {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &httpapi.Error{Code: httpapi.Unavailable, Message: "This took longer than it may. Ask for less, or try again."}
	}
	return &httpapi.Error{Code: httpapi.Internal, Message: "Something failed that is not your fault."}
}

// fail shows an error page in the frame.
func (c *Console) fail(v *visit, err error) {
	e := told(err)
	status := e.Status()
	f := failure{Title: "This cannot be shown.", Text: refusal(e), Typed: typedIn(v.Request)}
	if v.Method == http.MethodPost {
		f.Title = "This was not done."
	}
	switch e.Code {
	case httpapi.NotFound:
		f.Title = "There is nothing here."
	case httpapi.Forbidden:
		f.Title = "You may not see this."
	case httpapi.Unavailable:
		f.Title, f.Again = "This is not possible now.", v.Method == http.MethodGet
		if e.Database {
			f.Title, v.frame.Old = "The database does not answer.", true
		}
	case httpapi.TooLarge:
		f.Title = "This is too large."
	case httpapi.RateLimited:
		f.Title = "You ask too often."
	case httpapi.Internal:
		f.Title, f.Quote = "This page could not be made. It is our mistake.", v.writer.Header().Get("X-Request-Id")
		if !errors.As(err, new(*httpapi.Error)) && v.Context().Err() == nil { // or the browser has left
			c.log.Error("a page failed", "path", v.URL.Path, "request_id", f.Quote, "err", err)
		}
	}
	if f.Again {
		v.writer.Header().Set("Refresh", "5")
	}
	v.frame.Title, v.frame.View, v.frame.Crumbs = f.Title, f, nil
	c.write(v.writer, v.Request, status, "failure", v.frame)
}

// away answers while the database is away, and no session can be looked up. A person whom this process knew a moment ago sees
// the last figures. Nothing else is shown, and nothing can be changed.
func (c *Console) away(w http.ResponseWriter, r *http.Request) {
	select {
	case <-c.ended:
		c.refusePage(w, r, http.StatusServiceUnavailable, "This server is stopping.", "Load this page again: another server answers, or this one when it has started.")
		return
	default:
	}
	person, is := c.known.find(c.cookies.get(r, sessionCookie))
	if r.Method != http.MethodGet {
		c.refuseForm(w, r, "The database does not answer.",
			"Nothing was changed. Events are safe: they stay in the table until it is back. Try again when it answers.")
		return
	}
	w.Header().Set("Refresh", "5")
	if !is || !c.stillNamed(r, person) || !person.Actor().May(access.Read) {
		c.refusePage(w, r, http.StatusServiceUnavailable, "The database does not answer.",
			"Events are safe: they stay in the table until it is back. This page asks again every 5 seconds.")
		return
	}
	v := &visit{Request: r, console: c, writer: w, ctx: r.Context(), person: person}
	v.frame = c.newFrame(v, page{pattern: "GET /{$}"})
	v.frame.Old = true
	if f, _, _ := c.figures.of(r.Context(), person.Sources); f != nil && r.URL.Path == "/" {
		v.showNow(f)
		c.write(w, r, http.StatusOK, "now", v.frame)
		return
	}
	c.fail(v, errSilent)
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

// forgetSessions is for sessions that were ended from another one.
func (k *lastKnown) forgetSessions(ids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.persons, func(_ [sha256.Size]byte, n knownPerson) bool { return slices.Contains(ids, n.ID) })
}
