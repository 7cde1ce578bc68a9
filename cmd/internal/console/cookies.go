package console

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/forwarded"
)

// cookies writes and reads what browsers keep.
//
// With https a cookie has the prefix __Host- and is Secure: no other host, path or plain connection can set or see it. On
// plain http browsers refuse both, so a machine that is reached at a loopback address has a cookie without them. Elsewhere
// plain http is refused, unless console.url says that it is meant.
type cookies struct {
	own *url.URL // console.url; empty for this machine
}

const (
	sessionCookie = "postrider_session"
	tryCookie     = "postrider_signin" // a sign-in at the OpenID provider that was begun
	noticeCookie  = "postrider_notice"
	lookCookie    = "postrider_look" // a look at a message that was asked for
)

// secure reports whether the browser came by https: to the proxy that console.url names, or to a trusted proxy that says so.
func (c cookies) secure(r *http.Request) bool {
	return forwarded.HTTPS(r) || c.own.Scheme == "https" && strings.EqualFold(r.Host, c.own.Host)
}

// trusted reports whether the address that the browser asked for is one that cookies may be sent to.
func (c cookies) trusted(r *http.Request) bool {
	if forwarded.HTTPS(r) || c.own.Host != "" && strings.EqualFold(r.Host, c.own.Host) {
		return true
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (c cookies) name(r *http.Request, name string) string {
	if c.secure(r) {
		return "__Host-" + name
	}
	return name
}

func (c cookies) set(w http.ResponseWriter, r *http.Request, name, value string, age time.Duration) {
	c.setFor(w, r, name, value, age, http.SameSiteStrictMode)
}

func (c cookies) setFor(w http.ResponseWriter, r *http.Request, name, value string, age time.Duration, sites http.SameSite) {
	maxAge := int(age.Seconds())
	if value == "" {
		maxAge = -1
	}
	http.SetCookie(w, &http.Cookie{Name: c.name(r, name), Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: c.secure(r), SameSite: sites})
}

func (c cookies) get(r *http.Request, name string) string {
	found, err := r.Cookie(c.name(r, name))
	if err != nil {
		return ""
	}
	return found.Value
}

// base is the address that the browser uses: the one of the settings, or the one that it asked for, which is trusted.
func (c cookies) base(r *http.Request) string {
	if c.own.Host != "" && strings.EqualFold(r.Host, c.own.Host) {
		return c.own.String()
	}
	if c.secure(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// keep leaves a text with the browser for a minute, for one of its next requests.
func (c cookies) keep(w http.ResponseWriter, r *http.Request, name, text string) {
	c.set(w, r, name, base64.RawURLEncoding.EncodeToString([]byte(text)), time.Minute)
}

// take returns such a text, once; empty where there is none.
func (c cookies) take(w http.ResponseWriter, r *http.Request, name string) string {
	raw, err := base64.RawURLEncoding.DecodeString(c.get(r, name))
	if err != nil || len(raw) == 0 {
		return ""
	}
	c.set(w, r, name, "", 0)
	return string(raw)
}

// notice keeps a sentence for the next page of the browser. Text beyond what a cookie holds is cut.
func (c cookies) notice(w http.ResponseWriter, r *http.Request, kind, text string) {
	c.keep(w, r, noticeCookie, kind+"\x00"+clip(text, 600))
}

// takeNotice returns that sentence, once.
func (c cookies) takeNotice(w http.ResponseWriter, r *http.Request) (kind, text string) {
	kept := c.take(w, r, noticeCookie)
	if kept == "" {
		return "", ""
	}
	kind, text, _ = strings.Cut(kept, "\x00")
	if kind != "fine" {
		kind = "waiting"
	}
	return kind, text
}
