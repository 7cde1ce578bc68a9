package console_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestALookIsTakenOnce: the page behind the form shows the message once, with one row of the audit log. Loaded again, or kept as
// a bookmark, it shows nothing and leads to the page with the form. So it does for a page of another message, and for a person
// without the right.
func TestALookIsTakenOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"dlq.redact_paths": "$.order.n"})
	entry, other := r.die(1, invalidHeaders), r.die(2, invalidHeaders)
	looks := func() int {
		return pgtest.Value[int](t, r.pool, `select count(*) from postrider.access_audit where action like 'payload.%'`)
	}
	b, reader := r.as(access.Admin), r.as(access.Read)
	for _, parent := range []string{"/investigations/" + entry, "/outbox/1001", "/causes/" + r.group(entry)} {
		page := parent + "/reveal"
		if parent[1] == 'c' {
			page = parent + "/compare"
		}
		before := looks()
		b.post(page, "as", "text").is(t, http.StatusSeeOther)
		if now := looks(); now != before {
			t.Errorf("%s: the form alone writes %d looks", page, now-before)
		}
		b.get("/investigations/"+other+"/reveal").is(t, http.StatusSeeOther) // which takes the ticket of the other page
		b.get(page).is(t, http.StatusSeeOther)
		b.lookAt(page, "as", "text").is(t, http.StatusOK)
		if now := looks(); now != before+1 {
			t.Errorf("%s: one look is %d rows of the audit log", page, now-before)
		}
		for _, again := range []*browser{b, reader} {
			if to := again.get(page).is(t, http.StatusSeeOther).header.Get("Location"); to != parent {
				t.Errorf("%s leads to %s when it is loaded again", page, to)
			}
		}
		reader.post(page).is(t, http.StatusForbidden)
		b.get(page, "X-Fragment", "1").is(t, http.StatusSeeOther) // an open page that renews itself looks at nothing
		if now := looks(); now != before+1 {
			t.Errorf("%s: %d rows of the audit log without a look", page, now-before-1)
		}
	}
	// The list that the investigation was reached from stays in the address.
	if to := b.get("/investigations/" + entry + "/reveal?topic=orders").header.Get("Location"); to != "/investigations/"+entry+"?topic=orders" {
		t.Errorf("the list is lost: %s", to)
	}
}
