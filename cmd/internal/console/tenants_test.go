package console_test

import (
	"bufio"
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/console"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// sentinel is in every text of the source that tenants do not see.
const sentinel = "zzyx"

// stock is what a source has at the desk.
type stock struct{ source, entry, group, operation, event string }

// stockOf writes investigations of a source, and what people do with them.
func (r *rig) stockOf(source, words string, n int) stock {
	r.t.Helper()
	var letters []dlq.Letter
	for i := range 3 {
		record := dlqtest.Event(n+i, 1)
		if source != dlq.MainSource {
			record = dlqtest.From(source, record)
		}
		l := dlq.Decode(record)
		l.OriginTopic, l.ErrorCode, l.ErrorMessage, l.Key, l.Payload = words+".topic", strings.ToUpper(words)+"_CODE", words+" failed", []byte(words+"-key"), []byte(words)
		letters = append(letters, l)
	}
	if _, err := r.services.Store.RecordLetters(r.t.Context(), letters); err != nil {
		r.t.Fatal(err)
	}
	s := stock{source: source, event: letters[0].EventID.String()}
	s.entry = pgtest.Value[string](r.t, r.pool, `select dlq_entry_uuid::text from postrider.dlq_letter where letter_id = $1`, letters[0].ID)
	s.group = r.group(s.entry)
	s.operation = strings.TrimPrefix(r.planned(map[string]any{"kind": "resolve", "name": words + " operation", "reason": words + " reason", "scope": map[string]any{"group": s.group}}), "/operations/")
	r.admin(words, http.MethodPost, "/dlq/"+s.entry+"/comments", map[string]any{"text": words + " comment"})
	r.admin(words, http.MethodPost, "/groups/"+s.group+"/comments", map[string]any{"text": words + " comment"})
	r.admin(words, http.MethodPatch, "/groups/"+s.group, map[string]any{"note": words + " note", "assignee": words + "-ann"})
	r.admin(words, http.MethodPatch, "/dlq/"+s.entry, map[string]any{"notes": words + " note", "assignee": words + "-ann"})
	return s
}

// admin asks the API as a person who may do everything.
func (r *rig) admin(name, method, path string, body any) {
	r.t.Helper()
	actor := access.Actor{Name: name + " admin", KeyID: r.ids[access.Admin], Scopes: []access.Scope{access.Admin}, Sources: access.AllSources()}
	if _, err := r.api.Call(access.WithActor(r.t.Context(), actor), method, path, nil, body); err != nil {
		r.t.Fatal(err)
	}
}

// tenant is a browser of a person who may do everything at some sources.
func (r *rig) tenant(sources ...string) *browser {
	r.t.Helper()
	made := access.WithActor(r.t.Context(), access.Actor{Name: "test"})
	_, token, err := r.services.Access.Create(made, access.NewKey{Name: "tenant", Scopes: []access.Scope{access.Admin}, Sources: append(access.Sources{}, sources...)})
	if err != nil {
		r.t.Fatal(err)
	}
	b := r.browser()
	b.post("/login", "key", token).is(r.t, http.StatusSeeOther)
	return b
}

// fill replaces the parts of a path, and returns the parameters that name something of the stock.
func (s stock) fill(p console.Page) (path string, queries []string) {
	id := map[string]string{"causes": s.group, "investigations": s.entry, "operations": s.operation, "outbox": "1001"}[strings.Split(p.Path, "/")[1]]
	if id == "" {
		id = uuid.Nil.String()
	}
	path = strings.NewReplacer("{id}", id, "{name}", s.source, "{command}", "start", "{comment}", "1", "{step}", uuid.Nil.String(), "{namespace}", "x").Replace(p.Path)
	queries = []string{""}
	for _, name := range p.Takes {
		if value := map[string]string{"source": s.source, "group": s.group, "event_id": s.event, "in": "group:" + s.group, "id": s.entry, "q": "source:" + s.source, "format": "csv", "subject_id": s.source + "/" + s.event}[name]; value != "" {
			queries = append(queries, "?"+name+"="+value)
		}
	}
	return path, queries
}

var odd = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+|[0-9]{2}:[0-9]{2}(:[0-9]{2})?|[A-Z2-7]{26}|[0-9]+ (milli)?seconds?`)

// TestTenantsSeeNoPageOfAnother shows each page and sends each form, to a person of one source, about another source and about what
// does not exist. No name, id or text of the other source is shown, and nothing of it changes. A page that is added is walked by
// itself.
func TestTenantsSeeNoPageOfAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	own, mains, theirs := r.stockOf("orders", "ours", 100), r.stockOf(dlq.MainSource, "mains", 200), r.stockOf(sentinel+"-source", sentinel, 300)
	r.planned(map[string]any{"kind": "resolve", "name": sentinel + " of two", "scope": map[string]any{"ids": []string{own.entry, theirs.entry}}})
	r.planned(map[string]any{"kind": "resolve", "name": sentinel + " of all", "scope": map[string]any{"filter": map[string]any{"topic": "ours.topic"}}})
	nothing := stock{"nowhere", uuid.NewString(), uuid.NewString(), uuid.NewString(), uuid.NewString()}
	state := func() string {
		return pgtest.Value[string](t, r.pool, `select concat((select string_agg(e::text, ' ' order by e) from postrider.dlq_entry e where source = $1),
			(select string_agg(g::text, ' ' order by g) from postrider.dlq_group g where source = $1), (select string_agg(o::text, ' ' order by o) from postrider.dlq_operation o where sources && array[$1, '*']),
			(select count(*) from postrider.dlq_comment), (select count(*) from postrider.dlq_command), (select count(*) from postrider.dlq_redrive))`, theirs.source)
	}
	before := state()
	clean := func(who, path string, g got, about stock) string {
		t.Helper()
		text := g.text + g.header.Get("Location")
		for _, said := range []string{about.source, about.entry, about.group, about.operation, about.event} {
			text = strings.ReplaceAll(text, said, "SAID")
		}
		for _, id := range []string{sentinel, theirs.entry, theirs.group, theirs.operation, theirs.event} {
			if at := strings.Index(strings.ToLower(text), id); at >= 0 {
				t.Errorf("%s: %s shows %s of another source (%d): …%s…", who, path, id, g.status, text[max(0, at-200):min(len(text), at+200)])
			}
		}
		return odd.ReplaceAllString(text, "")
	}
	for who, c := range map[string]struct {
		browser *browser
		own     stock
	}{"orders": {r.tenant("orders"), own}, "main": {r.tenant(dlq.MainSource), mains}, "none": {r.tenant(), nothing}} {
		shown := 0
		for _, p := range console.Pages() {
			path, queries := theirs.fill(p)
			none, same := nothing.fill(p)
			once := strings.HasSuffix(path, "/reveal") || strings.HasSuffix(path, "/compare") // shown once, after its form was sent
			if p.Method == http.MethodPost {
				form := []string{"text", "x", "note", "x", "notes", "x", "status", "cancelled", "ids", theirs.entry, "id", theirs.entry, "in", "group:" + theirs.group, "kind", "resolve", "name", "n", "into", theirs.group, "assignee", "x", "muted", "true"}
				to := c.browser.post(path, form...)
				clean(who, "POST "+path, to, theirs)
				if to.status == http.StatusSeeOther { // the next page says what became of it
					clean(who, "POST "+path, c.browser.get("/access"), theirs)
				}
				continue
			}
			for i := range queries {
				got := c.browser.get(path + queries[i])
				one := clean(who, path+queries[i], got, theirs)
				if other := c.browser.get(none + same[i]); strings.Contains(p.Path, "{") && !once && (other.status != got.status || clean(who, none, other, nothing) != one) {
					t.Errorf("%s: %s is answered with %d, and what does not exist with %d", who, path+queries[i], got.status, other.status)
				}
			}
			mine, _ := c.own.fill(p)
			if got := c.browser.get(mine); got.status == http.StatusOK {
				shown++
				clean(who, mine, got, c.own)
			} else if who == "orders" && got.status == http.StatusForbidden && (strings.HasPrefix(mine, "/causes") || strings.HasPrefix(mine, "/investigations")) && !strings.HasSuffix(mine, "/compare") {
				t.Errorf("%s: %s of its own: %d %s", who, mine, got.status, excerpt(got.text))
			}
		}
		if want := map[string]int{"orders": 10, "main": 14, "none": 7}[who]; shown < want {
			t.Errorf("%s: %d pages are shown, not %d", who, shown, want)
		}
	}
	if after := state(); after != before {
		t.Errorf("what another source has changed:\n%s\nbecame\n%s", before, after)
	}
	menu := r.tenant("orders").get("/causes").is(t, http.StatusOK).has(t, "Ours failed", `aria-disabled="true" title="`, "needs the source main")
	if strings.Contains(menu.text, `href="/outbox"`) || strings.Contains(menu.text, `href="/doctor"`) {
		t.Error("the menu leads to pages that the person's sources do not suffice for")
	}
	r.tenant("orders").get("/access").has(t, "<code>orders</code>", "Nothing of another source")
}

// TestLiveOfTenants: what happens at another source changes the mark of no stream of a tenant, and what happens at its own does.
func TestLiveOfTenants(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.stockOf("orders", "ours", 100)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	marks := func(b *browser) func() string {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/console/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := b.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		lines := bufio.NewScanner(resp.Body)
		return func() string {
			for lines.Scan() {
				if mark, is := strings.CutPrefix(lines.Text(), "data: "); is && mark != "0" {
					return mark
				}
			}
			t.Fatal(lines.Err())
			return ""
		}
	}
	all, tenant := marks(r.as(access.Admin)), marks(r.tenant("orders"))
	changed := func(next func() string, from string) string {
		for {
			if now := next(); now != from {
				return now
			}
		}
	}
	wide, own := all(), tenant()
	r.stockOf("billing", sentinel, 300)
	changed(all, wide)
	for range 3 {
		if now := tenant(); now != own {
			t.Fatalf("the mark of a tenant became %s, from %s, by what happened at another source", now, own)
		}
	}
	r.stockOf("orders", "more", 400)
	changed(tenant, own)
}

// TestGroupsBindToSources: a group of a provider or a proxy gives its scopes at its sources alone, and a session ends with another
// binding.
func TestGroupsBindToSources(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"http.trusted_proxies": "127.0.0.1", "console.proxy_user_header": "X-Forwarded-User", "console.proxy_groups_header": "X-Forwarded-Groups",
		"console.group_scopes": "orders-team=read@orders,sre=read"})
	own, theirs := r.stockOf("orders", "ours", 100), r.stockOf("billing", sentinel, 300)
	b := r.browser()
	as := []string{"X-Forwarded-User", "ann", "X-Forwarded-Groups", "orders-team"}
	b.do(http.MethodPost, "/login/proxy", map[string][]string{}, as...).is(t, http.StatusSeeOther)
	b.get("/investigations/"+own.entry, as...).is(t, http.StatusOK)
	b.get("/investigations/"+theirs.entry, as...).is(t, http.StatusNotFound)
	if got := b.get("/access", "X-Forwarded-User", "ann", "X-Forwarded-Groups", "sre"); got.status == http.StatusOK {
		t.Error("a session goes on with other sources")
	}
}
