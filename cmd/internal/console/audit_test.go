package console_test

import (
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
	pgtest.Exec(t, r.pool, `insert into postrider.access_audit (actor, action, target_type, target_id, details) select '<i>ann</i>', 'hold.release', 'hold', n::text, '{"n": "<b>"}' from generate_series(1, 120) n`)
	page := b.get("/audit").is(t, http.StatusOK).has(t, "hold.release", "&lt;i&gt;ann&lt;/i&gt;", "Older", `aria-current="page">Audit`)
	if n := strings.Count(page.text, `<tr role="row" data-row`); n != 50 || strings.Contains(page.text, "<b>\"}") {
		t.Errorf("%d rows on the first page", n)
	}
	if page := b.get("/audit?action=session.begin").is(t, 200).has(t, "key admin", `value="session.begin"`).text; strings.Contains(page, "hold.release") {
		t.Error("the filter on an action shows another")
	}
	b.get("/audit?actor=nobody").is(t, 200).has(t, "No row matches.", "Clear the filter")
	b.get("/audit?from=odd").is(t, http.StatusBadRequest).has(t, "from")
	for _, scope := range access.Scopes() {
		got := r.as(scope).get("/audit")
		if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[scope == access.Admin]; got.status != want {
			t.Errorf("with the scope %s the audit log answers %d, not %d", scope, got.status, want)
		}
	}
	if link := `<a href="/audit"`; strings.Contains(r.as(access.Read).get("/access").text, link) || !strings.Contains(page.text, link) {
		t.Error("the rail has the audit log for those who may not see it, or has it not for those who may")
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
