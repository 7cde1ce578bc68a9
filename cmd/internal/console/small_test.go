package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestWhatFollowsAForm: an address that shows something after a form leads to its page when it is loaded anew, and what is
// shown as it is can be sent again.
func TestWhatFollowsAForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	r.die(2, nil)
	b := r.as(access.Admin)
	for from, to := range map[string]string{"/causes/" + r.group(entry) + "/compare": "/causes/" + r.group(entry), "/investigations/" + entry + "/reveal": "/investigations/" + entry} {
		if got := b.get(from).is(t, http.StatusSeeOther).header.Get("Location"); got != to {
			t.Errorf("%s leads to %s", from, got)
		}
	}
	b.lookAt("/investigations/"+entry+"/reveal", "as", "text").is(t, http.StatusOK).has(t, `id="neighbours"`, "Send it again</button>")
}

// TestWhatIsClosedIsLeftAlone: a closed investigation, and a cause with nothing open, offer no change that means nothing for it.
func TestWhatIsClosedIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	b := r.as(access.Admin)
	pages := []string{"/investigations/" + entry, "/causes/" + r.group(entry)}
	for _, page := range pages {
		b.get(page).has(t, "Take it", "Give to…", "Resolve…")
	}
	b.post("/causes/"+r.group(entry)+"/resolve").is(t, http.StatusSeeOther)
	for _, page := range pages {
		text := b.get(page).is(t, http.StatusOK).text
		for _, offer := range []string{"Take it", "Give to…", "Mute…", "Resolve…"} {
			if strings.Contains(text, offer) {
				t.Errorf("%s still offers %s", page, offer)
			}
		}
	}
}

// TestALargeCause: the form says how many one request closes and how many it leaves, and leads to an operation that closes all.
// When some are left, it is open again for them.
func TestALargeCause(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	group := r.group(r.die(1, nil))
	pgtest.Exec(t, r.pool, `insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, dlq_group_uuid, created_at)
		select 'event', gen_random_uuid(), 'failed', 'max_retries_exceeded', now(), now(), '{}', $1::uuid, now() - interval '1 minute' from generate_series(1, 10000)`, group)
	b := r.as(access.Admin)
	page := b.get("/causes/"+group).is(t, http.StatusOK).has(t, "10,001 investigations are open. This closes the oldest 10,000 of them; the newest one stays open", "/plan?kind=resolve&amp;group="+group, "Plan to close all 10,001…", `<button class="btn stop" type="submit">Close the oldest 10,000</button>`)
	if strings.Contains(page.text, `<details class="ask" open>`) {
		t.Error("the form is open before a person asks for it")
	}
	b.get("/plan?kind=resolve&group="+group).is(t, http.StatusOK).has(t, "Plan to close investigations", "all 10,001 that are open now", `<select id="status" name="status">`)
	b.post("/plan", "kind", "resolve", "group", group, "name", "all", "status", "cancelled", "notes", "a false alarm").is(t, http.StatusSeeOther)
	if as := pgtest.Value[string](t, r.pool, `select concat_ws(', ', options->>'status', options->>'notes', items) from postrider.dlq_operation`); as != "cancelled, a false alarm, 10001" {
		t.Errorf("the plan closes them as %s", as)
	}
	if text := r.as(access.Resolve).get("/causes/"+group).is(t, http.StatusOK).text; strings.Contains(text, "/plan?kind=resolve") || !strings.Contains(text, "Close the oldest 10,000</button>") {
		t.Error("a person who may not plan is led to a plan, or cannot close what they may")
	}
	to := b.post("/causes/"+group+"/resolve").is(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).is(t, http.StatusOK).has(t, "10,000 investigations are closed. 1 is left open: one request closes 10,000 at most. Close them below.", `<details class="ask" open>`, "Close 1 investigation</button>")
	to = b.post("/causes/"+group+"/resolve").is(t, http.StatusSeeOther).header.Get("Location")
	if text := b.get(to).is(t, http.StatusOK).has(t, "1 investigation is closed.").text; strings.Contains(text, `<details class="ask" open>`) {
		t.Error("nothing is left, and the form is open")
	}
}

// TestAFormThatOpensByItselfCanBeClosed: after a request that left some open the form is open, and an open page that renews
// itself does not open it again. It does not read the title of a cause anew either.
func TestAFormThatOpensByItselfCanBeClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	b := r.as(access.Admin)
	group := r.group(entry)
	page := "/causes/" + group + "?rest=true"
	b.get(page).is(t, http.StatusOK).has(t, `<details class="ask" open>`)
	if strings.Contains(b.get(page, "X-Fragment", "1").is(t, http.StatusOK).text, `<details class="ask" open>`) {
		t.Error("the form opens again by itself")
	}
	list := "/investigations?group=" + group
	const live = `id="say" data-live>1 investigation matches.</h1>` // the title stays when this changes
	b.get(list).is(t, http.StatusOK).has(t, live, "Of the cause")
	if strings.Contains(b.get(list, "X-Fragment", "1").is(t, http.StatusOK).has(t, live).text, "Of the cause") {
		t.Error("an open page reads the whole group for a title that it does not renew")
	}
}
