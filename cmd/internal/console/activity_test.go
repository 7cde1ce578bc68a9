package console_test

import (
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestAnInvestigationKnowsItsOperations: its activity names each operation that it is in, with what became of it there.
func TestAnInvestigationKnowsItsOperations(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry, other := r.die(1, nil), r.die(2, nil)
	b := r.as(access.Admin)
	plan := func(name string) string {
		return b.post("/plan", "kind", "redrive", "id", entry, "id", other, "name", name, "canary", "", "rate", "").is(t, http.StatusSeeOther).header.Get("Location")
	}
	treat := func(operation, item string) {
		t.Helper()
		pgtest.Exec(t, r.pool, `update postrider.dlq_operation_item set `+item+` where dlq_operation_uuid = $1::uuid and dlq_entry_uuid = $2::uuid`, path.Base(operation), entry)
		r.played(operation, `state = 'completed', done = 1, skipped = 1, started_at = now(), treated_at = now(), finished_at = now()`)
	}
	skipped, sent, waits := plan("skips it"), plan("sends it"), plan("comes to it")
	treat(skipped, `state = 'skipped', reason = 'too_many_hops'`)
	treat(sent, `state = 'done', outcome = 'came_back'`)
	page := b.get("/investigations/"+entry).is(t, http.StatusOK)
	_, page.text, _ = strings.Cut(page.text, `<section id="activity"`)
	line := func(operation, name, what string) string {
		return `<a href="` + operation + `"><bdi>` + name + `</bdi></a>: ` + what
	}
	page.has(t, line(skipped, "skips it", `<bdi title="It was skipped: Its message was sent again as often as`), line(sent, "sends it", "<bdi>Its message was sent again</bdi>"), "Failed again",
		line(waits, "comes to it", "<bdi>It waits for its turn</bdi>"), line(waits, "comes to it", "<bdi>key admin</bdi> <bdi>planned it</bdi>"))
	// Who closed it by an operation is in the audit log, and said once.
	closing := b.post("/plan", "kind", "resolve", "id", entry, "name", "closes it").is(t, http.StatusSeeOther).header.Get("Location")
	treat(closing, `state = 'done'`)
	b.get("/investigations/"+entry).has(t, line(closing, "closes it", "<bdi>It was closed</bdi>"))
	pgtest.Exec(t, r.pool, `insert into postrider.access_audit (actor, action, target_type, target_id, details)
		values ('ann', 'dlq.resolve', 'operation', $1, jsonb_build_object('entries', jsonb_build_array($2::text)))`, path.Base(closing), entry)
	b.get("/investigations/"+entry).has(t, line(closing, "closes it", "<bdi>ann</bdi> <bdi>closed it</bdi>")).lacks(t, "It was closed")
}
