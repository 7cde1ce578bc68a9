package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/cmd/internal/access"
)

// TestTheFrameInABrowser: the menu of a narrow window says who is signed in and ends the session, and the first page has one time,
// which is the one that is live.
func TestTheFrameInABrowser(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.tab(t, access.Admin)
	b.look(390, "light")
	b.do(chromedp.Navigate(r.URL + "/"))
	b.until("/^Live, as of [0-9:]+ UTC$/.test(document.querySelector('#live .live').textContent)")
	if times := evaluate[int](b, `document.querySelector("#strip").innerText.match(/\d\d:\d\d/g).length`); times != 1 {
		t.Errorf("%d times stand above the page", times)
	}
	const out = "document.querySelector('form[action=\"/logout\"]').checkVisibility()"
	if evaluate[bool](b, out) {
		t.Error("the menu is open already")
	}
	b.do(chromedp.Click(".menu-open"))
	b.until("document.querySelector('#menu').innerText.includes('key admin') && " + out)
	b.shoot("menu-390")
	b.do(chromedp.Click("#menu form[action='/logout'] button"))
	b.until("location.pathname === '/login'")
}
