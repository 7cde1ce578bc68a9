package console_test

import (
	"bufio"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/console"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func (r *rig) link(n access.NewLink) string {
	r.t.Helper()
	n.ExpiresIn = time.Minute
	token, _, err := r.services.Access.Link(access.WithActor(r.t.Context(), access.Actor{Name: "test"}), n)
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

// TestALinkIsUsedOnce: looking at it does not use it, as programs do that preview links; the second use is refused.
func TestALinkIsUsedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	link := r.link(access.NewLink{Name: "mira", Scopes: []access.Scope{access.Read}})
	mira, thief := r.browser(), r.browser()
	for range 3 {
		thief.get("/login?link="+link).is(t, 200).has(t, "Sign in as mira")
	}
	if got := mira.post("/login", "link", link, "next", "/causes?state=new"); got.status != http.StatusSeeOther || got.header.Get("Location") != "/causes?state=new" {
		t.Errorf("%d to %s", got.status, got.header.Get("Location"))
	} else if c := got.header.Get("Set-Cookie"); !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Strict") || strings.Contains(c, "Secure") || strings.Contains(c, "__Host-") {
		t.Errorf("on plain http of this machine the cookie is %s", c)
	}
	mira.until("/", "<strong><bdi>mira</bdi></strong>").has(t, "may read")
	thief.post("/login", "link", link).is(t, http.StatusUnauthorized).has(t, "has been used", "Ask for a new one")
	thief.get("/login?link="+link).is(t, http.StatusUnauthorized).has(t, "has been used").lacks(t, "You are signed in")
	again := mira.get("/login?link="+link).is(t, http.StatusUnauthorized)
	mira.post("/login", "link", link, "next", "/causes").is(t, http.StatusUnauthorized).has(t, `You are signed in as mira. <a href="/causes">Go on as mira</a>`)
	again.has(t, "has been used", `You are signed in as mira. <a href="/">Go on as mira</a>`)
	thief.get("/login?link="+link, "Sec-Fetch-Site", "cross-site").is(t, http.StatusOK).has(t, `http-equiv="refresh" content="0; url=/login?link=`)
	if to := thief.get("/causes").is(t, http.StatusSeeOther).header.Get("Location"); to != "/login?next=%2Fcauses" {
		t.Errorf("a stranger is sent to %s", to)
	}
	for next, want := range map[string]string{"//evil.example": "/", "https://evil.example/": "/", `/\evil.example`: "/", "/plan?x=1": "/plan?x=1", "": "/"} {
		if to := r.as(access.Read).get("/login?next=" + next).header.Get("Location"); to != want {
			t.Errorf("next=%s leads to %s", next, to)
		}
	}
}

func TestASessionEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Read)
	b.until("/", "<h1>")
	b.post("/logout").is(t, http.StatusSeeOther)
	b.get("/").is(t, http.StatusSeeOther)
	rows := pgtest.Column[string](t, r.pool, `select actor || ' ' || action from postrider.access_audit where action like 'session.%' order by access_audit_id`)
	if strings.Join(rows, ", ") != "key read session.begin, key read session.end" {
		t.Errorf("the audit log has %v", rows)
	}

	// Another process revokes the key: at most two seconds later its sessions have ended, in the middle of what they do. Who
	// changes something is looked up at once.
	entry := r.die(1, nil)
	b = r.as(access.Resolve)
	b.get("/investigations/"+entry).is(t, 200)
	resp, err := b.Get(r.URL + "/console/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	pgtest.Exec(t, r.pool, `update postrider.access_key set revoked_at = now() where access_key_id = $1`, r.ids[access.Resolve])
	if to := b.post("/investigations/"+entry+"/change", "what", "resolve").is(t, http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(to, "/login?lost=true") {
		t.Errorf("a change in a session that was revoked leads to %s", to)
	}
	if n := pgtest.Value[int](t, r.pool, `select count(*) from postrider.dlq_entry where resolution_status = 'pending'`); n != 1 {
		t.Error("a session that was revoked has closed an investigation")
	}
	began := time.Now()
	for b.get("/causes").status == 200 {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a session that was revoked still reads")
		}
		time.Sleep(100 * time.Millisecond)
	}
	ended := false
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		ended = ended || lines.Text() == "event: ended"
	}
	if !ended {
		t.Error("a stream of events does not say that its session has ended")
	}
	b.get("/causes", "X-Fragment", "1").is(t, http.StatusUnauthorized)
}

// TestOtherSites: no page elsewhere makes a browser do something here, or shows this in a frame; a link from elsewhere works.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	b := r.as(access.Admin)
	form := "/investigations/" + entry + "/change"
	for name, headers := range map[string][]string{
		"a form elsewhere": {"Sec-Fetch-Site", "cross-site"}, "a sibling": {"Sec-Fetch-Site", "same-site"}, "an old browser": {"Origin", "https://evil.example"},
	} {
		got := b.do(http.MethodPost, form, map[string][]string{"what": {"resolve"}}, headers...)
		if got.status != http.StatusForbidden || !strings.Contains(got.text, "This came from another site") {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	if n := pgtest.Value[int](t, r.pool, `select count(*) from postrider.dlq_entry where resolution_status = 'pending'`); n != 1 {
		t.Error("another site has closed an investigation")
	}
	for _, form := range console.Forms() { // a new form is found by itself
		b.do(http.MethodPost, form, nil, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example").is(t, http.StatusForbidden).has(t, "This came from another site")
	}
	b.get("/access").is(t, http.StatusOK) // no session was ended
	if got := b.do(http.MethodPost, form, map[string][]string{"what": {"take"}}, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusSeeOther {
		t.Errorf("our own form: %d", got.status)
	}
	// SameSite=Strict keeps the cookie back for a link in a message: the page loads itself again, from here.
	r.browser().get("/causes?state=new", "Sec-Fetch-Site", "cross-site").is(t, 200).has(t, `http-equiv="refresh"`, "/causes?state=new")
	r.browser().get("/causes?state=new", "Sec-Fetch-Site", "same-origin").is(t, http.StatusSeeOther)
	// A name that leads here and is not ours: rebinding of DNS, or plain http from another machine.
	for _, host := range []string{"evil.example", "10.0.0.5:8080", "localhost.evil.example"} {
		b.get("/", "Host", host).is(t, http.StatusMisdirectedRequest).has(t, "console.url")
	}
	for _, host := range []string{"localhost:8080", "[::1]:8080", "127.0.0.9"} {
		b.get("/login", "Host", host).is(t, http.StatusOK)
	}
}

// TestCookiesBehindTLS: behind a proxy that speaks https, as console.url says, the cookie has its prefix and is Secure.
func TestCookiesBehindTLS(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"console.url": "https://postrider.example.com"})
	got := r.browser().do(http.MethodPost, "/login", map[string][]string{"key": {r.keys[access.Read]}}, "Host", "postrider.example.com", "Origin", "https://postrider.example.com", "Sec-Fetch-Site", "same-origin")
	c := got.is(t, http.StatusSeeOther).header.Get("Set-Cookie")
	if !strings.HasPrefix(c, "__Host-postrider_session=prs_") || !strings.Contains(c, "Secure") || !strings.Contains(c, "Path=/") || strings.Contains(c, "Domain") {
		t.Errorf("the cookie is %s", c)
	}
}

func TestTriesAreLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"http.failed_logins_per_minute": "3"})
	b := r.browser()
	for _, values := range [][]string{{"key", "pr_x"}, {"link", "prl_x"}, {"key", "x"}} {
		b.post("/login", values...).is(t, http.StatusUnauthorized)
	}
	limited := b.post("/login", "key", "pr_x").is(t, http.StatusTooManyRequests).has(t, "Too many tries")
	if limited.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	// The API counts together with it.
	b.get("/v1/status", "X-API-Key", "pr_x").is(t, http.StatusTooManyRequests)
	if got := b.post("/login", "key", r.keys[access.Read]); got.status != http.StatusSeeOther {
		t.Errorf("a key that works is kept out by the mistakes of others: %d", got.status)
	}
}

// TestManyOtherSessions: the page counts all other sessions of a person, and says that it lists the newest.
func TestManyOtherSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Read)
	b.get("/access").is(t, http.StatusOK).has(t, `Your other sessions<span class="n">0</span>`)
	pgtest.Exec(t, r.pool, `insert into postrider.access_session (access_session_id, access_key_id, secret_hash, signed_in_by, name, person, scopes, expires_at)
		select 'more' || i, s.access_key_id, sha256('x'), s.signed_in_by, s.name, s.person, s.scopes, s.expires_at
		from postrider.access_session s, generate_series(1, 1100) i where s.ended_at is null`)
	b.get("/access").is(t, http.StatusOK).has(t, `Your other sessions<span class="n">1,100</span>`, "The newest 100 are listed.")
}

// TestAFormOfAnEndedSession says that the session had ended and that nothing was saved, and comes back to its page; a plan comes
// back with what was written.
func TestAFormOfAnEndedSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	cause := "/causes/" + r.group(entry)
	for path, want := range map[string]string{cause + "/comments": cause, cause + "/comments/7/delete": cause, "/holds/1/release": "/outbox?topic=orders", "/plan": "/plan?id=" + entry + "&name=typed", "/tasks/retry": "/tasks?name=x", "/access/sessions": "/access", "/nothing": "/"} {
		b := r.as(access.Admin)
		pgtest.Exec(t, r.pool, `delete from postrider.access_session`)
		form := []string{"text", "typed"}
		switch path {
		case "/plan":
			form = []string{"id", entry, "name", "typed"}
		case "/holds/1/release", "/tasks/retry":
			form = []string{"back", want}
		}
		door := b.post(path, form...).is(t, http.StatusSeeOther).header.Get("Location")
		b.get(door).is(t, http.StatusOK).has(t, "The session had ended, so nothing was saved.")
		if got := b.post("/login", "key", r.keys[access.Admin], "next", b.nextOf(door)).is(t, http.StatusSeeOther).header.Get("Location"); got != want {
			t.Errorf("%s leads to %s, not %s", path, got, want)
		}
	}
	if text := r.browser().get("/login").is(t, http.StatusOK).text; strings.Contains(text, "nothing was saved") {
		t.Error("the page of signing in speaks of a form that was not sent")
	}
}

// nextOf is the page that the page of signing in goes on to.
func (b *browser) nextOf(door string) string {
	b.r.t.Helper()
	found := regexp.MustCompile(`name="next" value="([^"]*)"`).FindStringSubmatch(b.get(door).text)
	if found == nil {
		b.r.t.Fatalf("%s leads nowhere", door)
	}
	return html.UnescapeString(found[1])
}
