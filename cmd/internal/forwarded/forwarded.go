// Package forwarded reads what a trusted proxy says of a request: from which address it came, and whether by https.
// The headers of other addresses say nothing.
package forwarded

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// said is what the trusted proxy that a request came through says of it.
type said struct {
	client netip.Addr
	https  bool
}

type saidKey struct{}

// Handler notes for next what the trusted proxies say.
func Handler(trusted []netip.Prefix, next http.Handler) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer, is := addressOf(r.RemoteAddr); is && within(trusted, peer) {
			s := said{client: client(trusted, peer, r.Header.Values("X-Forwarded-For")), https: https(r.Header.Values("X-Forwarded-Proto"))}
			r = r.WithContext(context.WithValue(r.Context(), saidKey{}, s))
		}
		next.ServeHTTP(w, r)
	})
}

// Trusted reports whether the request came through a trusted proxy, so that its other headers may be believed.
func Trusted(r *http.Request) bool {
	_, is := r.Context().Value(saidKey{}).(said)
	return is
}

// HTTPS reports whether a trusted proxy says that the browser came by https.
func HTTPS(r *http.Request) bool {
	s, _ := r.Context().Value(saidKey{}).(said)
	return s.https
}

// Address is the IP address that the request came from: of the client where a trusted proxy names it, or else of the
// other end of the connection.
func Address(r *http.Request) string {
	if s, is := r.Context().Value(saidKey{}).(said); is {
		return s.client.String()
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// client is the last address that no trusted proxy has. Each proxy adds at the end whom it heard from, so all before that
// address was written by the client itself, and could be anything.
func client(trusted []netip.Prefix, peer netip.Addr, headers []string) netip.Addr {
	hops := strings.Split(strings.Join(headers, ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, is := addressOf(strings.TrimSpace(hops[i]))
		if !is {
			return peer // who came to this proxy is unknown
		}
		if peer = hop; !within(trusted, hop) {
			return hop
		}
	}
	return peer
}

// https is what the nearest proxy says, which is the last word.
func https(headers []string) bool {
	words := strings.Split(strings.Join(headers, ","), ",")
	return strings.EqualFold(strings.TrimSpace(words[len(words)-1]), "https")
}

// addressOf reads an address with or without a port. IPv4 in IPv6 is IPv4.
func addressOf(text string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone(""), true
	}
	at, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return at.Unmap().WithZone(""), err == nil
}

func within(trusted []netip.Prefix, at netip.Addr) bool {
	for _, p := range trusted {
		if p.Contains(at) {
			return true
		}
	}
	return false
}
