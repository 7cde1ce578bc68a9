package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestThePageHearsAgain: a stream that was refused is asked for again, parts change together, and the end of the session ends
// the page.
func TestThePageHearsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.die(1, nil)
	b := r.tab(t, access.Admin)
	b.look(1280, "light")
	r.as(access.Admin).until("/", "orders: 1 event given up")
	b.do(chromedp.Navigate(r.URL + "/"))
	b.until("document.querySelector('#live .live').textContent.startsWith('Live, as of ')")
	r.refuseStreams.Store(true)
	r.CloseClientConnections()
	b.until("document.querySelector('#live .live').textContent === 'Not live'")
	for deadline := time.Now().Add(3 * time.Minute); r.refused.Load() < 2; time.Sleep(20 * time.Millisecond) { // the page asks again
		if time.Now().After(deadline) {
			t.Fatalf("%d streams were refused", r.refused.Load())
		}
	}
	r.refuseStreams.Store(false)
	r.die(2, nil)
	b.until("document.querySelector('h1').textContent.includes('2 events given up') && document.querySelector('#live .live').textContent.startsWith('Live')")
	// A part that a person is using keeps all others as they are, too.
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('#causes a').focus()"))
	r.die(3, nil)
	b.until("document.querySelector('#live .live').textContent.startsWith('Changes wait')")
	if text := evaluate[string](b, "document.querySelector('h1').textContent"); !strings.Contains(text, "2 events") {
		t.Errorf("the sentence says %s beside a table that waits", text)
	}
	b.do(chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
	b.until("document.querySelector('h1').textContent.includes('3 events given up')")
	pgtest.Exec(t, r.pool, `update postrider.access_session set ended_at = now() where ended_at is null`)
	b.until("location.pathname === '/login' && document.body.innerText.includes('You are signed out')")
}

// TestALivePageDoesNotContradictItself: when a cause is open again, what its page says to do follows, and what a form had said
// about the state before goes.
func TestALivePageDoesNotContradictItself(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	cause := "/causes/" + r.group(r.die(1, nil))
	r.as(access.Admin).post(cause + "/resolve")
	b := r.tab(t, access.Admin)
	b.look(1280, "light")
	b.do(chromedp.Navigate(r.URL + cause))
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('#note').value = 'seen'; document.querySelector('#note').form.submit()")) // no pointer stays on the page
	b.until("document.querySelector('main > .notice') !== null && document.querySelector('#left-to-do').textContent.includes('Nothing is left to do.')")
	r.die(2, nil)
	b.until("document.querySelector('#say').textContent.includes('1 open')")
	if said := evaluate[string](b, "(document.querySelector('main > .notice')?.textContent ?? '') + document.querySelector('#left-to-do').textContent"); strings.Contains(said, "Nothing is left") || strings.Contains(said, "note is written") {
		t.Errorf("a cause that is open again has %q", said)
	}
}

// TestListsAreLive: the lists of causes and of investigations change by themselves, with the time at which they are true. A row
// that is ticked keeps the list as it is.
func TestListsAreLive(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.die(1, nil)
	b := r.tab(t, access.Admin)
	b.look(1280, "light")
	const rows = "document.querySelectorAll('tr[data-row]').length"
	for n, path := range []string{"/causes", "/investigations"} {
		b.do(chromedp.Navigate(r.URL + path))
		b.until("document.querySelector('#live .live').textContent.startsWith('Live, as of ')")
		asOf := evaluate[string](b, "document.querySelector('#live .live').textContent")
		was := evaluate[int](b, rows)
		r.die(10+n, func(l *dlq.Letter) { invalidHeaders(l); l.ErrorCode = fmt.Sprint("CODE_", n) })
		b.until(fmt.Sprintf("%s === %d && document.querySelector('#live .live').textContent > %q", rows, was+1, asOf))
	}
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('input[name=id]').checked = true"))
	r.die(20, nil)
	b.until("document.querySelector('#live .live').textContent.startsWith('Changes wait')")
	if !evaluate[bool](b, "document.querySelector('input[name=id]').checked") {
		t.Error("the tick is gone")
	}
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('input[name=id]').checked = false"))
	b.until(rows + " === 4")
}
