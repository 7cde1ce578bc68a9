package console_test

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
)

// TestNamesOfPlans: two plans of one minute have different names by themselves. Where two names are the same, the page leads to the
// operation that has it, and calls the way out as its button does.
func TestNamesOfPlans(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	one, other := r.die(1, nil), r.die(2, nil)
	b := r.as(access.Admin)
	if text := b.get("/plan?kind=redrive&id="+one+"&id="+other).is(t, http.StatusOK).text; !regexp.MustCompile(`name="name" value="messages \d\d:\d\d:\d\d"`).MatchString(text) {
		t.Errorf("the name is no time to the second:\n%s", excerpt(text))
	}
	plan := func(entry string) string {
		t.Helper()
		return b.post("/plan", "kind", "redrive", "id", entry, "name", "messages", "canary", "", "rate", "").is(t, http.StatusSeeOther).header.Get("Location")
	}
	made, refused := plan(one), plan(other)
	id := made[len("/operations/"):]
	b.get(refused).is(t, http.StatusOK).has(t, `Operation <a href="`+made+`">`+id+`</a> is called &#34;messages&#34;, too; key admin planned it at `, "and it is planned. Go on with that one, end it, or give another name.")
	b.get(made).has(t, "End it…")
	b.post(made+"/abort").is(t, http.StatusSeeOther)
	b.post(made+"/resume").is(t, http.StatusSeeOther)
	b.get(made).has(t, "It is ended, and cannot go on; a new plan can do more.")
}
