package console_test

import (
	"net/http"
	"path"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestAPlanOfAClosedCause: the form of a cause that was closed elsewhere has nothing to press, and leads back to the cause.
func TestAPlanOfAClosedCause(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	group := r.group(r.die(1, nil))
	b := r.as(access.Admin)
	b.post("/causes/"+group+"/resolve").is(t, http.StatusSeeOther)
	back := b.post("/plan", "kind", "redrive", "group", group, "name", "late").is(t, http.StatusSeeOther).header.Get("Location")
	b.get(back).is(t, http.StatusOK).has(t, "nothing is open any more.", `<a class="btn main" href="/causes/`+group+`">Back to the cause</a>`).lacks(t, "Make the plan", "all 0")
}

// TestAPlanOfClosedInvestigations that were picked is not made, whatever else is wrong with their messages, and the page leads back.
// Where some are open, the plan counts the closed ones first; where it would skip all, it cannot be started.
func TestAPlanOfClosedInvestigations(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var ids []string
	for n := range 3 {
		ids = append(ids, r.die(n+1, invalidHeaders))
	}
	open := r.die(4, invalidHeaders)
	b := r.as(access.Admin)
	shut := func(id string) {
		t.Helper()
		b.post("/investigations/"+id+"/change", "what", "resolve").is(t, http.StatusSeeOther)
	}
	for _, id := range ids {
		shut(id)
	}
	picked := func(kind string, ids ...string) (form []string, page string) {
		form, page = []string{"kind", kind, "name", kind}, "/plan?kind="+kind
		for _, id := range ids {
			form, page = append(form, "id", id), page+"&id="+id
		}
		return form, page
	}
	for kind, again := range map[string]string{"redrive": "not sent", "resolve": "not closed"} {
		form, page := picked(kind, ids...)
		b.get(page).is(t, http.StatusOK).has(t, "All of them are closed. A closed one is "+again+" again.", `<a class="btn main" href="/investigations">Back to the investigations</a>`).lacks(t, "Make the plan", "headers")
		back := b.post("/plan", form...).is(t, http.StatusSeeOther).header.Get("Location")
		b.get(back).is(t, http.StatusOK).has(t, "notice waiting", "Nothing is open among the investigations named, 3 in all", "All of them are closed.").lacks(t, "headers of all")
	}
	_, one := picked("redrive", ids[0])
	b.get(one).is(t, http.StatusOK).has(t, "It is closed.", `href="/investigations/`+ids[0]+`">Back to the investigation</a>`)
	form, _ := picked("purge", ids...)
	purge := b.post("/plan", form...).is(t, http.StatusSeeOther).header.Get("Location")
	b.get(purge).is(t, http.StatusOK).has(t, "Remove for good: 3 investigations</button>")

	form, _ = picked("redrive", append(ids, open)...)
	back := b.post("/plan", form...).is(t, http.StatusSeeOther).header.Get("Location")
	b.get(back).is(t, http.StatusOK).has(t, "the headers of all its messages cannot be read", "Make the plan")
	mixed := r.planned(map[string]any{"kind": "redrive", "name": "mixed", "scope": map[string]any{"ids": append(ids, open)}})
	b.get(mixed).is(t, http.StatusOK).has(t, "mixed would send nothing: all 4 would be skipped.", "3: It is closed. 1: Some of its headers cannot be read", "3 are closed, and are not sent", "1 has headers that cannot be read").lacks(t, "Send 4 messages</button>", mixed+"/start")
	if state := pgtest.Value[string](t, r.pool, `select string_agg(kind || ' ' || name, ', ' order by name) from postrider.dlq_operation`); state != "redrive mixed, purge purge" {
		t.Errorf("the plans are %s", state)
	}
	good := b.post("/plan", append(form, "name", "good", "headers", "priority: 5", "canary", "1")...).is(t, http.StatusSeeOther).header.Get("Location")
	b.get(good).is(t, http.StatusOK).has(t, "3 are closed, and are not sent", good+"/start").lacks(t, "cannot be read, and")
	// Closed behind its plan, as another person does: when it has ended, a further plan would skip them, too, and none is offered.
	shut(open)
	id := path.Base(good)
	pgtest.Exec(t, r.pool, `update postrider.dlq_operation_item set state = 'skipped', reason = 'not_pending' where dlq_operation_uuid = $1::uuid`, id)
	r.played(good, `state = 'completed', skipped = 4, started_at = now(), treated_at = now(), finished_at = now()`)
	b.get(good).is(t, http.StatusOK).has(t, "0 of 4 arrived").lacks(t, "/plan?")
	pgtest.Exec(t, r.pool, `update postrider.dlq_operation_item set reason = 'key_halted' where dlq_operation_uuid = $1::uuid and dlq_entry_uuid = $2::uuid`, id, open)
	b.get(good).has(t, "Plan the 1 again</a>", "id="+open)
}

// TestAListOfClosedOnesOffersNoPlan of all that match: nothing that it is about is open. One open investigation further on is
// enough for the offer.
func TestAListOfClosedOnesOffersNoPlan(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	group := r.group(r.die(1, nil))
	b := r.as(access.Admin)
	lists := []string{"/investigations", "/investigations?group=" + group, "/investigations?topic=orders", "/investigations?group=" + group + "&order_dir=asc"}
	const offer = "all that match and are open</a>"
	for _, list := range lists {
		b.get(list).is(t, http.StatusOK).has(t, offer)
	}
	for n := range 30 { // more than a page, all older than the last
		r.die(2+n, nil)
	}
	b.post("/causes/"+group+"/resolve").is(t, http.StatusSeeOther)
	for _, list := range append(lists, "/investigations?resolution_status=manually_resolved&group="+group) {
		b.get(list).is(t, http.StatusOK).has(t, "Pick some.").lacks(t, offer, `href="/plan?`)
	}
	r.die(40, nil)
	for _, list := range lists {
		b.get(list).is(t, http.StatusOK).has(t, offer)
	}
	b.get("/investigations?resolution_status=manually_resolved&group="+group).is(t, http.StatusOK).lacks(t, offer)
}
