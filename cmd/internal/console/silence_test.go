package console_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
)

// TestTheDatabaseIsSilent: a database that is stopped closes nothing and answers nothing. Pages say so instead of waiting for
// it, an open page is not live any more, and all of it comes back by itself.
func TestTheDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	var proxy *pgproxy.Proxy
	r := newRigBehind(t, nil, func(url string) string {
		proxy = pgproxy.Start(t, url)
		return proxy.URL()
	})
	t.Cleanup(proxy.Thaw)
	cause := r.group(r.die(1, invalidHeaders))
	b := r.as(access.Admin)
	b.until("/", "orders: 1 event given up")
	tab := r.tab(t, access.Admin)
	tab.do(chromedp.Navigate(r.URL + "/"))
	tab.until("document.querySelector('#live .live').textContent.startsWith('Live, as of ')")
	b.Timeout = time.Minute // without a limit none of these is answered while the database is stopped
	proxy.Freeze()
	tab.until("document.querySelector('#live .live').textContent === 'Not live' && document.body.innerText.includes('these are the figures of')")
	b.get("/").is(t, http.StatusOK).has(t, "The database has been away for", "orders: 1 event given up", "Not live")
	b.get("/causes").is(t, http.StatusServiceUnavailable).has(t, "The database does not answer")
	b.get("/audit").is(t, http.StatusServiceUnavailable).has(t, "The database does not answer")
	b.post("/holds/1/release").is(t, http.StatusServiceUnavailable).has(t, "Nothing was changed")
	proxy.Thaw()
	b.until("/", `<main id="main">`).has(t, "orders: 1 event given up")
	tab.until("document.querySelector('#live .live').textContent.startsWith('Live, as of ')")

	// A page with a text that is not sent yet is marked, and stays.
	tab.do(chromedp.Navigate(r.URL + "/causes/" + cause))
	tab.until("document.querySelector('#live .live').textContent.startsWith('Live, as of ')")
	tab.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('#comment').value = 'half a sentence'"))
	proxy.Freeze()
	tab.until("document.querySelector('#live .live').textContent === 'Not live'")
	proxy.Thaw()
	tab.until("document.querySelector('#live .live').textContent.startsWith('Live, as of ')")
	if text := evaluate[string](tab, "document.querySelector('#comment').value"); text != "half a sentence" {
		t.Errorf("the comment is %q", text)
	}
}

// TestTheDatabaseIsBusy: where requests use all connections, the database is not silent. An open page hears no such thing, and
// a form waits for its turn.
func TestTheDatabaseIsBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	page := "/investigations/" + r.die(1, nil)
	b := r.as(access.Admin)
	b.until("/", "orders: 1 event given up")
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
	hear := func() string {
		t.Helper()
		for lines.Scan() {
			if event, is := strings.CutPrefix(lines.Text(), "event: "); is {
				return event
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return ""
	}
	hear()
	var taken []*pgxpool.Conn
	for range r.served.Config().MaxConns {
		conn, err := r.served.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, conn)
	}
	posted := make(chan got, 1)
	go func() { posted <- b.post(page+"/comments", "text", "in its turn") }()
	for n := range 6 { // one in 2 seconds: longer than a ping, a session and a look may take
		if event := hear(); event != "figures" {
			t.Errorf("event %d is %q", n, event)
		}
	}
	for _, conn := range taken {
		conn.Release()
	}
	(<-posted).is(t, http.StatusSeeOther)
	b.get(page).is(t, http.StatusOK).has(t, "in its turn")
}

// TestTheStreamIsSilent: a server or a network that says nothing, and closes nothing, is no live page.
func TestTheStreamIsSilent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.die(1, nil)
	r.as(access.Admin).until("/", "orders: 1 event given up")
	r.silentStreams.Store(true)
	b := r.tab(t, access.Admin)
	b.do(chromedp.Navigate(r.URL + "/"))
	b.until("document.querySelector('#live .live').textContent.startsWith('Live, as of ')")
	b.until("document.querySelector('#live .live').textContent === 'Not live'")
	r.silentStreams.Store(false)
	r.CloseClientConnections()
	b.until("document.querySelector('#live .live').textContent.startsWith('Live, as of ')")
}
