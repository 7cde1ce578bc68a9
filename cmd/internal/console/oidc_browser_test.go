package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/cmd/internal/access"
)

// signOut signs out where a person does.
func (b *tab) signOut() {
	b.t.Helper()
	b.do(chromedp.Navigate(b.URL + "/access"))
	b.until("document.querySelector(\"main form[action='/logout'] button\") !== null")
	b.do(chromedp.Click("main form[action='/logout'] button"))
	b.until("location.pathname === '/login'")
}

// TestSigningInWithABrowser goes to the provider and back by clicks, from a page that needs a session. The provider is
// another site for the browser, so this is where SameSite and the rules of the pages show.
func TestSigningInWithABrowser(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	openIDProvider(t, port, true)
	r := newRig(t, withProvider(port))
	b := r.tab(t, access.Read)
	b.signOut()
	for _, width := range []int64{1280, 320} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(width, scheme)
			if wide := evaluate[int](b, "document.scrollingElement.scrollWidth - innerWidth"); wide > 0 {
				t.Errorf("the page of signing in at %d is %d pixels too wide", width, wide)
			}
			b.shoot("login-oidc-" + map[int64]string{1280: "1280-", 320: "320-"}[width] + scheme)
		}
	}
	b.do(chromedp.Navigate(r.URL + "/tasks"))
	b.until("location.pathname === '/login'")
	b.signInAt("ann")
	b.until("location.pathname === '/tasks' && document.body.textContent.includes('ann@example.com')")
	for _, said := range b.complaints() {
		if !strings.Contains(said, issuerAt(port)) && !strings.Contains(said, "fonts.googleapis.com") { // the pages of the provider
			t.Errorf("the browser says %q", said)
		}
	}
	if session := evaluate[string](b, "document.cookie"); session != "" {
		t.Errorf("script sees the cookies %q", session)
	}
	// Signing out and in again: the provider remembers the person, and the console does not.
	b.signOut()
	b.do(chromedp.Click("a[href^='/login/oidc']"))
	b.agree()
	b.until("location.pathname === '/' && document.body.textContent.includes('ann@example.com')")

	// A person without a group.
	other := r.tab(t, access.Read)
	other.signOut()
	other.signInAt("bob")
	other.until("document.body.innerText.includes('You may not use this console.')")
	other.shoot("login-no-group")
}

// signInAt goes to the provider and signs in there.
func (b *tab) signInAt(login string) {
	b.t.Helper()
	b.do(chromedp.Click("a[href^='/login/oidc']"))
	b.until("document.querySelector('input[name=login]') !== null")
	b.do(chromedp.SendKeys("input[name=login]", login), chromedp.SendKeys("input[name=password]", "x"), chromedp.Click("button[type=submit]"))
	b.agree()
}

// agree says yes to what the provider asks after the password.
func (b *tab) agree() {
	b.t.Helper()
	const button = "input[name=prompt][value=consent] ~ button[type=submit]"
	b.until(`document.querySelector("` + button + `") !== null`)
	b.do(chromedp.Click(button))
}
