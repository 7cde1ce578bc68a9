package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/npmtest"
)

// axe is the text of axe-core, which knows rules of accessibility.
func axe(t testing.TB) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(npmtest.Install(t, filepath.Join("testdata", "axe"), "axe"), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// broken are the rules that a page breaks, with the elements that do. What axe-core cannot decide is left to people.
const broken = `axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.map(v => v.impact + " " + v.id + ": " + v.help + "\n  " +
	v.nodes.slice(0, 5).map(n => n.html.slice(0, 300) + " " + n.any.concat(n.all, n.none).map(c => c.message).join("; ")).join("\n  ")))`

// accessible reports what axe-core finds on the page that is open; nothing without its text.
func (b *tab) accessible(axe string) []string {
	b.t.Helper()
	if axe == "" {
		return nil
	}
	if !evaluate[bool](b, `"axe" in window`) {
		evaluate[bool](b, axe+"\n;true")
	}
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](broken, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(fmt.Errorf("axe-core: %w", err))
	}
	return found
}

// TestAxeFinds: an unusable page is found out, so that finding nothing says something.
func TestAxeFinds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.tab(t, access.Read)
	b.do(chromedp.Navigate(r.URL + "/access"))
	b.until("document.querySelector('h1') !== null")
	evaluate[bool](b, `document.querySelector("main").insertAdjacentHTML("beforeend", '<p class="hint" id="pale">pale</p><button></button>'), document.getElementById("pale").style.color = "#eee", true`)
	found := strings.Join(b.accessible(axe(t)), "\n")
	for _, rule := range []string{"color-contrast", "button-name"} {
		if !strings.Contains(found, rule) {
			t.Errorf("axe-core does not find %s:\n%s", rule, found)
		}
	}
}
