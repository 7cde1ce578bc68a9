package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/console"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

var (
	postForm  = regexp.MustCompile(`(?s)<form[^>]*method="post"[^>]*action="([^"]+)"[^>]*>(.*?)</form>`)
	planLink  = regexp.MustCompile(`href="(/plan\?[^"]+)"`)
	planGroup = regexp.MustCompile(`[?&]group=([0-9a-f-]{36})`)
	planKind  = regexp.MustCompile(`<button[^>]*name="kind" value="([a-z]+)"`)
	formInput = regexp.MustCompile(`<(?:input|textarea|button)[^>]*name="([^"]+)"[^>]*`)
	formValue = regexp.MustCompile(` value="([^"]*)"`)
)

// TestNoButtonIsRefused presses every button of every page with every scope: none is refused because a scope is missing, and each
// link to a plan leads to one that can be made.
func TestNoButtonIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, invalidHeaders)
	for n := range 20 {
		r.die(2+n, invalidHeaders)
	}
	other := r.die(40, nil)
	task := dlqtest.Letters(dlqtest.Task(7, 1))[0]
	if _, err := r.services.Store.RecordLetters(t.Context(), []dlq.Letter{task}); err != nil {
		t.Fatal(err)
	}
	of := pgtest.Value[string](t, r.pool, `select dlq_entry_uuid::text from postrider.dlq_entry where subject_type = 'task'`)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 'refunds', 'route', now() + interval '1 minute')`)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, payload) overriding system value values (2001, gen_random_uuid(), 'refunds', '{}')`)
	ledgertest.Apply(t, r.pool, ledgertest.Template{Configuration: `{"steps": [{"name": "pack"}]}`})
	made := "/tasks/" + ledgertest.Create(t, r.pool, ledgertest.New{}).String()
	admin := r.as(access.Admin)
	operations := map[string]string{}
	for _, kind := range []string{"redrive", "resolve", "purge"} {
		operations[kind] = admin.post("/plan", "kind", kind, "group", r.group(other), "name", kind).is(t, http.StatusSeeOther).header.Get("Location")
	}
	pages := []string{"/", "/causes", "/causes/" + r.group(entry), "/causes/" + r.group(other), "/causes/" + r.group(of), "/investigations", "/investigations?resolution_status=pending&topic=orders", "/investigations?group=" + r.group(entry),
		"/investigations/" + entry, "/investigations/" + of, "/operations", operations["redrive"], operations["resolve"], operations["purge"], "/outbox", "/outbox/1001", "/outbox/2001", "/tasks", made, "/access", "/plan?kind=redrive&group=" + r.group(entry), "/plan?kind=resolve&id=" + entry, "/plan?kind=purge&id=" + entry}
	pressed := map[access.Scope]int{}
	for _, scope := range access.Scopes() { // admin, which changes most, is the last
		b := r.as(scope)
		var forms []string // read before anything is pressed: what is done changes what is offered
		for _, page := range pages {
			text := b.get(page).is(t, http.StatusOK).text
			for _, form := range postForm.FindAllStringSubmatch(text, -1) {
				if !strings.Contains(form[2], "<button") {
					continue // a dashed one stands in its place
				}
				values := url.Values{}
				for _, input := range formInput.FindAllStringSubmatch(form[2], -1) {
					if value := formValue.FindStringSubmatch(input[0]); value != nil {
						values.Set(input[1], html.UnescapeString(value[1]))
					}
				}
				if found := html.UnescapeString(form[1]) + " " + values.Encode(); form[1] != "/logout" && !strings.HasPrefix(form[1], "/access/") && !slices.Contains(forms, found) {
					forms = append(forms, found)
				}
			}
			var plans []string
			for _, link := range planLink.FindAllStringSubmatch(text, -1) {
				plans = append(plans, html.UnescapeString(link[1]))
			}
			for _, kind := range planKind.FindAllStringSubmatch(text, -1) { // of one that no scope before has closed
				for _, open := range pgtest.Column[string](t, r.pool, `select dlq_entry_uuid::text from postrider.dlq_entry where subject_type = 'event' and resolution_status = 'pending' limit 1`) {
					plans = append(plans, "/plan?kind="+kind[1]+"&id="+open)
				}
			}
			for _, to := range plans {
				// The figures of the first page may be older than what the scope before has closed.
				group := planGroup.FindStringSubmatch(to)
				if page == "/" && group != nil && pgtest.Value[bool](t, r.pool, `select pending = 0 from postrider.dlq_group where dlq_group_uuid::text = '`+group[1]+`'`) {
					continue
				}
				if got := b.get(to); got.status == http.StatusOK && !strings.Contains(got.text, `<form class="plan"`) {
					t.Errorf("with %s, %s leads to %s, which cannot be made", scope, page, to)
				}
			}
		}
		for _, form := range forms {
			path, body, _ := strings.Cut(form, " ")
			values, err := url.ParseQuery(body)
			if err != nil {
				t.Fatal(err)
			}
			pressed[scope]++
			got := b.do(http.MethodPost, path, values)
			if to := got.header.Get("Location"); got.status == http.StatusSeeOther {
				got = b.get(to)
			}
			if _, notice, _ := strings.Cut(got.text, `class="notice`); got.status == http.StatusForbidden || strings.Contains(notice[:min(len(notice), 1000)], "needs the scope") {
				t.Errorf("with %s the form %s is refused: %d %s", scope, form, got.status, excerpt(notice)[:min(len(notice), 400)])
			}
		}
	}
	if pressed[access.Read] > 0 || pressed[access.Resolve] < 5 || pressed[access.Redrive] < 3 || pressed[access.Admin] < 10 {
		t.Errorf("pressed were %v", pressed)
	}
	column := func(name string) []string {
		return pgtest.Column[string](t, r.pool, `select distinct `+name+` from postrider.access_audit`)
	}
	if said := console.Unworded(column("action"), column("target_type")); len(said) > 0 {
		t.Errorf("the page of the audit log has no words for %v", said)
	}
}
