package console

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// cookies writes and reads what browsers keep.
//
// With TLS a cookie has the prefix __Host- and is Secure: no other host, path or plain connection can set or see it. On
// plain http browsers refuse both, so a machine that is reached at a loopback address has a cookie without them. Elsewhere
// plain http is refused, unless console.url says that it is meant.
type cookies struct {
	own *url.URL // console.url; empty for this machine
}

const (
	sessionCookie = "postrider_session"
	noticeCookie  = "postrider_notice"
)

// secure reports whether the browser came by https: to us, or to the proxy that console.url names.
func (c cookies) secure(r *http.Request) bool {
	return r.TLS != nil || c.own.Scheme == "https" && strings.EqualFold(r.Host, c.own.Host)
}

// trusted reports whether the address that the browser asked for is one that cookies may be sent to.
func (c cookies) trusted(r *http.Request) bool {
	if r.TLS != nil || c.own.Host != "" && strings.EqualFold(r.Host, c.own.Host) {
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
	maxAge := int(age.Seconds())
	if value == "" {
		maxAge = -1
	}
	http.SetCookie(w, &http.Cookie{Name: c.name(r, name), Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: c.secure(r), SameSite: http.SameSiteStrictMode})
}

func (c cookies) get(r *http.Request, name string) string {
	found, err := r.Cookie(c.name(r, name))
	if err != nil {
		return ""
	}
	return found.Value
}

// notice keeps a sentence for the next page of the browser. Text beyond what a cookie holds is cut.
func (c cookies) notice(w http.ResponseWriter, r *http.Request, kind, text string) {
	c.set(w, r, noticeCookie, base64.RawURLEncoding.EncodeToString([]byte(kind+"\x00"+clip(text, 600))), time.Minute)
}

// takeNotice returns that sentence, once.
func (c cookies) takeNotice(w http.ResponseWriter, r *http.Request) (kind, text string) {
	raw, err := base64.RawURLEncoding.DecodeString(c.get(r, noticeCookie))
	if err != nil || len(raw) == 0 {
		return "", ""
	}
	c.set(w, r, noticeCookie, "", 0)
	kind, text, _ = strings.Cut(string(raw), "\x00")
	if kind != "fine" {
		kind = "waiting"
	}
	return kind, text
}
