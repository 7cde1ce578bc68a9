package console

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
)

// A person signs in with an API key or with a one-time link. The account of a company (OIDC) and the headers of a trusted
// proxy will be two more ways to a name and scopes: each makes a session by a method of Sessions, and ends in signedIn.

// loginView is the page of signing in.
type loginView struct {
	// Refused says why the last try failed; empty for none.
	Refused string
	// Link is a one-time link that is to be used, and For is who signs in with it.
	Link, For string
	// Next is the page to go on to.
	Next string
}

// showLogin shows a link's name before it is used: programs that look at links in messages must not use it up.
func (c *Console) showLogin(w http.ResponseWriter, r *http.Request) {
	next := ownPath(r.URL.Query().Get("next"))
	if _, err := c.cfg.Sessions.Session(r.Context(), c.cookies.get(r, sessionCookie)); err == nil && r.URL.Query().Get("link") == "" {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	view := loginView{Next: next}
	if link := r.URL.Query().Get("link"); link != "" {
		name, err := c.cfg.Sessions.LinkOf(r.Context(), link)
		if err != nil {
			c.refuseLogin(w, r, view, err)
			return
		}
		view.Link, view.For = link, name
	}
	c.showDoor(w, r, http.StatusOK, view)
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	view := loginView{Next: ownPath(r.PostFormValue("next"))}
	ctx := access.WithActor(r.Context(), access.Actor{RequestID: w.Header().Get("X-Request-Id")})
	var token string
	var err error
	switch link, key := r.PostFormValue("link"), strings.TrimSpace(r.PostFormValue("key")); {
	case link != "":
		_, token, err = c.cfg.Sessions.SessionByLink(ctx, link, c.cfg.SessionAge)
	case key != "":
		_, token, err = c.cfg.Sessions.SessionByKey(ctx, key, c.cfg.SessionAge)
	default:
		view.Refused = "Give an API key. It begins with pr_."
		c.showDoor(w, r, http.StatusBadRequest, view)
		return
	}
	if err != nil {
		c.refuseLogin(w, r, view, err)
		return
	}
	c.signedIn(w, r, token, view.Next)
}

// signedIn gives the browser its session. An earlier session of the browser ends: a new sign-in replaces it.
func (c *Console) signedIn(w http.ResponseWriter, r *http.Request, token, next string) {
	if old, err := c.cfg.Sessions.Session(r.Context(), c.cookies.get(r, sessionCookie)); err == nil {
		if err := c.cfg.Sessions.EndSession(access.WithActor(r.Context(), old.Actor()), old.ID); err != nil {
			c.log.Warn("a session was not ended", "session", old.ID, "err", err)
		}
		c.known.forget(c.cookies.get(r, sessionCookie))
	}
	c.cookies.set(w, r, sessionCookie, token, c.cfg.SessionAge)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// refuseLogin says why nobody is signed in. Tries that fail count against the address, together with the API's.
func (c *Console) refuseLogin(w http.ResponseWriter, r *http.Request, view loginView, err error) {
	status := http.StatusUnauthorized
	switch {
	case errors.Is(err, access.ErrLinkUsed):
		view.Refused = "This one-time link has been used. Ask for a new one, or sign in with a key. If it was not you, tell the person who made it: the audit log says who signed in with it."
	case errors.Is(err, access.ErrUnknownLink):
		view.Refused = "This one-time link is not known or has expired. Ask for a new one: postrider console link makes it."
	case errors.Is(err, access.ErrUnknownKey):
		view.Refused = "This key is not known, was revoked or has expired. postrider apikey list shows which keys work."
	default:
		c.log.Error("signing in failed", "err", err)
		view.Refused, status = "The database does not answer, so nobody can be signed in now. Try again.", http.StatusServiceUnavailable
	}
	if status == http.StatusUnauthorized {
		if wait := c.cfg.Failures.Take(address(r), 1); wait > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int(wait.Seconds())+1))
			view.Refused, status = fmt.Sprintf("Too many tries from this address failed. Try again in %d seconds.", int(wait.Seconds())+1), http.StatusTooManyRequests
		}
	}
	c.showDoor(w, r, status, view)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	n, err := c.cfg.Sessions.SessionNow(r.Context(), c.cookies.get(r, sessionCookie))
	if err == nil {
		actor := n.Actor()
		actor.RequestID = w.Header().Get("X-Request-Id")
		err = c.cfg.Sessions.EndSession(access.WithActor(r.Context(), actor), n.ID)
	}
	if err != nil && !errors.Is(err, access.ErrUnknownSession) {
		c.log.Error("a session was not ended", "err", err)
		c.stranger(w, r, http.StatusServiceUnavailable, "You are still signed in.", "The database does not answer, so the session could not be ended. Try again.")
		return
	}
	c.known.forget(c.cookies.get(r, sessionCookie))
	c.cookies.set(w, r, sessionCookie, "", 0)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// showDoor shows the page of signing in.
func (c *Console) showDoor(w http.ResponseWriter, r *http.Request, status int, view loginView) {
	c.write(w, r, status, "login", &frame{Title: "Sign in", Name: c.cfg.Name, View: view})
}

// stranger answers a browser without a known session.
func (c *Console) stranger(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	c.write(w, r, status, "stranger", &frame{Title: title, Name: c.cfg.Name, View: failure{Title: title, Text: text}})
}

// sameHost refuses addresses that cookies are not sent to, before anything else is said.
func (c *Console) sameHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.cookies.trusted(r) || strings.HasPrefix(r.URL.Path, "/console/static/") {
			next.ServeHTTP(w, r)
			return
		}
		c.stranger(w, r, http.StatusMisdirectedRequest, "This address is not the console's.",
			"Over plain http a key could be read on its way, so it works on the same machine only. Set console.url to the address that browsers use, better with https, and start postrider again.")
	})
}

// session returns who asks, or sends the browser to the door.
func (c *Console) session(w http.ResponseWriter, r *http.Request, ask func(token string) (access.Session, error)) (access.Session, bool) {
	n, err := ask(c.cookies.get(r, sessionCookie))
	switch {
	case err == nil:
		return n, true
	case !errors.Is(err, access.ErrUnknownSession):
		c.log.Warn("a session could not be looked up", "err", err)
		c.away(w, r)
	case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Method == http.MethodGet:
		// A link in a message: the browser keeps a SameSite=Strict cookie back, although a person may be signed in. The page
		// loads itself once more, and that is from here.
		c.write(w, r, http.StatusOK, "again", &frame{Title: "Postrider", Name: c.cfg.Name, View: r.URL.RequestURI()})
	case r.Header.Get("X-Fragment") != "":
		http.Error(w, "signed out", http.StatusUnauthorized)
	default:
		to := "/login"
		if r.Method == http.MethodGet && r.URL.Path != "/" {
			to += "?next=" + url.QueryEscape(r.URL.RequestURI())
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
	return access.Session{}, false
}

// ownPath is a page of ours to go on to; anything else is the first page.
func ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") || u.Path == "/login" {
		return "/"
	}
	return next
}

func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// sessionCheck is how often a stream of events looks whether its session still works.
const sessionCheck = 2 * time.Second
