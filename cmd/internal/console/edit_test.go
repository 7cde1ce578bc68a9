package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// TestUnreadableHeadersAreMendedInTheForm: the page says from the start where a message is changed and that it does not go as it
// is; the form has what its event meant and no header of ours, and a refusal keeps what was written.
func TestUnreadableHeadersAreMendedInTheForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, func(l *dlq.Letter) {
		invalidHeaders(l)
		l.Headers = []message.Header{{Name: "kept", Value: []byte("a: b")}, {Name: message.HeaderInvalidHeaders, Value: []byte(`{"dup": 7, "kept": "a: b", "postrider-own": 1}`)}}
	})
	page := "/investigations/" + entry
	b := r.as(access.Edit)
	b.get(page).is(t, http.StatusOK).has(t, "Change it and send it again", "press <a", "so it cannot be sent as it is", `aria-describedby="why-not">Send it again<`)
	b.get("/plan?kind=redrive&id="+entry).has(t, "none of them is sent")
	if shown := b.lookAt(page+"/reveal").is(t, http.StatusOK).has(t, ">\ndup: 7\nkept: a: b</textarea>"); strings.Contains(shown.text, `class="btn main" type="submit">Send it again`) {
		t.Error("the page offers to send it as it is")
	}
	b.post(page+"/send", "what", "edit", "payload", `{"typed": 1}`, "headers", "postrider-x: 1").is(t, http.StatusBadRequest).
		has(t, "belongs to postrider", ">\n{&#34;typed&#34;: 1}</textarea>", ">\npostrider-x: 1</textarea>")
	b.get(page+"/send").is(t, http.StatusSeeOther)
	b.post(page+"/send", "what", "edit", "payload", `{"typed": 1}`, "headers", "dup: 7").is(t, http.StatusSeeOther)
	b.get(page).has(t, "It is sent.")
}

// TestHeadersAndNoneExcludeEachOther: a plan does not drop one of the two in silence.
func TestHeadersAndNoneExcludeEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, invalidHeaders)
	b := r.as(access.Edit)
	back := b.post("/plan", "kind", "redrive", "id", entry, "name", "x", "canary", "", "rate", "", "headers", "priority: 5", "no_headers", "1").header.Get("Location")
	b.get(back).has(t, "choose one of the two", "priority: 5</textarea>", `name="no_headers" value="1" checked`)
}

// TestAHeaderHasOneValue: a plan that gives a header that is to be sent as its own text, too, is refused by its name. The audit log
// names the headers that a plan changes, and no values.
func TestAHeaderHasOneValue(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, invalidHeaders)
	b := r.as(access.Edit)
	plan := func(more ...string) string {
		t.Helper()
		return b.post("/plan", append([]string{"kind", "redrive", "id", entry, "canary", "", "rate", "", "headers_as_text", "1", "name"}, more...)...).is(t, http.StatusSeeOther).header.Get("Location")
	}
	b.get(plan("both", "headers", "priority: 7")).has(t, "notice waiting", "A value is given for the header &#34;priority&#34;, and each header that cannot be read is to be sent as the text of its own value, too", "priority: 7</textarea>")
	plan("texts", "headers", "tenant: acme")
	if details := pgtest.Value[string](t, r.pool, `select details::text from postrider.access_audit where action = 'operation.plan'`); !strings.Contains(details, `"headers": ["priority", "tenant"]`) || strings.Contains(details, "acme") {
		t.Errorf("the audit log has %s", details)
	}
	r.as(access.Admin).get("/audit?action=operation.plan").is(t, http.StatusOK).has(t, "headers: priority + tenant")
}

// TestAPlanThatWouldSendNothing is refused on its form, which says what to tick and has what was written. A person who may not
// give headers is told so before.
func TestAPlanThatWouldSendNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, invalidHeaders)
	other := r.die(2, invalidHeaders)
	group := r.group(entry)
	b := r.as(access.Edit)
	for name, scope := range map[string][]string{"one": {"id", entry}, "two": {"id", entry, "id", other}, "a cause": {"group", group}, "a filter": {"topic", "orders"}, "all": {"all", "true"}} {
		back := b.post("/plan", append([]string{"kind", "redrive", "name", "typed", "why", "rolled back", "canary", "", "rate", ""}, scope...)...).is(t, http.StatusSeeOther).header.Get("Location")
		if !strings.HasPrefix(back, "/plan?") {
			t.Fatalf("%s: it leads to %s", name, back)
		}
		b.get(back).is(t, http.StatusOK).has(t, "notice waiting", "This plan would send nothing: the headers of all its messages cannot be read. Tick “Send each header that cannot be read as the text of its own value”",
			"Send each header that cannot be read as the text of its own value: the number", `value="rolled back"`, `name="headers_as_text"`)
	}
	if made := pgtest.Value[int](t, r.pool, `select count(*)::int from postrider.dlq_operation`); made != 0 {
		t.Errorf("%d plans were made", made)
	}
	lesser := r.as(access.Redrive)
	lesser.get("/plan?kind=redrive&group="+group).is(t, http.StatusOK).has(t, "Nothing would be sent, so no plan is made.", `aria-describedby="why-redrive-edit">Make the plan<`, `id="why-redrive-edit"`)
	lesser.get(lesser.post("/plan", "kind", "redrive", "name", "x", "group", group).is(t, http.StatusSeeOther).header.Get("Location")).has(t, "Only a person with the scope redrive:edit can say which headers are sent instead.")
	// One that can be sent is enough, and so is a tick.
	readable := r.die(3, nil)
	for _, form := range [][]string{{"id", entry, "id", readable}, {"topic", "orders"}, {"group", group, "headers_as_text", "1"}} {
		if to := b.post("/plan", append([]string{"kind", "redrive", "name", strings.Join(form, " "), "canary", ""}, form...)...).is(t, http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(to, "/operations/") {
			t.Errorf("%v leads to %s", form, to)
		}
	}
}

// TestWhatWasTypedStays on the page that refuses a changed message, whatever the reason: another person has closed it, it is on its
// way, or it was removed.
func TestWhatWasTypedStays(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Edit)
	const typed, header = `{"typed": "by hand"}`, "kept: too"
	send := func(entry string) got {
		t.Helper()
		return b.post("/investigations/"+entry+"/send", "what", "edit", "payload", typed, "headers", header)
	}
	kept := []string{"{&#34;typed&#34;: &#34;by hand&#34;}</textarea>", ">\nkept: too</textarea>"}
	below := append([]string{"What you typed", "readonly"}, kept...)
	closed := r.die(1, nil)
	r.as(access.Admin).post("/investigations/"+closed+"/change", "what", "resolve").is(t, http.StatusSeeOther)
	send(closed).is(t, http.StatusConflict).has(t, append(below, "It is closed.", "What you typed is below.")...).lacks(t, "Send it changed")
	underWay := r.die(2, nil)
	send(underWay).is(t, http.StatusSeeOther)
	send(underWay).is(t, http.StatusConflict).has(t, append(below, "on its way", "What you typed is below.")...)
	send("01920000-0000-7000-8000-000000000000").is(t, http.StatusNotFound).has(t, below...)
	open := r.die(4, nil)
	header400 := b.post("/investigations/"+open+"/send", "what", "edit", "payload", typed, "headers", "no colon").is(t, http.StatusBadRequest)
	header400.has(t, kept[0], ">\nno colon</textarea>", "What you typed is still in the form below.", "Send it changed").lacks(t, "readonly")
}
