package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/console"
)

// listening is an API that notes which paths it is asked for.
type listening struct {
	console.API
	mu    sync.Mutex
	asked []string
}

func (l *listening) Call(ctx context.Context, method, path string, query url.Values, body any) (any, error) {
	l.mu.Lock()
	l.asked = append(l.asked, path)
	l.mu.Unlock()
	return l.API.Call(ctx, method, path, query, body)
}

// TestPagesAskForWhatTheyShow: the form of a plan, and a list of a cause, read the cause alone, without what takes many queries;
// the tasks count investigations, and list none. A cause lists its operations, and reads no plan alone, for which the brokers are
// asked.
func TestPagesAskForWhatTheyShow(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	group := r.group(r.die(1, nil))
	b := r.as(access.Admin)
	b.post("/plan", "kind", "redrive", "group", group, "name", "planned", "why", "it is mended").is(t, http.StatusSeeOther)
	token := b.token()
	for page, unread := range map[string]string{"/plan?kind=redrive&group=" + group: "/groups/", "/investigations?group=" + group: "/groups/", "/tasks": "/dlq", "/causes/" + group: "/operations/"} {
		api := &listening{API: r.api}
		pages, err := console.New(console.Config{API: api, Sessions: access.Recently{Store: r.services.Access}, Outbox: r.services.Outbox.Store(), Investigations: r.services.Investigations})
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(http.MethodGet, "http://localhost"+page, nil)
		req.AddCookie(&http.Cookie{Name: "postrider_session", Value: token})
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, req)
		if body := w.Body.String(); strings.HasPrefix(page, "/causes/") && !(strings.Contains(body, "planned it") && strings.Contains(body, "it is mended")) {
			t.Errorf("%s does not say who planned it, and why", page)
		}
		if w.Code != http.StatusOK || slices.ContainsFunc(api.asked, func(path string) bool { return strings.HasPrefix(path, unread) }) {
			t.Errorf("%s: %d, it asks for %q", page, w.Code, api.asked)
		}
	}
}
