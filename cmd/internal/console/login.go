package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/forwarded"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// A person signs in with an API key or with a one-time link, here; at an OpenID provider (oidc.go); or by the word of a
// trusted proxy (proxy.go). Each way makes a session by a method of Sessions.

// loginView is the page of signing in.
type loginView struct {
	// Refused says why the last try failed; empty for none.
	Refused string
	// Link is a one-time link that is to be used, and For is who signs in with it.
	Link, For string
	// Ended says that the browser was signed in, and is no more. Lost says that it sent a form, which was not read.
	Ended, Lost bool
	// Next is the page to go on to. As is who is signed in already, and may go on to it as before; empty for nobody.
	Next, As string
	// Provider is what the button of the OpenID provider calls it; empty for none.
	Provider string
	// Proxied is the person that a trusted proxy names; empty for none.
	Proxied string
}

// showLogin shows a link's name before it is used: programs that look at links in messages must not use it up.
func (c *Console) showLogin(w http.ResponseWriter, r *http.Request) {
	next := ownPath(r.URL.Query().Get("next"))
	old := c.cookies.get(r, sessionCookie)
	if old == "" && c.fromAnotherSite(w, r) {
		return
	}
	person, err := c.current(r)
	if err == nil && r.URL.Query().Get("link") == "" {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	view := loginView{Next: next, Lost: r.URL.Query().Has("lost"), Ended: old != "" && errors.Is(err, access.ErrUnknownSession)}
	if err == nil {
		view.As = person.Name
	}
	if link := r.URL.Query().Get("link"); link != "" {
		name, err := c.cfg.Sessions.LinkOf(r.Context(), link)
		if err != nil {
			c.refuseLogin(w, r, view, err)
			return
		}
		view.Link, view.For = link, name
	}
	c.showSignIn(w, r, http.StatusOK, view)
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
		c.showSignIn(w, r, http.StatusBadRequest, view)
		return
	}
	if err != nil {
		if person, unknown := c.current(r); unknown == nil {
			view.As = person.Name
		}
		c.refuseLogin(w, r, view, err)
		return
	}
	c.signedIn(w, r, token, view.Next)
}

// current is the session of the browser.
func (c *Console) current(r *http.Request) (access.Session, error) {
	n, err := c.cfg.Sessions.Session(r.Context(), c.cookies.get(r, sessionCookie), access.Reading)
	if err == nil && !c.stillNamed(r, n) {
		err = access.ErrUnknownSession
	}
	return n, err
}

// signedIn gives the browser its session, and the page to go on to.
func (c *Console) signedIn(w http.ResponseWriter, r *http.Request, token, next string) {
	c.replaceSession(w, r, token)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// replaceSession gives the browser its session. An earlier session of the browser ends: a new sign-in replaces it.
func (c *Console) replaceSession(w http.ResponseWriter, r *http.Request, token string) {
	if old, err := c.cfg.Sessions.Session(r.Context(), c.cookies.get(r, sessionCookie), access.Reading); err == nil {
		if err := c.cfg.Sessions.EndSession(access.WithActor(r.Context(), old.Actor()), old.ID); err != nil {
			c.log.Warn("a session was not ended", "session", old.ID, "err", err)
		}
		c.known.forget(c.cookies.get(r, sessionCookie))
	}
	c.cookies.set(w, r, sessionCookie, token, c.cfg.SessionAge)
}

// refuseLogin says why a sign-in failed. Tries that fail count against the address, together with the API's.
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
		view.Refused, status = "The database does not answer, so no sign-in is possible now. Try again.", http.StatusServiceUnavailable
	}
	c.refused(w, r, status, view)
}

// refused shows the page of signing in with the reason of the refusal. Tries that should not have been made count against
// their address.
func (c *Console) refused(w http.ResponseWriter, r *http.Request, status int, view loginView) {
	if status == http.StatusUnauthorized {
		c.log.Info("a sign-in was refused", "address", forwarded.Address(r), "request_id", w.Header().Get("X-Request-Id"), "why", view.Refused)
		if wait := c.cfg.Failures.Take(forwarded.Address(r), 1); wait > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int(wait.Seconds())+1))
			view.Refused, status = fmt.Sprintf("Too many tries from this address failed. Try again in %d seconds.", int(wait.Seconds())+1), http.StatusTooManyRequests
		}
	}
	c.showSignIn(w, r, status, view)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	n, err := c.cfg.Sessions.Session(r.Context(), c.cookies.get(r, sessionCookie), access.Changing)
	if err == nil {
		actor := n.Actor()
		actor.RequestID = w.Header().Get("X-Request-Id")
		err = c.cfg.Sessions.EndSession(access.WithActor(r.Context(), actor), n.ID)
	}
	if err != nil && !errors.Is(err, access.ErrUnknownSession) {
		c.log.Error("a session was not ended", "err", err)
		c.refusePage(w, r, http.StatusServiceUnavailable, "You are still signed in.", "The database does not answer, so the session could not be ended. Try again.")
		return
	}
	c.known.forget(c.cookies.get(r, sessionCookie))
	c.cookies.set(w, r, sessionCookie, "", 0)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// showSignIn shows the page of signing in.
func (c *Console) showSignIn(w http.ResponseWriter, r *http.Request, status int, view loginView) {
	view.Provider = c.cfg.ProviderLabel
	if who, is := c.proxied(r); is {
		view.Proxied = who.name
	}
	c.write(w, r, status, "login", &frame{Title: "Sign in", Name: c.cfg.Name, View: view})
}

// refusePage answers without a frame, as to a browser without a known session: title and text say what is refused, and why.
func (c *Console) refusePage(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	c.write(w, r, status, "stranger", &frame{Title: title, Name: c.cfg.Name, View: failure{Title: title, Text: text}})
}

// refuseForm is refusePage for what cannot be done now. If the request is a form, the page has what was typed into it.
func (c *Console) refuseForm(w http.ResponseWriter, r *http.Request, title, text string) {
	view := failure{Title: title, Text: text, Typed: typedIn(r)}
	c.write(w, r, http.StatusServiceUnavailable, "stranger", &frame{Title: title, Name: c.cfg.Name, View: view})
}

// sameHost refuses addresses that cookies are not sent to, before anything else is said.
func (c *Console) sameHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.cookies.trusted(r) || strings.HasPrefix(r.URL.Path, "/console/static/") {
			next.ServeHTTP(w, r)
			return
		}
		c.refusePage(w, r, http.StatusMisdirectedRequest, "This address is not the console's.",
			"Over plain http a key could be read on its way, so it works on the same machine only. Set console.url to the address that browsers use, better with https, and start postrider again.")
	})
}

// session returns who asks, or sends the browser to the door.
func (c *Console) session(w http.ResponseWriter, r *http.Request, ask func(token string) (access.Session, error)) (access.Session, bool) {
	n, err := ask(c.cookies.get(r, sessionCookie))
	if err == nil && !c.stillNamed(r, n) {
		err = access.ErrUnknownSession
	}
	switch {
	case err == nil:
		return n, true
	case !errors.Is(err, access.ErrUnknownSession):
		if r.Context().Err() != nil {
			break // the browser has left
		}
		c.log.Warn("a session could not be looked up", "err", err)
		if c.figures.database != nil && httpapi.Describe(err) == nil && errors.Is(err, context.DeadlineExceeded) { // and not silent
			c.refuseForm(w, r, "This server is busy.", "Nothing was changed: requests wait for the database, and this one waited too long. Try again in a moment.")
			break
		}
		c.away(w, r)
	case c.fromAnotherSite(w, r):
	case isFragment(r):
		http.Error(w, "signed out", http.StatusUnauthorized)
	default:
		to := "/login"
		switch {
		case r.Method == http.MethodPost:
			to += "?lost=true&next=" + url.QueryEscape(pageOfForm(r))
		case r.URL.Path != "/":
			to += "?next=" + url.QueryEscape(r.URL.RequestURI())
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
	return access.Session{}, false
}

// fromAnotherSite answers a link in a message: the browser keeps a SameSite=Strict cookie back, although a person may be signed in.
// The page loads itself once more, and that is from here.
func (c *Console) fromAnotherSite(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") != "cross-site" || r.Method != http.MethodGet {
		return false
	}
	c.write(w, r, http.StatusOK, "again", &frame{Title: "Postrider", Name: c.cfg.Name, View: r.URL.RequestURI()})
	return true
}

// pageOfForm is the page that a form is on, which the browser does not say. The form of a plan comes back with what was written.
func pageOfForm(r *http.Request) string {
	if readForm(r) != nil {
		return "/"
	}
	if back := ownPath(r.PostFormValue("back")); back != "/" {
		return back
	}
	parts := strings.Split(r.URL.EscapedPath(), "/") // the first is empty
	switch first := parts[1]; {
	case first == "plan":
		return planForm(r.PostForm)
	case first == "access":
		return "/access"
	case first == "detector":
		return "/tasks"
	case first == "archive":
		return "/tasks/archive"
	case len(parts) > 3 && slices.Contains([]string{"causes", "investigations", "operations", "outbox", "tasks"}, first):
		return ownPath("/" + first + "/" + parts[2])
	}
	return "/"
}

// ownPath is a page of ours to go on to; anything else is the first page.
func ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") || u.Path == "/login" || strings.HasPrefix(u.Path, "/login/") {
		return "/"
	}
	return next
}
