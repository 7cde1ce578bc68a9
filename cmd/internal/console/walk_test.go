package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// mostClicks is how many clicks it may take from the first page to resolved.
const mostClicks = 12

// TestFromNowToResolvedByClicks goes from the first page to resolved as a person does who never saw it, and counts the clicks.
func TestFromNowToResolvedByClicks(t *testing.T) {
	t.Parallel()
	fromNowToResolved(t, true)
}

// TestFromNowToResolvedWithoutScript is the same in a browser that runs no script. To load the page again is a click there.
func TestFromNowToResolvedWithoutScript(t *testing.T) {
	t.Parallel()
	fromNowToResolved(t, false)
}

func fromNowToResolved(t *testing.T, script bool) {
	r := newRig(t, nil)
	for n := range 4 {
		r.die(n+1, invalidHeaders)
	}
	b := r.tab(t, access.Admin)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !script})
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
	b.until("document.getElementById('pause') !== null && document.readyState === 'complete'")
	if runs := !evaluate[bool](b, "document.getElementById('pause').hidden"); runs != script {
		t.Fatalf("the browser runs the script: %v, and should: %v", runs, script)
	}
	click("#actions form button", "document.body.innerText.includes('It is with you.')")
	click("#road .btn.main", "location.pathname === '/plan'")
	b.do(chromedp.SendKeys("#headers", "priority: 5"))
	click("form.plan .btn.main", "location.pathname.startsWith('/operations/')")
	click("#progress .btn.main", "document.body.innerText.includes('It is started.')")
	operation := evaluate[string](b, "location.pathname")
	// What sends, delivers and sees the outcome is played here.
	pgtest.Exec(t, r.pool, `update postrider.dlq_operation set state = 'halted', done = 3, delivered = 1, came_back = 2, error = 'too many came back' where dlq_operation_uuid::text = $1`, strings.TrimPrefix(operation, "/operations/"))
	if !script {
		clicks++
		b.do(chromedp.Reload())
	}
	b.until("document.body.innerText.includes('halted by itself') && document.querySelector('#progress .btn.stop') !== null") // by itself, without a click
	click("#progress summary.btn.stop", "document.querySelector('#progress details.ask[open]') !== null")
	click("#progress details.ask[open] button", "document.body.innerText.includes('It is ended.')")
	click(".facts a[href^='/causes/']", "location.pathname.startsWith('/causes/')")
	click("summary[data-key=r]", "document.querySelector('details.ask[open]') !== null")
	click("details.ask[open] .btn.stop", "document.body.innerText.includes('4 investigations are closed.')")
	t.Logf("%d clicks from the first page to resolved", clicks)
	if clicks > mostClicks {
		t.Errorf("%d clicks from the first page to resolved", clicks)
	}
	if said := b.complaints(); len(said) > 0 {
		t.Errorf("the browser says %q", said)
	}
}

// TestKeys: / j k x r a ? and g do what the list of keys says, and nothing while a person writes or has switched them off.
func TestKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var entry string
	for n := range 3 {
		entry = r.die(n+1, invalidHeaders)
	}
	b := r.tab(t, access.Admin)
	b.look(1280, "light")
	press := func(keys string) { t.Helper(); b.do(chromedp.KeyEvent(keys)) }
	row := func(n string) string {
		return "document.querySelectorAll('tr[data-row]')[" + n + "].classList.contains('at')"
	}
	b.do(chromedp.Navigate(r.URL + "/investigations"))
	press("jj")
	b.until(row("1"))
	press("k")
	b.until(row("0"))
	press("x")
	b.until("document.getElementById('picked').textContent === '1 picked'")
	press("?")
	b.until("document.querySelector('dialog.keys[open]') !== null")
	press("\x1b")
	b.until("document.querySelector('dialog.keys[open]') === null")
	press("/")
	b.until("document.activeElement.id === 'q'")
	press("gc?")
	if text := evaluate[string](b, "document.activeElement.value + location.pathname"); !strings.HasSuffix(text, "gc?/investigations") {
		t.Errorf("keys that are written into the search box lead to %q", text)
	}
	// From a letter to its neighbours in the list that it was reached from.
	b.do(chromedp.Navigate(r.URL+"/investigations?error_code=INVALID_HEADERS"), chromedp.Click("tr[data-row] a.title"))
	b.until("document.querySelector('#neighbours a[rel=next]') !== null && document.readyState === 'complete'")
	first := evaluate[string](b, "location.href")
	press("j")
	b.until("location.href !== '" + first + "' && document.querySelector('#neighbours a[rel=prev]') !== null && document.readyState === 'complete'")
	press("k")
	b.until("location.href === '" + first + "' && document.readyState === 'complete'")
	b.do(chromedp.Navigate(r.URL + "/causes/" + r.group(entry)))
	press("r")
	b.until("document.querySelector('details.ask[open] #status') !== null && document.activeElement.id === 'status'")
	press("\x1b")
	b.until("document.querySelector('details.ask[open]') === null")
	press("a")
	b.until("document.activeElement.id === 'assignee'")
	press("\x1b")
	press("gt")
	b.until("location.pathname === '/tasks' && document.readyState === 'complete'")
	press("gs")
	b.until("location.pathname === '/sources' && document.readyState === 'complete'")
	press("?")
	b.until("document.querySelector('dialog.keys[open]') !== null")
	b.until("document.activeElement.textContent === 'Close'") // Enter switches nothing off
	b.do(chromedp.Click("dialog.keys button:last-child"))
	b.do(chromedp.Evaluate[chromedp.Void]("window.left = 0; navigation.addEventListener('navigate', () => window.left++)"))
	press("gn?")
	b.until("document.querySelector('dialog.keys[open]') !== null") // the key behind them has its effect
	if left := evaluate[int](b, "window.left"); left != 0 {
		t.Error("a key leads away although keys are switched off")
	}
	if said := b.complaints(); len(said) > 0 {
		t.Errorf("the browser says %q", said)
	}
}

// TestWhatPeoplePrefer: nothing moves for a person who does not want that, and a page on paper is dark on white, without
// what only a screen needs.
func TestWhatPeoplePrefer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	cause := "/causes/" + r.group(r.die(1, invalidHeaders))
	b := r.tab(t, access.Admin)
	b.look(1280, "light")
	b.do(chromedp.Navigate(r.URL + cause))
	const moving = `[...document.querySelectorAll("*")].filter(e => { const s = getComputedStyle(e); return s.animationName !== "none" || s.transitionDuration !== "0s" || s.scrollBehavior === "smooth"; }).length`
	b.prefer("", "prefers-reduced-motion", "no-preference")
	if n := evaluate[int](b, moving); n == 0 {
		t.Error("nothing moves at all: this test says nothing")
	}
	b.prefer("", "prefers-reduced-motion", "reduce")
	if n := evaluate[int](b, moving); n != 0 {
		t.Errorf("%d elements move for a person who does not want that", n)
	}
	b.prefer("print", "prefers-color-scheme", "dark")
	b.shoot("cause-print")
	if on := evaluate[string](b, `getComputedStyle(document.body).backgroundColor + " " + getComputedStyle(document.body).color`); on != "rgb(255, 255, 255) rgb(0, 0, 0)" {
		t.Errorf("paper and ink are %s", on)
	}
	if dark := evaluate[[]string](b, `["--wash", "--failing-wash", "--waiting-wash", "--held-wash", "--fine-wash", "--accent-wash"].filter(n => getComputedStyle(document.documentElement).getPropertyValue(n).trim() !== "#fff")`); len(dark) > 0 {
		t.Errorf("on paper these grounds are not white: %v", dark)
	}
	if shown := evaluate[[]string](b, `[...document.querySelectorAll(".rail, .btn, summary.btn, form, .skip, #live")].filter(e => e.getClientRects().length && getComputedStyle(e).visibility !== "hidden").map(e => e.className || e.id)`); len(shown) > 0 {
		t.Errorf("on paper there are %v", shown)
	}
	for _, text := range []string{"INVALID_HEADERS", "placed", "From fix to resolved"} {
		if !strings.Contains(evaluate[string](b, "document.body.innerText"), text) {
			t.Errorf("on paper there is no %q", text)
		}
	}
}
