package console_test

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestTheAuditLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Admin)
	pgtest.Exec(t, r.pool, `insert into postrider.access_audit (actor, action, target_type, target_id, details) select '<i>ann</i>', 'outbox.release', 'hold', n::text, '{"n": "<b>"}' from generate_series(1, 120) n`)
	page := b.get("/audit").is(t, http.StatusOK).has(t, "outbox.release", "&lt;i&gt;ann&lt;/i&gt;", "Older", `aria-current="page">Audit`)
	if n := strings.Count(page.text, `<tr role="row" data-row`); n != 50 || strings.Contains(page.text, "<b>\"}") {
		t.Errorf("%d rows on the first page", n)
	}
	if page := b.get("/audit?action=session.begin").is(t, 200).has(t, "key admin", `value="session.begin"`).text; strings.Contains(page, "<bdi>outbox.release") {
		t.Error("the filter on an action shows another")
	}
	group := r.group(r.die(1, nil))
	b.post("/causes/"+group+"/resolve").is(t, http.StatusSeeOther)
	b.get("/audit?target_type=group").is(t, 200).has(t, "closed the investigations of", `<bdi>cause</bdi> <span class="sub target"><a class="mono" href="/causes/`+group+`">`, "closed: 1", "left: 0", "status: manually_resolved", "key admin", ">Who <input", ">Outcome</th>")
	b.get("/causes/"+group).is(t, 200).has(t, "closed 1 investigation as resolved</bdi></p>")
	b.get("/audit?actor=nobody").is(t, 200).has(t, "No row matches.", "Clear the filter")
	b.get("/audit?from=odd").is(t, http.StatusBadRequest).has(t, "from")
	for _, scope := range access.Scopes() {
		got := r.as(scope).get("/audit")
		if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[scope == access.Admin]; got.status != want {
			t.Errorf("with the scope %s the audit log answers %d, not %d", scope, got.status, want)
		}
	}
	if link := `<a href="/audit"`; strings.Contains(r.as(access.Read).get("/access").text, link) || !strings.Contains(page.text, link) {
		t.Error("the rail shows the audit log without the right to it, or hides it with the right")
	}
}

// TestOperationsAreOneRowOfTheAuditLog: their batches are counted on the row of their start, which leads to them. The log keeps
// all, and so do its files and a filter that asks for them.
func TestOperationsAreOneRowOfTheAuditLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Admin)
	const id = "0192aaaa-0000-7000-8000-000000000008"
	pgtest.Exec(t, r.pool, `insert into postrider.access_audit (at, actor, action, target_type, target_id)
		select now() + n * interval '1 second', 'ann', case n when 0 then 'operation.start' when 301 then 'operation.abort' else 'dlq.requeue' end, 'operation', $1 from generate_series(0, 301) n`, id)
	const all = "/audit?target_id=" + id + "&amp;target_type=operation"
	b.get("/audit").is(t, http.StatusOK).has(t, "started", "ended", `<a href="`+all+`">in 300 batches</a>`, "key admin", `aria-current="true">Operations in one row`).lacks(t, "<bdi>dlq.requeue</bdi>")
	for _, path := range []string{html.UnescapeString(all), "/audit?batches=true", "/audit?action=dlq.requeue"} {
		b.get(path).is(t, http.StatusOK).has(t, "<bdi>dlq.requeue</bdi>", "Older").lacks(t, "in 300 batches")
	}
	if n := strings.Count(b.get("/audit/export?format=csv").is(t, http.StatusOK).text, "dlq.requeue"); n != 300 {
		t.Errorf("the file has %d of 300 batches", n)
	}
}

func TestMyAccess(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, scope := range access.Scopes() {
		b := r.as(scope)
		page := b.get("/access").is(t, http.StatusOK).has(t, "You are <bdi>key "+string(scope), r.ids[scope])
		may := map[access.Scope]int{access.Read: 1, access.Admin: len(access.Scopes()), access.Edit: 4}[scope]
		if may == 0 {
			may = 2
		}
		if n := strings.Count(page.text, "</svg>may<"); n != may {
			t.Errorf("with the scope %s the page says %d times that one may, not %d", scope, n, may)
		}
		b.post("/logout").is(t, http.StatusSeeOther)
		if to := b.get("/access").is(t, http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(to, "/login") {
			t.Errorf("after the end of the session /access leads to %s", to)
		}
	}
}

// TestMyOtherSessions: a person ends one of their other sessions, or all; another person's stay, whatever is sent.
func TestMyOtherSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	me := r.as(access.Read)
	me.get("/access").is(t, http.StatusOK).has(t, "There is none.")
	phone, laptop, old, stranger := r.as(access.Read), r.as(access.Read), r.as(access.Read), r.as(access.Resolve)
	session := func(b *browser) string {
		_, id, _ := strings.Cut(b.get("/access").is(t, http.StatusOK).text, "<dt>Session</dt><dd><code>")
		return id[:strings.Index(id, "<")]
	}
	me.get("/access").is(t, http.StatusOK).has(t, `Your other sessions<span class="n">3</span>`, `value="`+session(phone)+`"`, "End all others")
	me.post("/access/sessions", "id", session(stranger)).is(t, http.StatusSeeOther)
	me.get("/access").has(t, "notice waiting", "is not yours")
	me.post("/access/sessions").is(t, http.StatusSeeOther)
	me.get("/access").has(t, "No session was ended.")
	me.post("/access/sessions", "id", session(phone)).is(t, http.StatusSeeOther)
	me.get("/access").has(t, "1 session is ended.", `Your other sessions<span class="n">2</span>`)
	if to := phone.get("/causes").is(t, http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(to, "/login") {
		t.Errorf("a session that was ended from another is led to %s", to)
	}
	me.post("/access/sessions", "which", "others").is(t, http.StatusSeeOther)
	me.get("/access").has(t, "2 sessions are ended.", "There is none.")
	for name, b := range map[string]*browser{"laptop": laptop, "old": old} {
		if b.get("/causes").status != http.StatusSeeOther {
			t.Errorf("%s still reads", name)
		}
	}
	stranger.get("/causes").is(t, http.StatusOK)
}
