package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestListsHaveTheirOrdersAndFiles: events oldest first, nearly stale tasks, and files of lists that are a part of a page.
func TestListsHaveTheirOrdersAndFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	r.die(2, nil)
	r.cluster.burn()
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_hold (scope, topic, code, cause, error_code, next_probe_at)
		values ('failure', 'held', 'X', 'circuit_breaker', 'X', now() + interval '1 hour')`)
	b := r.as(access.Admin)
	order := func(path string) bool {
		text := b.get(path).is(t, http.StatusOK).text
		return strings.Index(text, "/outbox/1001\"") < strings.Index(text, "/outbox/1002\"")
	}
	if order("/outbox") || !order("/outbox?order_dir=asc") {
		t.Error("events are not in the order that was asked for")
	}
	b.get("/outbox?order_dir=asc").has(t, "the oldest first", `href="/outbox#events">`, `name="order_dir" value="asc"`)
	b.get("/tasks?near_stale=true").is(t, http.StatusOK).has(t, `aria-current="true">Nearly stale`, `name="near_stale" value="true"`)
	made := b.post("/plan", "kind", "redrive", "id", entry, "name", "x", "canary", "", "rate", "").header.Get("Location")
	for path, want := range map[string]string{"/outbox/holds/export?topic=held&format=csv": ",circuit_breaker,failure,held,", "/outbox/holds/export?topic=none&format=csv": "next_probe_at\n",
		"/consumers/export?format=csv": "payments,Stable,3,1204,", "/consumers/topics/export?format=json": `"topic":"orders"`, made + "/export?state=waiting&format=csv": entry + ",waiting"} {
		b.get(path).is(t, http.StatusOK).has(t, want)
	}
	for path, link := range map[string]string{"/outbox": "/outbox/holds/export?format=csv", "/consumers": "/consumers/topics/export?format=csv", made: made + "/export?format=csv"} {
		b.get(path).has(t, link)
	}
}

// TestPagesSayWhatIsWrongWithTheirAddress: an address of the API is no address of the page.
func TestPagesSayWhatIsWrongWithTheirAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Read)
	b.get("/investigations?limit=x").is(t, http.StatusBadRequest).has(t, "limit")
	b.get("/investigations?cursor=x").is(t, http.StatusBadRequest).has(t, "cursor")
	b.get("/investigations?limit=5").is(t, http.StatusOK)
}

// TestAFilterThatIsWrongKeepsItsPage: the page says what is wrong, has its form with what was written, and lists nothing as if
// nothing had been asked for.
func TestAFilterThatIsWrongKeepsItsPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	b := r.as(access.Admin)
	b.until("/", "/causes/"+r.group(entry)) // the figures were read
	for path, want := range map[string][]string{
		"/outbox?from=yesterday&topic=typed": {"Parameter from is", `value="typed"`, `value="yesterday"`}, "/outbox?cause=zz": {"Parameter cause is"},
		"/outbox?hold=zzz": {"&#34;hold&#34; is not known", "hold_id"}, "/outbox?task=zz": {"is not known"}, "/outbox?after=zz&topic=typed": {"Parameter after", `value="typed"`},
		"/tasks?from=yesterday&name=typed": {"Parameter from is", `value="typed"`}, "/tasks?state=zz": {"is not known"}, "/tasks?view=zz": {"is not known"},
		"/tasks/archive?final_state=zz&name=typed": {"Parameter final_state is", `value="typed"`}, "/operations?state=zz": {"is not known"}, "/operations?open=zz": {"Parameter open is"},
		"/investigations?from=yesterday&topic=typed": {"Parameter from is", "topic:typed"}, "/investigations?group=zz": {"Parameter group is"}, "/investigations?order_dir=up": {"Parameter order_dir is"},
		"/audit?from=yesterday&actor=typed": {"Parameter from is", `value="typed"`}, "/causes?state=bogus&text=typed": {"Parameter state is", `value="typed"`}, "/?span=zz": {"Parameter span is"},
	} {
		page := b.get(path).is(t, http.StatusBadRequest).has(t, append(want, `role="alert"`)...)
		if strings.Contains(page.text, "This cannot be shown.") || path != "/?span=zz" && (strings.Contains(page.text, "/outbox/1001") || strings.Contains(page.text, "/investigations/"+entry)) {
			t.Errorf("%s has no form, or lists what was not asked for", path)
		}
	}
}

// TestNoPageIgnoresAParameter: a parameter that a page does not know is refused by its name, on lists, on pages of one thing and
// by files.
func TestNoPageIgnoresAParameter(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	r.cluster.burn()
	task, _ := r.shipping()
	b := r.as(access.Admin)
	b.until("/", "/causes/"+r.group(entry)) // the figures were read
	operation := b.post("/plan", "kind", "redrive", "id", entry, "name", "x", "canary", "", "rate", "").is(t, http.StatusSeeOther).header.Get("Location")
	for _, path := range []string{"/", "/causes", "/causes/" + r.group(entry), "/investigations", "/investigations/" + entry, "/plan?id=" + entry, "/operations", operation, "/outbox", "/outbox/1001",
		"/tasks", "/tasks/" + task, "/tasks/archive", "/tasks/templates", "/tasks/templates/demo/ship_order", "/consumers", "/sources", "/sources/billing", "/doctor", "/audit", "/access",
		"/causes/export?format=csv", "/outbox/holds/export?format=csv", "/consumers/export?format=csv", operation + "/export?format=csv"} {
		with := path + "?fliter=x"
		if strings.Contains(path, "?") {
			with = path + "&fliter=x"
		}
		b.get(with).is(t, http.StatusBadRequest).has(t, "Parameter &#34;fliter&#34; is not known here. This page takes ")
		if got := b.get(path); got.status >= 400 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

// TestRowsHaveTheirKeys: a row of the list of investigations has the key of its message, cut, and whole under the pointer.
func TestRowsHaveTheirKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	key := strings.Repeat("customer-", 15)
	r.die(1, func(l *dlq.Letter) { l.Key = []byte(key) })
	r.die(2, func(l *dlq.Letter) { l.Key, l.KeyKind = nil, dlq.Tombstone })
	if n := strings.Count(r.as(access.Read).get("/investigations").is(t, http.StatusOK).has(t, `key <code><bdi title="`+key+`">`+key[:40]+"…</bdi></code>").text, "key <code"); n != 1 {
		t.Errorf("%d of two rows have a key", n)
	}
}

// TestPlanNamesTheScopeThatItNeeds and no scope of plans of other kinds. Who may not make it reads it, and has nothing to press.
func TestPlanNamesTheScopeThatItNeeds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	for kind, wants := range map[string]map[access.Scope]access.Scope{ // the scope that a person has, and that which is missing
		"redrive": {access.Read: access.Redrive, access.Resolve: access.Redrive, access.Redrive: ""},
		"resolve": {access.Read: access.Resolve, access.Resolve: access.Redrive, access.Redrive: access.Resolve, access.Admin: ""},
		"purge":   {access.Read: access.Purge, access.Purge: access.Redrive, access.Redrive: access.Purge, access.Admin: ""},
	} {
		for has, missing := range wants {
			text := r.as(has).get("/plan?kind="+kind+"&id="+entry).is(t, http.StatusOK).text
			if missing == "" {
				if !strings.Contains(text, `<form class="plan"`) || strings.Contains(text, `id="why-`) {
					t.Errorf("with %s a plan of the kind %s cannot be made", has, kind)
				}
				continue
			}
			if n := strings.Count(text, `id="why-`); n != 1 || !strings.Contains(text, "Making this plan needs the scope <code>"+string(missing)+"</code>") || strings.Contains(text, `action="/plan"`) || strings.Contains(text, "Make the plan") {
				t.Errorf("with %s a plan of the kind %s does not say that %s alone is missing, or has a form", has, kind, missing)
			}
		}
	}
}

// TestResolvedCausesHaveNothingToDo: what is closed can be read, and a row of the list says which event it is about. Errors call
// a cause a cause.
func TestResolvedCausesHaveNothingToDo(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	cause := "/causes/" + r.group(entry)
	event := pgtest.Value[string](t, r.pool, `select subject_id from postrider.dlq_entry where dlq_entry_uuid = $1::uuid`, entry)
	b := r.as(access.Admin)
	b.get("/investigations").has(t, "<code><bdi>"+event)
	b.get(cause).has(t, "Merge…", "Split…", "Show the 1<")
	for into, want := range map[string]string{"notanid": "Nothing was merged: “notanid” names no cause.", cause: "Nothing was merged: this is the cause itself.", "0192aaaa-0000-7000-8000-000000000008": "There is no cause with the id 0192aaaa"} {
		b.post(cause+"/merge", "into", into).is(t, http.StatusSeeOther)
		b.get(cause).has(t, want)
	}
	b.get("/causes/0192aaaa-0000-7000-8000-000000000008").is(t, http.StatusNotFound).has(t, "There is no cause with the id")
	b.post(cause+"/resolve").is(t, http.StatusSeeOther)
	page := b.get(cause).is(t, http.StatusOK).has(t, "Show the 1 closed")
	for _, not := range []string{"Merge…", "Split…", "Show the 0"} {
		if strings.Contains(page.text, not) {
			t.Errorf("the resolved cause has %q", not)
		}
	}
}

// TestACauseSaysWhetherItsPayloadIsHere: where the dead letter only points to it, nothing says that it is there.
func TestACauseSaysWhetherItsPayloadIsHere(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	gone := func(l *dlq.Letter) { l.Payload, l.PayloadKind = nil, dlq.Reference }
	entry := r.die(1, gone)
	r.die(2, gone)
	page := r.as(access.Read).get("/causes/"+r.group(entry)).is(t, http.StatusOK).has(t, "none of the new ones has its payload here", "The payload is not kept here", "can ask the brokers")
	if strings.Contains(page.text, "new, with its payload") {
		t.Error("the page says that it has the payload")
	}
}

// TestNothingIsPlannedFromASearchThatWasCut: a list that has more than was asked for offers no plan and no removal, on its later
// pages neither.
func TestNothingIsPlannedFromASearchThatWasCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for n := range 30 {
		r.die(n, nil)
	}
	b := r.as(access.Admin)
	to := b.get("/investigations?q="+url.QueryEscape("kode:X topic:orders")).is(t, http.StatusSeeOther).header.Get("Location")
	page := b.get(to).is(t, http.StatusOK).has(t, "“kode:X” was left out", "A part of the search was left out", "30 investigations match.", `value="topic:orders kode:X"`).lacks(t, "/plan?", "Plan a redrive", "Plan to remove", "Plan to close")
	older := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(page.text)
	if older == nil {
		t.Fatal("there is no second page")
	}
	b.get(html.UnescapeString(older[1])).is(t, http.StatusOK).lacks(t, "/plan?", "Plan to remove")
	to = b.get("/investigations?q="+url.QueryEscape("foo:bar is:strange")).is(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).is(t, http.StatusOK).has(t, "30 investigations.", `value="foo:bar is:strange"`)
	to = b.get("/investigations?q=topic:orders").is(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).is(t, http.StatusOK).has(t, "/plan?", "Plan to remove").lacks(t, "left out")
}

// TestNothingPicked: a plan of nothing leads back to the page of the list that it was asked for on, which says so.
func TestNothingPicked(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.die(1, nil)
	b := r.as(access.Admin)
	for in, list := range map[string]string{"": "/investigations?", "order_dir=asc&topic=orders": "/investigations?order_dir=asc&topic=orders"} {
		if field := `name="in" value="` + html.EscapeString(in) + `"`; (in != "") != strings.Contains(b.get(list).is(t, http.StatusOK).text, field) {
			t.Errorf("%s: %s", list, field)
		}
		if to := b.get("/plan?"+url.Values{"kind": {"redrive"}, "in": {in}}.Encode()).is(t, http.StatusSeeOther).header.Get("Location"); to != list {
			t.Errorf("it leads to %s, not %s", to, list)
		}
		b.get(list).is(t, http.StatusOK).has(t, "notice waiting", "Nothing is picked. Pick investigations, or take all that match.")
	}
}
