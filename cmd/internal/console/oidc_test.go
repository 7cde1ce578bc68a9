package console_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/npmtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

const clientSecret = "the-clients-secret"

// openIDProvider runs a provider that is not ours (oidc-provider of npm) on a port. At an address of this machine it sends
// browsers back to any port.
func openIDProvider(t *testing.T, port int, inToken bool) (stop func()) {
	t.Helper()
	folder := npmtest.Install(t, filepath.Join("testdata", "provider"), "openid-provider")
	cmd := exec.CommandContext(t.Context(), "node", "provider.mjs")
	cmd.Dir = folder
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = in.Close()
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
		}
	}
	t.Cleanup(stop)
	asked := map[string]any{
		"port": port, "inToken": inToken,
		"clients": []any{map[string]any{"client_id": "postrider", "client_secret": clientSecret, "application_type": "native", "redirect_uris": []string{"http://127.0.0.1/login/oidc/back"}, "scope": "openid email groups"}},
		"accounts": map[string]any{
			"ann":     map[string]any{"email": "ann@example.com", "email_verified": true, "groups": []string{"everybody", "sre"}},
			"bob":     map[string]any{"email": "bob@example.com", "email_verified": true, "groups": []string{"sales", "<b>hostile</b>"}},
			"nobody":  map[string]any{"email": "nobody@example.com", "email_verified": true},
			"mallory": map[string]any{"email": "ann@example.com", "email_verified": false, "groups": []string{"sre"}},
			"cli":     map[string]any{"email": "cli:postgres", "email_verified": true, "groups": []string{"sre"}},
		},
	}
	if err := json.NewEncoder(in).Encode(asked); err != nil {
		t.Fatal(err)
	}
	if issuer, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(issuer) != issuerAt(port) {
		t.Fatalf("the provider is at %q: %v", issuer, err)
	}
	return stop
}

func issuerAt(port int) string { return fmt.Sprintf("http://localhost:%d", port) }

// freePort is a port that nothing listens on now.
func freePort(t *testing.T) int {
	t.Helper()
	port, err := kafkajars.FreePort() // no outgoing connection takes it meanwhile
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// withProvider are the settings for signing in at the provider of a port.
func withProvider(port int) map[string]string {
	return map[string]string{"console.oidc_issuer": issuerAt(port), "console.oidc_client_id": "postrider", "console.oidc_client_secret": clientSecret, "console.oidc_label": "Example",
		"console.oidc_scopes": "openid,email,groups", "console.group_scopes": "sre=read+resolve,admins=admin"}
}

var formAction = regexp.MustCompile(`<form [^>]*action="([^"]+)"`)

// signInAt begins a sign-in and goes through the pages of the provider as a person does. It returns the address to come back
// to, which was not opened.
func (b *browser) signInAt(login, next string) (back string) {
	b.r.t.Helper()
	at := b.get("/login/oidc?next="+url.QueryEscape(next)).is(b.r.t, http.StatusSeeOther).header.Get("Location")
	for range 10 {
		if strings.HasPrefix(at, b.r.URL) {
			return strings.TrimPrefix(at, b.r.URL)
		}
		page, to := b.ask(http.MethodGet, at, nil)
		if form := formAction.FindStringSubmatch(page); to == "" && form != nil {
			values := url.Values{"prompt": {"consent"}}
			if strings.Contains(page, `name="password"`) {
				values = url.Values{"prompt": {"login"}, "login": {login}, "password": {"x"}}
			}
			page, to = b.ask(http.MethodPost, form[1], values)
		}
		if to == "" {
			b.r.t.Fatalf("the provider leads nowhere from %s:\n%s", at, page)
		}
		base, err := url.Parse(at)
		if err != nil {
			b.r.t.Fatal(err)
		}
		on, err := base.Parse(to)
		if err != nil {
			b.r.t.Fatal(err)
		}
		at = on.String()
	}
	b.r.t.Fatalf("the provider leads round in circles: %s", at)
	return ""
}

func (b *browser) ask(method, address string, form url.Values) (page, to string) {
	b.r.t.Helper()
	req, err := http.NewRequestWithContext(b.r.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.r.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.Do(req)
	if err != nil {
		b.r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.r.t.Fatal(err)
	}
	return string(text), resp.Header.Get("Location")
}

// cookie is what the browser keeps under a name for the console.
func (b *browser) cookie(name string) string {
	b.r.t.Helper()
	at, err := url.Parse(b.r.URL)
	if err != nil {
		b.r.t.Fatal(err)
	}
	for _, c := range b.Jar.Cookies(at) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

func (b *browser) keep(name, value string) {
	b.r.t.Helper()
	at, err := url.Parse(b.r.URL)
	if err != nil {
		b.r.t.Fatal(err)
	}
	b.Jar.SetCookies(at, []*http.Cookie{{Name: name, Value: value, Path: "/"}})
}

// TestSigningInAtAProvider: who is in a known group is let in, under their name and with the scopes of their groups.
func TestSigningInAtAProvider(t *testing.T) {
	t.Parallel()
	for _, inToken := range []bool{true, false} {
		port := freePort(t)
		openIDProvider(t, port, inToken)
		settings := withProvider(port)
		settings["console.session_hours"] = "3"
		r := newRig(t, settings)
		b := r.browser()
		b.get("/login").is(t, 200).has(t, "Sign in with Example", "API key")
		back := b.signInAt("ann", "/causes?state=new")
		if strings.Contains(back, clientSecret) {
			t.Errorf("the address tells the secret: %s", back)
		}
		// SameSite=Strict keeps the session back in a redirect from the provider's site: the page goes on by itself.
		got := b.get(back, "Sec-Fetch-Site", "cross-site").is(t, 200).has(t, `content="0; url=/causes?state=new"`)
		for _, c := range got.header.Values("Set-Cookie") {
			if strings.HasPrefix(c, "postrider_session=") && !strings.Contains(c, "SameSite=Strict") || !strings.Contains(c, "HttpOnly") {
				t.Errorf("a cookie is %s", c)
			}
		}
		b.until("/", "<strong><bdi>ann@example.com</bdi></strong>")
		b.get("/access").is(t, 200).has(t, "ann@example.com", "You signed in with Example.", "console.group_scopes")
		b.get("/audit").is(t, http.StatusForbidden)
		entry := r.die(1, nil)
		b.post("/investigations/"+entry+"/change", "what", "resolve", "notes", "mended").is(t, http.StatusSeeOther)
		rows := pgtest.Column[string](t, r.pool, `select actor || ' ' || action || ' ' || coalesce(details->>'by', '') || ' ' || coalesce(details->>'subject', '') || ' ' || coalesce(details->>'groups', '')
			from postrider.access_audit where actor like 'ann%' order by access_audit_id`)
		if len(rows) != 2 || rows[0] != `ann@example.com session.begin oidc ann ["sre"]` || !strings.HasPrefix(rows[1], "ann@example.com dlq.") {
			t.Errorf("the audit log has %q", rows)
		}
		if hours := pgtest.Value[float64](t, r.pool, `select extract(epoch from expires_at - created_at)::float8 / 3600 from postrider.access_session where signed_in_by = 'oidc'`); hours != 3 {
			t.Errorf("the session lasts %v hours", hours)
		}
		b.post("/logout").is(t, http.StatusSeeOther)
		b.get("/").is(t, http.StatusSeeOther)
	}
}

// TestWhoIsNotLetIn: people without a known group, with a name that is not theirs, and with the name of a command.
func TestWhoIsNotLetIn(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	openIDProvider(t, port, true)
	r := newRig(t, withProvider(port))
	for login, want := range map[string]struct {
		status int
		says   []string
	}{
		"bob":     {http.StatusForbidden, []string{"bob@example.com", "sales", "&lt;b&gt;hostile", "console.group_scopes"}},
		"nobody":  {http.StatusForbidden, []string{"no claim with groups", "console.oidc_groups_claim"}},
		"mallory": {http.StatusUnauthorized, []string{"has not verified"}},
		"cli":     {http.StatusForbidden, []string{"cli:postgres", "console.oidc_name_claim"}},
	} {
		b := r.browser()
		b.get(b.signInAt(login, "/")).is(t, want.status).has(t, want.says...)
		if b.cookie("postrider_session") != "" {
			t.Errorf("%s has a session", login)
		}
	}
	if n := pgtest.Value[int](t, r.pool, `select count(*) from postrider.access_session`); n != 0 {
		t.Errorf("%d sessions were begun", n)
	}
}

// TestSignInsThatAreForged: a sign-in works in the browser where it began, once, and leads to a page of ours.
func TestSignInsThatAreForged(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	openIDProvider(t, port, true)
	r := newRig(t, withProvider(port))

	mira, thief := r.browser(), r.browser()
	back := mira.signInAt("ann", "//evil.example/x")
	tried := mira.cookie("postrider_signin")
	// The thief saw the address, and has a try of his own.
	thief.get(back).is(t, http.StatusUnauthorized).has(t, "not begun in this browser")
	thief.signInAt("bob", "/")
	thief.get(back).is(t, http.StatusUnauthorized).has(t, "not begun in this browser")
	// Session fixation: a session that an attacker put into the person's browser is not the one that is signed in.
	planted := r.as("read").cookie("postrider_session")
	mira.keep("postrider_session", planted)
	mira.get(back).is(t, 200).has(t, `content="0; url=/"`) // and not to evil.example
	if own := mira.cookie("postrider_session"); own == planted || own == "" {
		t.Errorf("the session is %q, which was %q before the sign-in", own, planted)
	}
	thief.keep("postrider_session", planted)
	thief.get("/").is(t, http.StatusSeeOther) // it has ended

	mira.get(back).is(t, http.StatusUnauthorized).has(t, "has been used")
	// Even with the try of the person the code works once: the provider does not take it again.
	thief.keep("postrider_signin", tried)
	thief.get(back).is(t, http.StatusUnauthorized).has(t, "did not take the code", "invalid_grant")
	if thief.cookie("postrider_session") != planted {
		t.Error("the thief has a session")
	}

	b := r.browser()
	state := b.signInAt("ann", "/")
	b.get("/login/oidc/back?error=access_denied&error_description=%3Cscript%3E&"+state[strings.Index(state, "state="):]).is(t, http.StatusUnauthorized).has(t, "access_denied", "&lt;script&gt;")
	for _, kept := range []string{"", "x", "bm9uc2Vuc2U", "e30"} { // nothing, no base64, no JSON, and {}
		b := r.browser()
		b.keep("postrider_signin", kept)
		b.get("/login/oidc/back?code=x&state=").is(t, http.StatusUnauthorized).has(t, "not begun in this browser")
	}
	for _, next := range []string{"//evil.example", "https://evil.example", `/\evil.example`, "/login/oidc", "/login/oidc/back?code=x", "/" + strings.Repeat("x", 3000)} {
		b := r.browser()
		b.get(b.signInAt("ann", next)).is(t, 200).has(t, `content="0; url=/"`)
	}
	// Another page cannot begin a sign-in: the person is asked first.
	asked := r.browser().get("/login/oidc?next=/tasks", "Sec-Fetch-Site", "cross-site").is(t, 200).has(t, "/login/oidc?next=%2ftasks")
	if asked.header.Get("Set-Cookie") != "" {
		t.Error("another site has begun a sign-in")
	}
}

// TestWhileTheProviderIsAway: the console is there, says what is wrong, and lets people in as soon as the provider is there.
func TestWhileTheProviderIsAway(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	settings := withProvider(port)
	settings["http.failed_logins_per_minute"] = "2"
	r := newRig(t, settings)
	b := r.browser()
	for range 3 { // none counts as a try of the person's
		b.get("/login/oidc").is(t, http.StatusServiceUnavailable).has(t, issuerAt(port), "Try again", "API key")
	}
	r.as("read").until("/", "key read")
	stop := openIDProvider(t, port, true)
	deadline := time.Now().Add(3 * time.Minute)
	for b.get("/login/oidc").status != http.StatusSeeOther {
		if time.Now().After(deadline) {
			t.Fatal("the provider is back, and no sign-in works")
		}
		time.Sleep(100 * time.Millisecond)
	}
	back := b.signInAt("ann", "/")
	stop()
	b.get(back).is(t, http.StatusServiceUnavailable).has(t, "cannot be asked")
	b = r.browser()
	for range 2 {
		b.get("/login/oidc/back?code=x&state=y").is(t, http.StatusUnauthorized)
	}
	b.get("/login/oidc/back?code=x&state=y").is(t, http.StatusTooManyRequests).has(t, "Too many tries")
}
