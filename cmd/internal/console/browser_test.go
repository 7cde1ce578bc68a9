package console_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"github.com/postrider/postrider/internal/testenv/outboxtest"
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

// chromium is one for all tests: starting it costs more than most of its pages.
var chromium = sync.OnceValues(func() (context.Context, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
		if os.Geteuid() == 0 {
			options = append(options, chromedp.NoSandbox) // Chromium has none for root
		}
		ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, _ = chromedp.NewContext(ctx) // Cancel ends it, and waits
		endChromium = func() { _ = chromedp.Cancel(ctx); stop() }
		return ctx, chromedp.Do(ctx, chromedp.Navigate("about:blank")) // it lives as long as the context of its first step
	}
	return nil, nil
})

// endChromium ends it after the tests.
var endChromium = func() {}

// tab opens a page with cookies of its own.
func (r *rig) tab(t *testing.T, scope access.Scope) *tab {
	t.Helper()
	all, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	if all == nil {
		logtest.NotTested(t, "there is no Chromium: apt-get install chromium, or scripts/setup.sh browser")
	}
	ctx, _ := chromedp.NewContext(all, chromedp.WithNewBrowserContext())
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) })
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	b := &tab{rig: r, ctx: ctx}
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
	ctx, cancel := context.WithTimeout(b.ctx, 3*time.Minute)
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
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
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
	// Without motion, or axe-core would see colours on their way from one scheme to the other.
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	b.do(chromedp.EmulateViewport(width, 900))
}

// prefer sets the medium, screen where it is empty, and one preference of the person.
func (b *tab) prefer(medium, name, value string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium, Features: []*emulation.MediaFeature{{Name: name, Value: value}}})
}

func (b *tab) shoot(name string) {
	b.t.Helper()
	folder := os.Getenv(shotsIn)
	if folder == "" {
		return
	}
	shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), shot, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// pictured are the pages whose pictures the documents have, and how high each picture is.
var pictured = map[string]int64{"now-calm": 720, "now": 820, "cause": 840, "operation": 705, "tasks": 620}

// picture keeps what a window of the page shows, as small as a document needs it.
func (b *tab) picture(name string) {
	b.t.Helper()
	folder, height := os.Getenv(shotsIn), pictured[name]
	if folder == "" || height == 0 {
		return
	}
	b.do(chromedp.EmulateViewport(1280, height))
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	whole, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(folder, "console-"+name+".png"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(file, fewColours(whole)); err != nil {
		b.t.Error(err)
	}
}

// fewColours is a picture in the 256 most frequent of its colours. A colour counts more than a grey: letters have many greys.
func fewColours(whole image.Image) image.Image {
	counts := map[color.Color]int{}
	box := whole.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			counts[whole.At(x, y)]++
		}
	}
	for c := range counts {
		r, g, b, _ := c.RGBA()
		counts[c] *= 1 + int(max(r, g, b)-min(r, g, b))>>11
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	few := image.NewPaletted(box, colours[:min(len(colours), 256)])
	draw.Draw(few, box, whole, box.Min, draw.Src)
	return few
}

// TestPagesInABrowser opens each page at four widths in both schemes: the browser complains about nothing, nothing is
// wider than the window, and axe-core finds nothing.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	// A page loads itself again when the server says that the database is away, as it does on a machine so busy that PostgreSQL
	// has no answer for a second and a half. A page that is looked at must stay, so its stream says one thing and no more.
	r.silentStreams.Store(true)
	b := r.tab(t, access.Admin)
	var rules string // empty without npm, which leaves out no more than axe-core
	t.Run("axe-core", func(t *testing.T) { rules = axe(t) })
	calm := map[string]string{"now-calm": "/", "operations-none": "/operations", "investigations-none": "/investigations", "outbox-none": "/outbox", "tasks-none": "/tasks", "archive-none": "/tasks/archive", "audit": "/audit", "access": "/access", "sources-none": "/sources"}
	pictures := func(pages map[string]string) {
		for name, page := range pages {
			b.do(chromedp.Navigate(r.URL + page))
			b.until("document.querySelector('h1') !== null && document.readyState === 'complete'")
			for _, width := range []int64{1280, 768, 390, 320} { // a window changes its width, and a page its scheme, without another load
				for _, scheme := range []string{"light", "dark"} {
					b.look(width, scheme)
					if wide := evaluate[int](b, "document.scrollingElement.scrollWidth - innerWidth"); wide > 0 {
						t.Errorf("%s at %d is %d pixels too wide: %s", name, width, wide, evaluate[string](b, widest))
					}
					if tidy := tidyAt1280[name]; width == 1280 && tidy != "" && !evaluate[bool](b, tidy) {
						t.Errorf("%s at %d is careless: not %s", name, width, tidy)
					}
					if said := b.complaints(); len(said) > 0 {
						t.Errorf("%s: the browser says %q", name, said)
					}
					if width == 1280 || width == 320 && scheme == "light" { // in dark the parts that only the narrowest has are not looked at
						for _, found := range b.accessible(rules) {
							t.Errorf("%s at %d in %s: %s", name, width, scheme, found)
						}
					}
					b.shoot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
					if width == 1280 && scheme == "light" {
						b.picture(name)
					}
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
	// What sends is played here.
	pgtest.Exec(t, r.pool, `update postrider.dlq_operation set state = 'running', done = 14, delivered = 11, came_back = 1`)
	pgtest.Exec(t, r.pool, `update postrider.dlq_operation_item set state = 'done', outcome = case when item <= 11 then 'delivered' when item = 12 then 'came_back' else 'sent' end where item <= 14`)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, key, payload) overriding system value select n, gen_random_uuid(), 'orders', convert_to('k' || n, 'UTF8'), '{}' from generate_series(3001, 3012) n`)
	outboxtest.SettleAll(t, r.pool, outboxtest.Scheduled, `select id from postrider.outbox_event where id between 3001 and 3012`)
	pgtest.Exec(t, r.pool, `update postrider.outbox_exception set state = 'parked', hold_id = (select hold_id from postrider.outbox_hold limit 1) where id between 3001 and 3012`)
	task, step := r.shipping()
	r.cluster.burn()
	admin.until("/sources", "billing cannot be reached") // the API remembers the sources of the calm page
	for _, page := range []string{"/causes/" + group, "/investigations/" + entry} {
		admin.post(page+"/comments", "text", "The writer of priority was rolled back at 14:02.\nWho sends the others?").is(t, http.StatusSeeOther)
	}
	pictures(map[string]string{"now": "/", "causes": "/causes", "cause": "/causes/" + group, "investigations": "/investigations?resolution_status=pending", "letter": "/investigations/" + entry + "?as=hex",
		"plan": "/plan?kind=redrive&group=" + group, "purge": "/plan?kind=purge&all=true", "operations": "/operations", "operation": operation, "outbox": "/outbox", "outbox-none-match": "/outbox?topic=nowhere", "event": "/outbox/1030",
		"tasks": "/tasks", "task": "/tasks/" + task, "task-step": "/tasks/" + task + "?step=" + step, "templates": "/tasks/templates", "template": "/tasks/templates/demo/ship_order", "consumers": "/consumers?group=payments", "doctor": "/doctor", "sources": "/sources", "source-away": "/sources/billing", "source": "/sources/refunds", "audit-rows": "/audit"})
	b.do(chromedp.Navigate(r.URL + "/login?link=odd"))
	b.shoot("login-refused")
	for _, said := range b.complaints() { // a status of 401 is an error for the browser
		if !strings.Contains(said, "401") {
			t.Errorf("login: the browser says %q", said)
		}
	}
}

// tidyAt1280 is what holds of pages in a wide window: a form's button stands beside its fields, an id is not broken, and a table
// does not touch the form above it.
var tidyAt1280 = map[string]string{
	"audit":          `Math.abs(document.querySelector(".seek button").getBoundingClientRect().bottom - document.querySelector(".seek input").getBoundingClientRect().bottom) < 4`,
	"audit-rows":     `[...document.querySelectorAll("td .sub.id bdi, td .sub.target bdi")].every(e => e.getClientRects().length === 1) && document.querySelector("td .sub.id") !== null`,
	"investigations": `[...document.querySelectorAll("td .sub code bdi")].every(e => e.getClientRects().length === 1)`,
	"templates":      `document.querySelector("table").getBoundingClientRect().top - document.querySelector(".seek").getBoundingClientRect().bottom > 8`,
	"tasks":          `document.querySelector("#list + .do").getBoundingClientRect().top - document.querySelector("#list").getBoundingClientRect().bottom > 8`,
}

// widest names the element that reaches furthest to the right.
const widest = `(() => { let w = 0, at = ""; for (const e of document.querySelectorAll("main *")) { const r = e.getBoundingClientRect().right; if (r > w) { w = r; at = e.tagName + "." + e.className + " " + e.textContent.slice(0, 40); } } return at; })()`
