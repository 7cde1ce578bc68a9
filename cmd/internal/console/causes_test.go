package console_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// missing makes a letter one about an order without a field.
func missing(order int, field string) func(*dlq.Letter) {
	return func(l *dlq.Letter) { l.ErrorMessage = fmt.Sprintf("order %d has no field '%s'", order, field) }
}

// TestACauseHasOneTitle: the title of a cause names no value of its newest message, and is the same wherever it is shown. The page
// of the cause has its different messages.
func TestACauseHasOneTitle(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	first := r.die(1, missing(4711, "customer"))
	second := r.die(2, missing(4712, "price"))
	group := r.group(first)
	if r.group(second) != group {
		t.Fatal("the two are in different causes")
	}
	const title = "Order … has no field &#39;…&#39;"
	b := r.as(access.Admin)
	b.until("/", "orders: 2 events given up").has(t, title+"</bdi></a>", title+".")
	b.get("/causes").is(t, http.StatusOK).has(t, title+"</bdi></a>")
	cause := b.get("/causes/"+group).is(t, http.StatusOK).has(t, `<h1 class="long"><bdi>`+title+"</bdi></h1>", "Its messages, the newest first",
		`<a href="/investigations/`+second+`"><bdi>order 4712 has no field &#39;price&#39;</bdi></a>`, `<a href="/investigations/`+first+`"><bdi>order 4711 has no field &#39;customer&#39;</bdi></a>`)
	if strings.Index(cause.text, "order 4712 has no field") > strings.Index(cause.text, "order 4711 has no field") {
		t.Error("the older message comes first")
	}
	b.get("/plan?kind=redrive&group="+group).has(t, title)
	for _, text := range []string{"HAS+NO", "invalid_rec", "order"} {
		b.get("/causes?text="+text).is(t, http.StatusOK).has(t, "1 cause.", title)
	}
}

// TestCausesHaveOneOrder: the first page and the list of causes have the worst first.
func TestCausesHaveOneOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var want []string
	for i, open := range []int{1, 3, 2} {
		var entry string
		for n := range open {
			entry = r.die(10*i+n, func(l *dlq.Letter) { l.ErrorMessage = "cause " + string(rune('a'+i)) + " is bad" })
		}
		want = append(want, r.group(entry))
	}
	pgtest.Exec(t, r.pool, `update postrider.dlq_group set created_at = now() - interval '2 days', last_seen_at = now() - interval '3 hours' where dlq_group_uuid = $1::uuid`, want[1])
	want = []string{want[2], want[0], want[1]} // the largest one is old and quiet
	b := r.as(access.Admin)
	for _, page := range []string{"/causes", "/"} {
		var got []string
		for deadline := time.Now().Add(3 * time.Minute); !slices.Equal(got, want) && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			got = nil // figures of before are shown until they are read again
			for _, row := range regexp.MustCompile(`<a class="title" href="/causes/([0-9a-f-]{36})"`).FindAllStringSubmatch(b.get(page).text, -1) {
				got = append(got, row[1])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the order of %s is %v, want %v", page, got, want)
		}
	}
}

// TestDeadLettersOfManyInvestigations: the page says that it looked at the newest, where there are more.
func TestDeadLettersOfManyInvestigations(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	group := r.group(r.die(1, nil))
	r.die(2, nil)
	b := r.as(access.Read)
	b.get("/causes/"+group).is(t, http.StatusOK).has(t, "<dd>2 from <bdi>postrider.dlq</bdi></dd>", "2 in 2 investigations")
	for n := range dlq.GroupSample {
		r.die(n+3, nil)
	}
	b.get("/causes/"+group).is(t, http.StatusOK).has(t, "<dd>200 of the newest from <bdi>postrider.dlq</bdi></dd>", "202 in 202 investigations")
}

// TestACauseSaysHowItWasClosed: the verdict and the note of the person who closed it last, also after it was opened again. What was
// closed by rule is no verdict.
func TestACauseSaysHowItWasClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	group := r.group(r.die(1, nil))
	r.die(2, nil)
	cause := "/causes/" + group
	b := r.as(access.Admin)
	b.get(cause).is(t, http.StatusOK).lacks(t, "Last closed")
	b.post(cause+"/resolve", "status", "permanently_failed", "notes", "the supplier is <gone>").is(t, http.StatusSeeOther)
	verdict := []string{"Last closed", "by <bdi>key admin</bdi>", "Failed for good</span> 2 investigations</p>", "the supplier is &lt;gone&gt;"}
	b.get(cause).is(t, http.StatusOK).has(t, verdict...).has(t, "closed 2 investigations as failed for good</bdi>: <bdi>the supplier is &lt;gone&gt;").lacks(t, "closed the investigations of")
	r.die(3, nil)
	pgtest.Exec(t, r.pool, `update postrider.dlq_entry set resolution_status = 'manually_resolved', resolution_timestamp = now() + interval '1 hour', resolved_by = 'postrider', resolution_notes = 'by rule'
		where resolution_status = 'pending'`)
	r.die(4, nil)
	reader := r.as(access.Read)
	reader.get(cause).is(t, http.StatusOK).has(t, append(verdict, "<b>1</b> open")...).lacks(t, "by rule")
	again := pgtest.Value[string](t, r.pool, `select dlq_entry_uuid::text from postrider.dlq_entry where resolution_status = 'pending'`)
	b.post("/investigations/"+again+"/change", "what", "resolve", "notes", "mended").is(t, http.StatusSeeOther)
	reader.get(cause).has(t, "Resolved</span> 1 investigation</p>", "mended", "closed 2 investigations as failed for good")
}
