package console

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/oidclogin"
)

const (
	// oidcBack is the path that the provider sends browsers back to.
	oidcBack = "/login/oidc/back"
	// namedGroups is how many groups a page names.
	namedGroups = 50
	// tryAge is how long a person has to sign in at the provider.
	tryAge = 10 * time.Minute
	// maxNext keeps the cookie of a try within what browsers take, in bytes.
	maxNext = 1500
)

// try is a sign-in at the provider that was begun, as the browser keeps it.
type try struct {
	oidclogin.Try
	// Next is the page to go on to.
	Next string `json:"p"`
}

// beginOIDC sends the browser to the provider.
func (c *Console) beginOIDC(w http.ResponseWriter, r *http.Request) {
	next := ownPath(r.URL.Query().Get("next"))
	if len(next) > maxNext {
		next = "/"
	}
	view := loginView{Next: next}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		c.showSignIn(w, r, http.StatusOK, view) // no other page begins a sign-in
		return
	}
	if _, err := c.current(r); err == nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	to, begun, err := c.cfg.Provider.Begin(c.cookies.base(r) + oidcBack)
	if err != nil {
		c.refuseOIDC(w, r, view, err)
		return
	}
	kept, err := json.Marshal(try{begun, next})
	if err != nil {
		c.refuseOIDC(w, r, view, err)
		return
	}
	// The browser comes back from another site, where SameSite=Strict would keep the cookie back.
	c.cookies.setFor(w, r, tryCookie, base64.RawURLEncoding.EncodeToString(kept), tryAge, http.SameSiteLaxMode)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// finishOIDC lets in who comes back from the provider. The try is taken from the browser, whatever becomes of it.
func (c *Console) finishOIDC(w http.ResponseWriter, r *http.Request) {
	var begun try
	if kept, err := base64.RawURLEncoding.DecodeString(c.cookies.get(r, tryCookie)); err != nil || json.Unmarshal(kept, &begun) != nil {
		begun = try{}
	}
	c.cookies.setFor(w, r, tryCookie, "", 0, http.SameSiteLaxMode)
	view := loginView{Next: ownPath(begun.Next)}
	who, err := c.cfg.Provider.Finish(r.Context(), begun.Try, c.cookies.base(r)+oidcBack, r.URL.Query())
	if err != nil {
		c.refuseOIDC(w, r, view, err)
		return
	}
	groups := c.cfg.ProviderLabel + " gave no claim with groups."
	if who.HasGroups {
		groups = fmt.Sprintf("The groups that %s gave: %s.", c.cfg.ProviderLabel, nameList(who.Groups, namedGroups))
	}
	token, ok := c.letIn(w, r, view, named{name: who.Name, groups: who.Groups, by: access.ByOIDC, subject: c.cfg.Provider.Issuer() + " " + who.Subject,
		details: map[string]any{"issuer": c.cfg.Provider.Issuer(), "subject": who.Subject},
		source:  groups + " console.oidc_groups_claim and console.oidc_scopes say where groups come from, and console.oidc_name_claim names the person."})
	if !ok {
		return
	}
	c.replaceSession(w, r, token)
	// A redirect would still come from the provider's site, and SameSite=Strict would keep the new cookie back.
	c.write(w, r, http.StatusOK, "again", &frame{Title: "Postrider", Name: c.cfg.Name, View: view.Next})
}

// refuseOIDC says why the sign-in at the provider failed.
func (c *Console) refuseOIDC(w http.ResponseWriter, r *http.Request, view loginView, err error) {
	id := w.Header().Get("X-Request-Id")
	switch {
	case errors.Is(err, oidclogin.ErrRefused):
		view.Refused = sentence(err.Error())
		c.refused(w, r, http.StatusUnauthorized, view)
	case errors.Is(err, oidclogin.ErrAway):
		c.log.Error("signing in failed", "request_id", id, "err", err)
		view.Refused = sentence(err.Error()) + " Try again, or sign in with a key."
		c.refused(w, r, http.StatusServiceUnavailable, view)
	default:
		c.log.Error("signing in failed", "request_id", id, "err", err)
		view.Refused = "Signing in failed for a reason that the log has under " + id + ". Sign in with a key meanwhile."
		c.refused(w, r, http.StatusInternalServerError, view)
	}
}

// named is a person whom the provider or a trusted proxy names.
type named struct {
	name    string
	groups  []string
	by      access.SignIn
	subject string         // tells people of one name apart; empty where no two have one name
	details map[string]any // for the audit log
	source  string         // where name and groups come from, for a person who is not let in
}

// letIn opens a session for a person, or says why they may do nothing here. A person without a known group is refused.
func (c *Console) letIn(w http.ResponseWriter, r *http.Request, view loginView, who named) (token string, ok bool) {
	grant := c.cfg.Groups.Of(who.groups)
	if len(grant.Scopes) == 0 {
		c.log.Info("a person without a known group was not let in", "name", who.name, "by", who.by, "details", who.details, "groups", who.groups)
		c.refusePage(w, r, http.StatusForbidden, "You may not use this console.",
			fmt.Sprintf("You are %s, and none of your groups may do anything here. %s Ask the people who run Postrider to name one of your groups in console.group_scopes.", oneLine(who.name, 200), who.source))
		return "", false
	}
	details := map[string]any{"groups": c.cfg.Groups.Known(who.groups)}
	maps.Copy(details, who.details)
	ctx := access.WithActor(r.Context(), access.Actor{RequestID: w.Header().Get("X-Request-Id")})
	_, token, err := c.cfg.Sessions.SessionByPerson(ctx, access.Person{By: who.by, Name: who.name, Subject: who.subject, Scopes: grant.Scopes, Sources: grant.Sources, Details: details}, c.cfg.SessionAge)
	switch {
	case errors.Is(err, access.ErrName):
		c.log.Info("a person with an odd name was not let in", "name", who.name, "by", who.by, "details", who.details, "err", err)
		c.refusePage(w, r, http.StatusForbidden, "You may not use this console.", fmt.Sprintf("You are %s. %s %s", oneLine(who.name, 200), sentence(err.Error()), who.source))
		return "", false
	case err != nil:
		c.refuseLogin(w, r, view, err)
		return "", false
	}
	return token, true
}
