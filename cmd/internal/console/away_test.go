package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
)

// TestTheDatabaseIsAway: the first page shows the last figures to a person who was known a moment ago, nothing can be
// changed, and all of it comes back by itself.
func TestTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	var proxy *pgproxy.Proxy
	r := newRigBehind(t, nil, func(url string) string {
		proxy = pgproxy.Start(t, url)
		return proxy.URL()
	})
	r.die(1, invalidHeaders)
	b := r.as(access.Admin)
	b.until("/", "orders: 1 event given up")
	proxy.Down()
	time.Sleep(access.Remembered)
	began := time.Now()
	away := b.until("/", "The database has been away")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the page says it after %v", took)
	}
	away.has(t, "orders: 1 event given up", "these are the figures of", "Events are safe", "Not live")
	if away.header.Get("Refresh") == "" {
		t.Error("without script the page does not come back by itself")
	}
	b.get("/causes").is(t, http.StatusServiceUnavailable).has(t, "The database does not answer")
	b.post("/holds/1/release").is(t, http.StatusServiceUnavailable).has(t, "Nothing was changed")
	b.post("/investigations/"+uuid.NewString()+"/send", "what", "edit", "payload", "<typed>").is(t, http.StatusServiceUnavailable).has(t, "What you typed", "readonly", ">\n&lt;typed&gt;</textarea>")
	r.browser().post("/login", "key", r.keys[access.Read]).is(t, http.StatusServiceUnavailable).has(t, "no sign-in is possible now")
	stranger := r.browser().get("/")
	if strings.Contains(stranger.text, "orders") {
		t.Error("a stranger is shown figures while the database is away")
	}
	proxy.Up()
	back := b.until("/", `<main id="main">`)
	back.is(t, http.StatusOK).has(t, "orders: 1 event given up")
	if back.header.Get("Refresh") != "" {
		t.Error("the page still loads itself again")
	}
}
