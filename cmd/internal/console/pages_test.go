package console_test

import (
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestPagesWithEveryScope: who has a scope can press the buttons that need it; for all others they are dashed, and the page
// says why. A form that is sent all the same is refused by the API.
func TestPagesWithEveryScope(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, invalidHeaders)
	r.die(2, invalidHeaders)
	cause := "/causes/" + r.group(entry)
	letter := "/investigations/" + entry
	plan := "/plan?kind=redrive&group=" + r.group(entry)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 'refunds', 'route', now() + interval '1 minute')`)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, payload) overriding system value values (2001, gen_random_uuid(), 'refunds', '{}')`)
	ledgertest.Apply(t, r.pool, ledgertest.Template{Configuration: `{"steps": [{"name": "pack"}]}`})
	task := "/tasks/" + ledgertest.Create(t, r.pool, ledgertest.New{}).String()
	wants := map[string][]access.Scope{ // buttons of pages
		cause: {access.Resolve, access.Redrive, access.ReadPayload}, letter: {access.Resolve, access.Redrive, access.ReadPayload}, plan: nil,
		"/investigations": {access.Redrive, access.Resolve, access.Purge},
		"/":               nil, "/causes": nil, "/operations": nil,
		"/tasks": {access.Resolve}, "/tasks/archive": {access.Resolve}, "/tasks/templates": nil, "/tasks/templates/default/task": nil, "/access": nil, "/consumers": nil, task: {access.Resolve}, "/outbox": {access.Resolve}, "/outbox/1001": {access.Redrive, access.ReadPayload}, "/outbox/2001": {access.Resolve},
	}
	for _, scope := range access.Scopes() {
		b := r.as(scope)
		b.until("/", "<h1>orders: 2 events given up")
		for page, needed := range wants {
			got := b.get(page).is(t, http.StatusOK)
			if csp := got.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") || strings.Contains(csp, "unsafe") {
				t.Errorf("%s: Content-Security-Policy is %q", page, csp)
			}
			if got.header.Get("Cache-Control") != "no-store" || got.header.Get("Referrer-Policy") == "" || got.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: headers %v", page, got.header)
			}
			for _, bad := range []string{" style=", "<style", "javascript:", " onclick=", "<script>"} {
				if strings.Contains(got.text, bad) {
					t.Errorf("%s has %q", page, bad)
				}
			}
			if len(got.text) > 60_000 {
				t.Errorf("%s has %d bytes", page, len(got.text))
			}
			for _, n := range needed {
				may := scope == access.Admin || scope == n || scope == access.Edit && (n == access.Redrive || n == access.ReadPayload)
				reason := `id="why-` + strings.ReplaceAll(string(n), ":", "-") + `"`
				dashed := `aria-describedby="why-` + strings.ReplaceAll(string(n), ":", "-") + `"`
				if strings.Contains(got.text, reason) == may || strings.Contains(got.text, dashed) == may {
					t.Errorf("%s with the scope %s: may %s is %v, and the page says otherwise", page, scope, n, may)
				}
			}
		}
		for form, needed := range map[string]access.Scope{
			cause + "/resolve": access.Resolve, letter + "/send": access.Redrive, letter + "/reveal": access.ReadPayload, cause + "/compare": access.ReadPayload, "/holds/1/release": access.Resolve,
			task + "/cancel": access.Resolve, task + "/steps/0192aaaa-0000-7000-8000-000000000008": access.Resolve, "/outbox/2001/skip": access.Resolve, "/outbox/1001/redrive": access.Redrive, "/outbox/1001/reveal": access.ReadPayload,
		} {
			may := scope == access.Admin || scope == needed || scope == access.Edit && needed != access.Resolve
			if !may {
				b.post(form).is(t, http.StatusForbidden).has(t, string(needed))
			}
		}
	}
	if n := pgtest.Value[int](t, r.pool, `select count(*) from postrider.dlq_entry where resolution_status <> 'pending'`); n != 0 {
		t.Errorf("%d investigations were closed by people who may not", n)
	}
}

// TestFromTheSentenceToResolved walks from the first page to a redrive, by links and forms as a person does, without script.
func TestFromTheSentenceToResolved(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var entries []string
	for n := range 7 {
		entries = append(entries, r.die(n, invalidHeaders))
	}
	group := r.group(entries[0])
	b := r.as(access.Admin)
	b.until("/", "orders: 7 events given up").has(t, "/causes/"+group, "Look at the cause", "Header &#34;priority&#34;")
	b.get("/causes/"+group).is(t, 200).has(t, "Plan a redrive of 7", "/plan?kind=redrive&amp;group="+group, "From fix to resolved", "placed")
	b.post("/causes/"+group+"/change", "what", "take").is(t, http.StatusSeeOther)
	b.get("/causes/"+group).has(t, "It is with you.", "key admin")
	b.get("/plan?kind=redrive&group="+group).is(t, 200).has(t, "all 7 that are open now of the cause", `name="headers"`)
	// What is wrong is told, and nothing that was written is lost.
	refused := b.post("/plan", "kind", "redrive", "group", group, "name", "urgent", "why", "rolled back", "canary", "two", "rate", "20").is(t, http.StatusSeeOther)
	b.get(refused.header.Get("Location")).is(t, 200).has(t, "it must be a number", `value="urgent"`, `value="rolled back"`, `value="two"`)
	made := b.post("/plan", "kind", "redrive", "group", group, "name", "urgent", "why", "rolled back", "canary", "2", "rate", "20", "headers", "priority: 5").is(t, http.StatusSeeOther)
	operation := made.header.Get("Location")
	b.get(operation).is(t, 200).has(t, "urgent is planned: 7 messages. Nothing was done yet.", "Send 2 first, then the other 5 if they arrive", "priority: 5", "rolled back", "2 first, then 20 a second")
	b.post(operation+"/start").is(t, http.StatusSeeOther)
	b.get(operation).has(t, "It is started.", "Halt", "canary")
	b.get("/causes/"+group).has(t, "urgent", "Halt")
	b.post(operation+"/pause", "back", "/causes/"+group).is(t, http.StatusSeeOther)
	b.get("/causes/"+group).has(t, "It is halted.", "Send the 7", "End it…", "7 messages are not sent; their investigations stay as they are.")
	b.post(operation + "/abort")
	b.get(operation).has(t, "was ended")
	b.post("/causes/"+group+"/resolve", "notes", "by hand", "status", "manually_resolved").is(t, http.StatusSeeOther)
	b.get("/causes/"+group).has(t, "7 investigations are closed.", "Resolved")
	who := pgtest.Column[string](t, r.pool, `select distinct actor from postrider.access_audit where action like 'operation.%' or action like 'group.%'`)
	if !slices.Equal(who, []string{"key admin"}) {
		t.Errorf("the audit log says that %v did it", who)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for n := range 30 {
		r.die(n, func(l *dlq.Letter) {
			if n%2 == 0 {
				invalidHeaders(l)
			}
			l.ErrorMessage = strings.Repeat("=", n%3) + l.ErrorMessage
		})
	}
	b := r.as(access.Admin)
	first := b.get("/investigations?resolution_status=pending").is(t, 200).has(t, "30 investigations are open.", "Older", `value="is:open"`)
	if n := strings.Count(first.text, `name="id"`); n != 25 {
		t.Errorf("%d rows on the first page", n)
	}
	to := b.get("/investigations?q=is%3Aopen+code%3AINVALID_HEADERS+priority").is(t, http.StatusSeeOther).header.Get("Location")
	if to != "/investigations?error_code=INVALID_HEADERS&resolution_status=pending&text=priority" {
		t.Errorf("the search leads to %s", to)
	}
	b.get(to).is(t, 200).has(t, "15 investigations are open.", "is:open code:INVALID_HEADERS priority", "error_code=INVALID_HEADERS&amp;format=csv")
	hinted := b.get("/investigations?q=is%3Azzz+is%3Aopen+is%3Aresolved+code%3AINVALID_HEADERS").is(t, http.StatusSeeOther).header.Get("Location")
	b.get(hinted).is(t, 200).has(t, "15 investigations are open.", `value="is:open code:INVALID_HEADERS is:zzz is:resolved"`, "“is:zzz” was left out", "cancelled, failed, open, resolved", "“is:resolved” was left out")
	b.get("/investigations?topic=nowhere").is(t, 200).has(t, "Nothing matches", "Clear the search")
	b.get("/investigations?resolution_status=odd").is(t, http.StatusBadRequest).has(t, "must be one of")
	csv := b.get("/investigations/export?format=csv&resolution_status=pending").is(t, 200)
	if lines := strings.Count(csv.text, "\n"); lines != 31 || !strings.Contains(csv.text, ",'=") {
		t.Errorf("the export has %d lines, or cells that a spreadsheet takes for formulas", lines)
	}
	if json := b.get("/investigations/export?format=json").is(t, 200).text; strings.Count(json, `"dlq_entry_uuid"`) != 30 {
		t.Error("the export as JSON does not have all")
	}
	// The page of an investigation knows the list that it was reached from.
	open := regexp.MustCompile(`href="/investigations/([0-9a-f-]{36})\?([^"]*)"`).FindAllStringSubmatch(b.get(to).text, -1)
	if len(open) < 3 || !strings.Contains(open[0][2], "error_code=INVALID_HEADERS&amp;resolution_status=pending&amp;text=priority") {
		t.Fatalf("the list leads to %v", open)
	}
	address := func(i int) string { return "/investigations/" + open[i][1] + "?" + html.UnescapeString(open[i][2]) }
	b.get(address(1)).is(t, 200).has(t, `rel="prev" href="`+html.EscapeString(address(0))+`"`, `rel="next" href="`+html.EscapeString(address(2))+`"`, `href="?as=json&amp;error_code=INVALID_HEADERS`)
	if strings.Contains(b.get(address(0)).text, `rel="prev"`) {
		t.Error("something comes before the first of the list")
	}
	b.get("/investigations/"+open[0][1]+"?topic=nowhere").is(t, 200)
	b.get("/causes?state=new").is(t, 200).has(t, "cause")
	b.get("/causes?text=priority").is(t, 200).has(t, "priority")
	b.get("/nowhere").is(t, http.StatusNotFound).has(t, "There is nothing here.")
	b.get("/causes/no-uuid").is(t, http.StatusBadRequest).has(t, "must be a uuid")
	b.get("/causes/0192aaaa-0000-7000-8000-000000000008").is(t, http.StatusNotFound).has(t, "There is nothing here.")
	b.get("/investigations/0192aaaa-0000-7000-8000-000000000008").is(t, http.StatusNotFound)
	b.get("/operations/0192aaaa-0000-7000-8000-000000000008").is(t, http.StatusNotFound)
}

func TestALetterIsRevealedToThoseWhoMay(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"dlq.redact_paths": "$.order.n"})
	entry := r.die(1, invalidHeaders)
	page := "/investigations/" + entry
	b := r.as(access.Edit)
	b.get(page).is(t, 200).has(t, "[redacted]", "1 value is hidden", "Show it as it is")
	if n := pgtest.Value[int](t, r.pool, `select count(*) from postrider.access_audit where action like '%reveal%' or action like '%payload%'`); n != 0 {
		t.Errorf("%d looks in the audit log before a person asked", n)
	}
	shown := b.lookAt(page+"/reveal").is(t, 200).has(t, "The audit log has that you looked.", "Change it and send it again")
	if strings.Contains(shown.text, "[redacted]") || !strings.Contains(shown.text, `n&#34;`) {
		t.Error("the payload is still redacted")
	}
	if who := pgtest.Value[string](t, r.pool, `select string_agg(distinct actor, ',') from postrider.access_audit where target_id = $1 or details::text like '%'||$1||'%'`, entry); !strings.Contains(who, "key redrive:edit") {
		t.Errorf("the audit log has %q", who)
	}
	b.post(page+"/send", "what", "edit", "payload", `{"mended": 1}`, "headers", "no colon").is(t, http.StatusBadRequest).has(t, "has no name and colon", "mended", "no colon</textarea>")
	b.post(page+"/send", "what", "edit", "payload", `{"mended": 1}`, "headers", "priority: 5").is(t, http.StatusSeeOther)
	b.get(page).has(t, "It is sent.", "On its way")
	b.post(page+"/send").is(t, http.StatusSeeOther)
	b.get(page).has(t, "It was not sent")
	if sent := pgtest.Value[string](t, r.pool, `select convert_from(payload, 'UTF8') from postrider.outbox_event where id > 1000000 order by id desc limit 1`); sent != `{"mended": 1}` {
		t.Errorf("%s was sent", sent)
	}
}

func TestMergeAndSplit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	one, other := r.die(1, invalidHeaders), r.die(2, nil)
	b := r.as(access.Resolve)
	b.post("/causes/"+r.group(one)+"/merge", "into", "odd").is(t, http.StatusSeeOther)
	b.get("/causes/"+r.group(one)).is(t, 200).has(t, "notice waiting", "Nothing was merged: “odd” names no cause.", "Merge…", "Split…")
	into, from := r.group(other), r.group(one)
	if to := b.post("/causes/"+from+"/merge", "into", r.URL+"/causes/"+into).header.Get("Location"); to != "/causes/"+into || r.group(one) != into {
		t.Errorf("merging leads to %s, and the investigation is in %s", to, r.group(one))
	}
	b.get("/causes/"+into).is(t, 200).has(t, "1 investigation is here now.", "2</b> open")
	b.get("/investigations?group="+into).is(t, 200).has(t, "Move to a cause of its own", "To split it, pick the investigations", `formaction="/causes/`+into+`/split"`)
	if to := b.post("/causes/"+into+"/split", "id", one).header.Get("Location"); to != "/causes/"+from || r.group(one) != from {
		t.Errorf("splitting leads to %s, and the investigation is in %s", to, r.group(one))
	}
	for in, want := range map[string]string{"": "/investigations?group=" + into, "group=" + into + "&order_dir=asc": "/investigations?group=" + into + "&order_dir=asc"} {
		if to := b.post("/causes/"+into+"/split", "in", in).is(t, http.StatusSeeOther).header.Get("Location"); to != want {
			t.Errorf("splitting nothing leads to %s, want %s", to, want)
		}
	}
	b.get("/investigations?group="+into).has(t, "notice waiting", "Nothing is picked.")
}
