package console_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
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
