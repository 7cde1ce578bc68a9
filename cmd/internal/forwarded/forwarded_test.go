package forwarded

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// TestWhoAsks: the headers count from trusted addresses alone, and what a client wrote into them itself counts never.
func TestWhoAsks(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("127.0.0.1/32")}
	for name, c := range map[string]struct {
		peer     string
		from     []string // X-Forwarded-For
		proto    []string // X-Forwarded-Proto
		address  string
		believed bool
		https    bool
	}{
		"no proxy":                     {peer: "192.0.2.1:1", address: "192.0.2.1"},
		"a stranger who lies":          {peer: "192.0.2.1:1", from: []string{"10.0.0.1"}, proto: []string{"https"}, address: "192.0.2.1"},
		"a stranger who plays a proxy": {peer: "192.0.2.1:1", from: []string{"198.51.100.7, 10.0.0.1"}, proto: []string{"https"}, address: "192.0.2.1"},
		"a proxy":                      {peer: "10.1.2.3:1", from: []string{"198.51.100.7"}, proto: []string{"https"}, address: "198.51.100.7", believed: true, https: true},
		"a proxy by plain http":        {peer: "10.1.2.3:1", from: []string{"198.51.100.7"}, proto: []string{"http"}, address: "198.51.100.7", believed: true},
		"the client wrote one, too":    {peer: "10.1.2.3:1", from: []string{"127.0.0.1, 198.51.100.7"}, proto: []string{"https, http"}, address: "198.51.100.7", believed: true},
		"in two lines":                 {peer: "10.1.2.3:1", from: []string{"127.0.0.1", "198.51.100.7"}, proto: []string{"https", "http"}, address: "198.51.100.7", believed: true},
		"two proxies":                  {peer: "10.1.2.3:1", from: []string{"1.1.1.1, 198.51.100.7, 10.9.9.9"}, address: "198.51.100.7", believed: true},
		"a proxy that says nothing":    {peer: "10.1.2.3:1", address: "10.1.2.3", believed: true},
		"a word":                       {peer: "10.1.2.3:1", from: []string{"198.51.100.7, unknown"}, address: "10.1.2.3", believed: true},
		"a word behind another proxy":  {peer: "10.1.2.3:1", from: []string{"<script>, 10.9.9.9"}, address: "10.9.9.9", believed: true},
		"proxies alone":                {peer: "10.1.2.3:1", from: []string{"10.4.4.4, 10.9.9.9"}, address: "10.4.4.4", believed: true},
		"with a port":                  {peer: "10.1.2.3:1", from: []string{"198.51.100.7:4711"}, address: "198.51.100.7", believed: true},
		"IPv6":                         {peer: "[fd00::1]:1", from: []string{"2001:db8::7"}, address: "2001:db8::7", believed: true},
		"IPv6 with a port":             {peer: "[fd00::1]:1", from: []string{"[2001:db8::7]:4711"}, address: "2001:db8::7", believed: true},
		"IPv4 in IPv6":                 {peer: "[::ffff:10.1.2.3]:1", from: []string{"::ffff:198.51.100.7"}, address: "198.51.100.7", believed: true},
		"no address at all":            {peer: "@", from: []string{"10.0.0.1"}, address: "@"},
	} {
		var address string
		var believed, https bool
		h := Handler(trusted, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			address, believed, https = Address(r), Trusted(r), HTTPS(r)
		}))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"] = c.from, c.proto
		h.ServeHTTP(httptest.NewRecorder(), r)
		if address != c.address || believed != c.believed || https != c.https {
			t.Errorf("%s: from %s, believed %v, https %v", name, address, believed, https)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.1.2.3:1"
	r.Header.Set("X-Forwarded-For", "198.51.100.7")
	Handler(nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if Trusted(r) || Address(r) != "10.1.2.3" {
			t.Errorf("no proxy is trusted, and %s counts", Address(r))
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
}

func FuzzAddress(f *testing.F) {
	f.Add("198.51.100.7, 10.0.0.1")
	f.Add("[::1]:x,,%")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.1.2.3:1"
		r.Header["X-Forwarded-For"] = []string{header}
		Handler(trusted, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if _, err := netip.ParseAddr(Address(r)); err != nil || strings.ContainsAny(Address(r), "<% ") {
				t.Errorf("%q is from %q", header, Address(r))
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	})
}
