package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/postrider/postrider/cmd/internal/access"
)

// TestKeysAndForms: what is typed into a form takes the place of what is there, a form that was closed with Escape does not keep changes
// waiting, and the key of the search leads into its field from each page.
func TestKeysAndForms(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	cause := "/causes/" + r.group(entry)
	r.as(access.Admin).post(cause+"/change", "what", "assign", "assignee", "dev")
	b := r.tab(t, access.Admin)
	b.look(1280, "light")
	const live = "document.querySelector('#live .live').textContent.startsWith('Live, as of ')"
	press := func(path, keys string) {
		t.Helper()
		b.do(chromedp.Navigate(r.URL + path))
		b.until(live)
		b.do(chromedp.KeyEvent(keys))
	}
	press(cause, "a")
	b.until("document.activeElement.id === 'assignee'")
	b.do(chromedp.KeyEvent("ann" + kb.Enter))
	b.until("document.querySelector('main > .notice')?.textContent.trim() === 'It is with ann.'")
	press(cause, "r")
	b.until("document.activeElement.id === 'status'")
	r.die(2, nil)
	b.until("document.querySelector('#live .live').textContent.startsWith('Changes wait')")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.until("document.querySelector('#say').textContent.includes('2 open') && document.activeElement.matches('summary[data-key=r]') && " + live)
	b.do(chromedp.KeyEvent("r"))
	b.until("document.activeElement.id === 'status' && document.activeElement.form.textContent.includes('Close 2 investigations')")
	for _, path := range []string{"/", "/investigations/" + entry} {
		b.do(chromedp.Navigate(r.URL + path))
		b.until("document.querySelector('#live .live') !== null && document.readyState === 'complete'")
		b.do(chromedp.KeyEvent("/"))
		b.until("location.pathname === '/investigations' && document.activeElement.id === 'q' && document.activeElement.value === ''")
	}
}
