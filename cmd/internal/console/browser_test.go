package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	browserlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// shotsIn is the variable that names a folder for pictures of all pages; without it none are kept.
const shotsIn = "POSTRIDER_CONSOLE_SHOTS"

// tab is a page of a headless browser, which keeps what the browser complains about.
type tab struct {
	*rig
	ctx context.Context

	mu   sync.Mutex
	said []string
}

func (r *rig) tab(t *testing.T, scope access.Scope) *tab {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		logtest.NotTested(t, "there is no Chromium: apt-get install chromium, or scripts/setup.sh browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, shut := chromedp.NewContext(ctx)
	t.Cleanup(shut)
	b := &tab{rig: r, ctx: ctx}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil { // the tab lives as long as the context of its first step
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	call(b, browserlog.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	signedIn := r.as(scope)
	at, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range signedIn.Jar.Cookies(at) {
		call(b, network.SetCookie, network.SetCookieParams{Name: c.Name, Value: c.Value, URL: r.URL})
	}
	return b
}

func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if v, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression)); err == nil && v { // a page that is loading has no answer
			return
		}
	}
	b.t.Fatalf("never: %s, on %s:\n%s", expression, evaluate[string](b, "location.href"), evaluate[string](b, "document.querySelector('main').innerText"))
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *browserlog.EventEntryAdded:
		b.said = append(b.said, fmt.Sprint(e.Entry.Level, ": ", e.Entry.Text, " ", e.Entry.URL))
	case *runtime.EventExceptionThrown:
		b.said = append(b.said, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.said = append(b.said, "console: "+fmt.Sprint(e.Type))
	}
}

// complaints are what the browser said since the last call.
func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.said
	b.said = nil
	return said
}

func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.do(chromedp.EmulateViewport(width, 900))
}

func (b *tab) shoot(name string) {
	b.t.Helper()
	folder := os.Getenv(shotsIn)
	if folder == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// TestPagesInABrowser opens each page at three widths in both schemes: the browser complains about nothing, and nothing is
// wider than the window.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.tab(t, access.Admin)
	calm := map[string]string{"now-calm": "/", "operations-none": "/operations", "investigations-none": "/investigations", "outbox-none": "/outbox", "tasks-none": "/tasks", "archive-none": "/tasks/archive", "audit": "/audit", "access": "/access"}
	pictures := func(pages map[string]string) {
		for name, page := range pages {
			for _, width := range []int64{1280, 768, 320} {
				for _, scheme := range []string{"light", "dark"} {
					b.look(width, scheme)
					b.do(chromedp.Navigate(r.URL + page))
					b.until("document.querySelector('h1') !== null && document.readyState === 'complete'")
					if wide := evaluate[int](b, "document.scrollingElement.scrollWidth - innerWidth"); wide > 0 {
						t.Errorf("%s at %d is %d pixels too wide: %s", name, width, wide, evaluate[string](b, widest))
					}
					if said := b.complaints(); len(said) > 0 {
						t.Errorf("%s: the browser says %q", name, said)
					}
					b.shoot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
				}
			}
		}
	}
	r.as(access.Admin).until("/", "<h1>")
	pictures(calm)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_hold (scope, topic, code, cause, next_probe_at) values ('failure', 'orders', 'INVALID_HEADERS', 'circuit_breaker', now() + interval '1 minute')`)
	var entry string
	for n := range 30 {
		change := invalidHeaders
		if n%3 == 0 {
			change = nil
		}
		entry = r.die(n+1, change)
	}
	group := r.group(entry)
	admin := r.as(access.Admin)
	operation := admin.post("/plan", "kind", "redrive", "group", group, "name", "urgent orders", "why", "rolled back", "canary", "2", "rate", "20", "headers", "priority: 5").header.Get("Location")
	admin.post(operation+"/start").is(t, http.StatusSeeOther)
	admin.until("/", "events given up")
	task, step := r.shipping()
	pictures(map[string]string{"now": "/", "causes": "/causes", "cause": "/causes/" + group, "investigations": "/investigations?resolution_status=pending", "letter": "/investigations/" + entry + "?as=hex",
		"plan": "/plan?kind=redrive&group=" + group, "purge": "/plan?kind=purge&all=true", "operations": "/operations", "operation": operation, "outbox": "/outbox", "outbox-none-match": "/outbox?topic=nowhere", "event": "/outbox/1030",
		"tasks": "/tasks", "task": "/tasks/" + task, "task-step": "/tasks/" + task + "?step=" + step})
	b.do(chromedp.Navigate(r.URL + "/login?link=odd"))
	b.shoot("login-refused")
	for _, said := range b.complaints() { // a status of 401 is an error for the browser
		if !strings.Contains(said, "401") {
			t.Errorf("login: the browser says %q", said)
		}
	}
}

// widest names the element that reaches furthest to the right.
const widest = `(() => { let w = 0, at = ""; for (const e of document.querySelectorAll("main *")) { const r = e.getBoundingClientRect().right; if (r > w) { w = r; at = e.tagName + "." + e.className + " " + e.textContent.slice(0, 40); } } return at; })()`

// TestTheWalkByClicks goes from the page to resolved as a person does who never saw it, and counts the clicks.
func TestTheWalkByClicks(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var entry string
	for n := range 4 {
		entry = r.die(n+1, invalidHeaders)
	}
	b := r.tab(t, access.Admin)
	b.look(1280, "light")
	r.as(access.Admin).until("/", "orders: 4 events given up")
	b.do(chromedp.Navigate(r.URL + "/"))
	clicks := 0
	click := func(selector, then string) {
		t.Helper()
		clicks++
		b.do(chromedp.Click(selector), chromedp.Sleep(100*time.Millisecond))
		b.until(then)
	}
	click("#say .btn.main", "location.pathname.startsWith('/causes/')")
	click("#actions form button", "document.body.innerText.includes('It is with you.')")
	click("#road .btn.main", "location.pathname === '/plan'")
	b.do(chromedp.SendKeys("#headers", "priority: 5"))
	click("form.plan .btn.main", "location.pathname.startsWith('/operations/')")
	click("#progress .btn.main", "document.body.innerText.includes('It is started.')")
	operation := evaluate[string](b, "location.pathname")
	// What sends, delivers and sees the outcome is played here.
	pgtest.Exec(t, r.pool, `update postrider.dlq_operation set state = 'halted', done = 3, delivered = 1, came_back = 2, error = 'too many came back' where dlq_operation_uuid::text = $1`, strings.TrimPrefix(operation, "/operations/"))
	b.until("document.body.innerText.includes('halted by itself') && document.querySelector('#progress .btn.stop') !== null") // by itself, without a click
	click("#progress .btn.stop", "document.body.innerText.includes('It is ended for good.')")
	b.do(chromedp.Navigate(r.URL + "/causes/" + r.group(entry)))
	click("summary[data-key=r]", "document.querySelector('details.ask[open]') !== null")
	click("details.ask[open] .btn.main", "document.body.innerText.includes('4 investigations are closed.')")
	if clicks > 12 {
		t.Errorf("%d clicks from the page to resolved", clicks)
	}
	if said := b.complaints(); len(said) > 0 {
		t.Errorf("the browser says %q", said)
	}
	// Keys: the next row, the list of keys, a pause.
	b.do(chromedp.Navigate(r.URL + "/investigations"))
	b.do(chromedp.KeyEvent("jj"))
	b.until("document.querySelectorAll('tr[data-row]')[1].classList.contains('at')")
	b.do(chromedp.KeyEvent("x"))
	b.until("document.getElementById('picked').textContent === '1 picked'")
	b.do(chromedp.KeyEvent("?"))
	b.until("document.querySelector('dialog.keys[open]') !== null")
	b.do(chromedp.KeyEvent("\x1b"))
	b.until("document.querySelector('dialog.keys[open]') === null")
	b.do(chromedp.KeyEvent("/"))
	b.until("document.activeElement.id === 'q'")
}
