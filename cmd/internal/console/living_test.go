package console_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/console"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestAnOpenPageIsNoUse: what an open page asks for by itself does not keep its session from ending; a page that its person
// opens does.
func TestAnOpenPageIsNoUse(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Read)
	b.until("/", "<h1>")
	age := func() {
		pgtest.Exec(t, r.pool, `update postrider.access_session set last_used_at = now() - interval '1 hour'`)
		time.Sleep(access.Remembered)
	}
	used := func() bool {
		return pgtest.Value[bool](t, r.pool, `select last_used_at > now() - interval '30 minutes' from postrider.access_session`)
	}
	age()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL+"/console/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for began := time.Now(); time.Since(began) < access.Remembered+time.Second && lines.Scan(); {
	}
	b.get("/", "X-Fragment", "1").is(t, http.StatusOK)
	if used() {
		t.Error("an open page keeps its session")
	}
	b.get("/").is(t, http.StatusOK)
	if !used() {
		t.Error("a page that a person opens does not count as use")
	}
}

// TestPagesWithSmallLists: the API may be set to give small pages; the console asks for no larger ones.
func TestPagesWithSmallLists(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"dlq.page_size_max": "7", "dlq.page_size_default": "7"})
	entry := ""
	for n := range 10 {
		entry = r.die(n+1, invalidHeaders)
	}
	task, _ := r.shipping()
	b := r.as(access.Admin)
	b.until("/", "orders: 10 events given up")
	for _, page := range []string{"/", "/causes", "/causes/" + r.group(entry), "/investigations", "/investigations/" + entry, "/operations", "/outbox", "/outbox/1001", "/tasks", "/tasks/" + task, "/tasks/archive", "/audit"} {
		b.get(page).is(t, http.StatusOK)
	}
	if n := strings.Count(b.get("/investigations/export?format=json").is(t, http.StatusOK).text, `"dlq_entry_uuid"`); n != 10 {
		t.Errorf("the export has %d rows", n)
	}
}

// TestNoticesAreReadByPeople: what a form has done is told by the next page that a person sees, and neither by what an open
// page asks for nor by a redirect.
func TestNoticesAreReadByPeople(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	cause := "/causes/" + r.group(r.die(1, nil))
	b := r.as(access.Resolve)
	b.post(cause+"/change", "what", "take").is(t, http.StatusSeeOther)
	b.get(cause, "X-Fragment", "1").is(t, http.StatusOK)
	b.get("/investigations?q=is:open").is(t, http.StatusSeeOther)
	b.get("/investigations/export?format=csv").is(t, http.StatusOK)
	b.get(cause).is(t, http.StatusOK).has(t, "It is with you.")
	if strings.Contains(b.get(cause).text, "It is with you.") {
		t.Error("a notice is shown twice")
	}
}

// absent is an API that cannot do what it is asked for.
type absent struct{ err *httpapi.Error }

func (a absent) Call(context.Context, string, string, url.Values, any) (any, error) {
	return nil, a.err
}

// TestWhatDoesNotAnswer: a page names the database only when it is the database that does not answer.
func TestWhatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	token := r.as(access.Read).token()
	for name, c := range map[string]struct {
		err  *httpapi.Error
		want string
	}{
		"the brokers":  {&httpapi.Error{Code: httpapi.Unavailable, Message: "this server has no brokers to ask"}, "<h1 class=\"long\">This is not possible now.</h1>"},
		"the database": {&httpapi.Error{Code: httpapi.Unavailable, Message: "the database is away", Database: true}, "<h1 class=\"long\">The database does not answer.</h1>"},
	} {
		pages, err := console.New(console.Config{API: absent{c.err}, Sessions: access.Recently{Store: r.services.Access}, Outbox: r.services.Outbox.Store(), Investigations: r.services.Investigations})
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(http.MethodGet, "http://localhost/causes", nil)
		req.AddCookie(&http.Cookie{Name: "postrider_session", Value: token})
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, req)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d\n%s", name, w.Code, excerpt(w.Body.String()))
		}
	}
}
