package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// behindProxy are the settings for people whom a proxy at the given address names.
func behindProxy(trusted string) map[string]string {
	return map[string]string{"http.trusted_proxies": trusted, "console.proxy_user_header": "X-Forwarded-User", "console.proxy_groups_header": "X-Forwarded-Groups",
		"console.group_scopes": "sre=read+resolve,readers=read,team%2C1=read"}
}

// as are the headers of a person whom the proxy names.
func as(name, groups string) []string {
	return []string{"X-Forwarded-User", name, "X-Forwarded-Groups", groups}
}

func (b *browser) signInBy(headers ...string) got {
	b.r.t.Helper()
	return b.do(http.MethodPost, "/login/proxy", map[string][]string{"next": {"/causes"}}, headers...)
}

// TestSigningInByAProxy: the word of a trusted proxy lets people in, and counts with every request.
func TestSigningInByAProxy(t *testing.T) {
	t.Parallel()
	r := newRig(t, behindProxy("127.0.0.1"))
	b := r.browser()
	ann := as("ann", "everybody, sre")
	b.get("/login", ann...).is(t, 200).has(t, "Sign in as ann")
	if to := b.signInBy(ann...).is(t, http.StatusSeeOther).header.Get("Location"); to != "/causes" {
		t.Errorf("it leads to %s", to)
	}
	b.get("/access", ann...).is(t, 200).has(t, "<strong><bdi>ann</bdi></strong>", "You signed in by the proxy before this console.", "console.group_scopes")
	if to := b.get("/login", ann...).is(t, http.StatusSeeOther).header.Get("Location"); to != "/" {
		t.Errorf("who is signed in is sent to %s", to)
	}
	if rows := pgtest.Column[string](t, r.pool, `select actor || ' ' || (details->>'by') || ' ' || (details->>'groups') from postrider.access_audit where action = 'session.begin'`); strings.Join(rows, ", ") != `ann proxy ["sre"]` {
		t.Errorf("the audit log has %q", rows)
	}
	// The proxy names another person, none, or other groups: the session ends.
	for name, headers := range map[string][]string{"another": as("bob", "sre"), "nobody": nil, "another group": as("ann", "readers"), "no group": as("ann", "")} {
		if to := b.get("/causes", headers...).is(t, http.StatusSeeOther).header.Get("Location"); to != "/login?next=%2Fcauses" {
			t.Errorf("%s: /causes leads to %s", name, to)
		}
		b.get("/login", headers...).is(t, 200)
		b.get("/console/events", headers...).is(t, http.StatusUnauthorized)
	}
	b.get("/causes", ann...).is(t, 200)
	// A key is a way in for everybody, whomever the proxy names.
	key := r.as("read")
	key.get("/causes", as("bob", "")...).is(t, 200).has(t, "key read")

	r.browser().signInBy(as("zoe", "sales,<i>x</i>")...).is(t, http.StatusForbidden).has(t, "zoe", "sales", "&lt;i&gt;x", "console.group_scopes")
	r.browser().signInBy(as("zoe", "")...).is(t, http.StatusForbidden).has(t, "none")
	r.browser().signInBy(as("cli:postgres", "sre")...).is(t, http.StatusForbidden).has(t, "cli:")
	r.browser().signInBy(as(strings.Repeat("x", 201), "sre")...).is(t, http.StatusForbidden).has(t, "1 to 200")
	r.browser().signInBy(as("", "sre")...).is(t, http.StatusUnauthorized)
	r.browser().signInBy(append(as("zoe", "sre"), "Sec-Fetch-Site", "cross-site")...).is(t, http.StatusForbidden).has(t, "another site")
	twice, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/login/proxy", nil)
	if err != nil {
		t.Fatal(err)
	}
	twice.Header["X-Forwarded-User"], twice.Header["X-Forwarded-Groups"] = []string{"zoe", "ann"}, []string{"sre"}
	resp, err := r.browser().Do(twice)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("two names: %d", resp.StatusCode)
	}
	if n := pgtest.Value[int](t, r.pool, `select count(*) from postrider.access_session where signed_in_by = 'proxy'`); n != 1 {
		t.Errorf("%d sessions were begun by the proxy", n)
	}
}

// TestHeadersOfStrangers: from an address that is not trusted no header says who asks, from where, or how.
func TestHeadersOfStrangers(t *testing.T) {
	t.Parallel()
	settings := behindProxy("10.0.0.0/8")
	settings["http.failed_logins_per_minute"] = "2"
	r := newRig(t, settings)
	b := r.browser()
	lies := append(as("ann", "sre"), "X-Forwarded-For", "10.0.0.1", "X-Forwarded-Proto", "https", "X-Real-Ip", "10.0.0.1", "Forwarded", "for=10.0.0.1;proto=https")
	if page := b.get("/login", lies...).is(t, 200); strings.Contains(page.text, "Sign in as") {
		t.Error("a stranger is taken for the proxy")
	}
	b.signInBy(lies...).is(t, http.StatusUnauthorized).has(t, "No trusted proxy names you")
	b.get("/login", append(lies, "Host", "postrider.example.com")...).is(t, http.StatusMisdirectedRequest)
	// Another address in the header does not make another client.
	b.do(http.MethodPost, "/login", map[string][]string{"key": {"pr_x"}}, "X-Forwarded-For", "192.0.2.1").is(t, http.StatusUnauthorized)
	b.do(http.MethodPost, "/login", map[string][]string{"key": {"pr_x"}}, "X-Forwarded-For", "192.0.2.2").is(t, http.StatusTooManyRequests)
	b.get("/v1/status", "X-API-Key", "pr_x", "X-Forwarded-For", "192.0.2.3").is(t, http.StatusTooManyRequests)
}

// TestBehindATrustedProxy: what it says of the client decides about cookies and about who has tried too often.
func TestBehindATrustedProxy(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"http.trusted_proxies": "127.0.0.0/8", "http.failed_logins_per_minute": "1"})
	form := map[string][]string{"key": {r.keys["read"]}}
	headers := []string{"Host", "postrider.example.com", "X-Forwarded-Proto", "https"}
	c := r.browser().do(http.MethodPost, "/login", form, headers...).is(t, http.StatusSeeOther).header.Get("Set-Cookie")
	if !strings.HasPrefix(c, "__Host-postrider_session=prs_") || !strings.Contains(c, "Secure") {
		t.Errorf("by https the cookie is %s", c)
	}
	r.browser().get("/login", "Host", "postrider.example.com", "X-Forwarded-Proto", "http").is(t, http.StatusMisdirectedRequest)
	wrong := map[string][]string{"key": {"pr_x"}}
	try := func(from string) int {
		return r.browser().do(http.MethodPost, "/login", wrong, "X-Forwarded-For", from).status
	}
	if first, again, spoofed, other := try("192.0.2.1"), try("192.0.2.1"), try("192.0.2.99, 192.0.2.1"), try("192.0.2.2"); first != 401 || again != 429 || spoofed != 429 || other != 401 {
		t.Errorf("wrong keys of one client, again, with another address before it, and of another client: %d %d %d %d", first, again, spoofed, other)
	}
	r.browser().get("/v1/status", "X-API-Key", "pr_x", "X-Forwarded-For", "192.0.2.1").is(t, http.StatusTooManyRequests)
	r.browser().get("/v1/status", "X-API-Key", "pr_x", "X-Forwarded-For", "192.0.2.3").is(t, http.StatusUnauthorized)
}
