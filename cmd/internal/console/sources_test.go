package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/config"
)

func TestSources(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	admin := r.as(access.Admin)
	calm := admin.get("/sources").is(t, http.StatusOK).has(t, "The settings name no source.", "There is no source.")
	if strings.Contains(calm.text, `<a href="/sources"`) {
		t.Error("the menu has the page although the settings name no source")
	}
	burning := newRig(t, nil)
	burning.cluster.burn()
	admin = burning.as(access.Admin)
	page := admin.get("/sources").is(t, http.StatusOK).has(t, "5 sources: billing cannot be reached; 3 others need a look.", "Start its database", "connection refused &lt;b&gt;", `id="say" data-live><svg class="mark failing`)
	at := -1
	for _, name := range []string{"billing", "refunds", "inventory", "search", "orders"} { // failing, held, not led, late, fine
		next := strings.Index(page.text, `href="/sources/`+name+`"`)
		if next <= at {
			t.Errorf("%s is not in its place, the worst first", name)
		}
		at = next
	}
	admin.get("/sources/billing").is(t, http.StatusOK).has(t, "billing cannot be reached.", "<code><bdi>away</bdi></code>", "connection refused &lt;b&gt;", "Not known while it cannot be carried.", "billing.yaml:1")
	admin.get("/sources/refunds").is(t, http.StatusOK).has(t, "refunds has 1,204 events behind holds.", "relay-0:7:33cdad08", "<dt>Given up, kept</dt><dd>3</dd>")
	admin.get("/sources/inventory").is(t, http.StatusOK).has(t, "inventory has no leader, and 14 events wait there.", "Led last by")
	admin.get("/sources/search").is(t, http.StatusOK).has(t, "search is late: 7 events wait, the oldest for 75 s.")
	admin.get("/sources/orders").is(t, http.StatusOK).has(t, "orders has a leader, and no event is late.")
	admin.get("/sources/none").is(t, http.StatusNotFound).has(t, "The settings name no source &#34;none&#34;.")
	for _, scope := range access.Scopes() {
		for _, path := range []string{"/sources", "/sources/billing"} {
			if got := burning.as(scope).get(path); scope == access.Admin {
				got.is(t, http.StatusOK)
			} else {
				got.is(t, http.StatusForbidden).has(t, "This page needs the scope admin")
			}
		}
	}

	many := newRig(t, nil)
	for n := range 120 {
		many.cluster.dbs = append(many.cluster.dbs, source(fmt.Sprintf("source-%03d", n), nil))
	}
	admin = many.as(access.Admin)
	whole := admin.get("/sources").is(t, http.StatusOK).has(t, "120 sources: each has a leader, and no event is late.", "More sources", `id="say" data-live><svg class="mark fine`)
	if n := strings.Count(whole.text, `<tr role="row" data-row`); n != 50 {
		t.Errorf("%d rows", n)
	}
	admin.get("/sources?from=100").is(t, http.StatusOK).has(t, "source-119", "First page")
}

// TestSourcesMenu: where the settings name sources, the menu has the page for people who may see it; a process that does not look at
// sources says so.
func TestSourcesMenu(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c, err := config.Load(config.From{})
	if err != nil {
		t.Fatal(err)
	}
	c.SourcesDir = "sources"
	r.services.Sources = nil
	api, err := r.services.API(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := r.services.Console(c, api, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	show := func(scope access.Scope, path string) (int, string) {
		req := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		req.AddCookie(&http.Cookie{Name: "postrider_session", Value: r.as(scope).token()})
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, req)
		return w.Code, w.Body.String()
	}
	for _, scope := range []access.Scope{access.Read, access.Admin} {
		if _, body := show(scope, "/access"); strings.Contains(body, `<a href="/sources"`) != (scope == access.Admin) {
			t.Errorf("with the scope %s the menu has the sources: %v", scope, scope != access.Admin)
		}
	}
	if code, body := show(access.Admin, "/sources"); code != http.StatusServiceUnavailable || !strings.Contains(body, "This process does not look at sources; ask postrider serve, or run postrider sources.") {
		t.Errorf("%d: %s", code, excerpt(body))
	}
}

// TestOneSource: the sentence about a single source names it.
func TestOneSource(t *testing.T) {
	t.Parallel()
	for want, one := range map[string]api.Source{"1 source: orders has a leader, and no event is late.": source("orders", nil),
		"1 source: orders cannot be carried.":                      {Name: "orders", Reason: new("odd"), Error: new("odd")},
		"1 source: orders has no leader, and 3 events wait there.": source("orders", func(s *api.Source) { s.Led, s.Pending, s.Parked = false, 2, 1 }),
		"1 source: orders has 1 event behind holds.":               source("orders", func(s *api.Source) { s.Parked = 1 })} {
		r := newRig(t, nil)
		r.cluster.dbs = []api.Source{one}
		r.as(access.Admin).get("/sources").is(t, http.StatusOK).has(t, want)
	}
}

// TestSourcesChangeByThemselves: an open page shows that a source is back, without being loaded again.
func TestSourcesChangeByThemselves(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.cluster.burn()
	b := r.tab(t, access.Admin)
	b.do(chromedp.Navigate(r.URL + "/sources"))
	b.until("document.querySelector('h1')?.textContent.startsWith('5 sources: billing cannot be reached')")
	r.cluster.mu.Lock()
	r.cluster.dbs = []api.Source{source("billing", nil)}
	r.cluster.mu.Unlock()
	b.until("document.querySelector('h1').textContent === '1 source: billing has a leader, and no event is late.' && document.querySelectorAll('tr[data-row]').length === 1")
}
