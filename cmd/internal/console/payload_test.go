package console_test

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
)

// TestPayloadsAreShownAsTheyAre: text is shown byte for byte, and JSON over lines with every name and digit; JSON that the
// database has written anew is not called the message.
func TestPayloadsAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Admin)
	large := `{"a": "` + strings.Repeat("x", 100<<10) + `"}`
	const says = "White space between values is the page’s"
	for n, c := range []struct {
		payload string
		lines   string // how JSON is shown; empty for text
		text    string // how text is shown; empty for as it is
		anew    bool   // whether the database writes it anew
	}{
		{`{"b": 1, "a": 1.50,  "b": 1e400, "n": 123456789012345678901234567890}`, "{\n  \"b\": 1,\n  \"a\": 1.50,\n  \"b\": 1e400,\n  \"n\": 123456789012345678901234567890\n}", "", true},
		{`[1E+2,  -0]`, "[\n  1E+2,\n  -0\n]", "", true},
		{`{not  JSON at all}`, "", "", false},
		{`1e400`, "", "", true},
		{"{\"a\": \"\xff\"}", "{\n  \"a\": \"\\xFF\"\n}", `{"a": "\xFF"}`, false},
		{large, "{\n  " + large[1:64<<10], large[:64<<10], false}, // shown to the first 64 KiB
	} {
		entry := r.die(n+1, func(l *dlq.Letter) { l.Payload = []byte(c.payload) })
		reveal := func(as string) string {
			page := b.lookAt("/investigations/"+entry+"/reveal", "as", as).is(t, http.StatusOK).text
			_, shown, _ := strings.Cut(page, `<pre class="letter"`)
			_, shown, _ = strings.Cut(shown, ">")
			shown, foot, _ := strings.Cut(shown, "</pre>")
			if strings.Contains(foot, says) != (as == "json" && c.lines != "") {
				t.Errorf("%q as %s: the page says %q", c.payload, as, foot[:min(len(foot), 200)])
			}
			return html.UnescapeString(strings.NewReplacer(`<span class="k">`, "", "</span>", "").Replace(shown))
		}
		want := c.payload
		if c.text != "" {
			want = c.text
		}
		if got := reveal("text"); got != want {
			t.Errorf("%.60q as text is %.60q", c.payload, got)
		}
		if c.lines != "" {
			want = c.lines
		}
		if got := reveal("json"); got != want {
			t.Errorf("%.60q as JSON is %.60q", c.payload, got)
		}
		kept := r.as(access.Read).get("/investigations/"+entry+"?as=text").is(t, http.StatusOK).text
		if strings.Contains(kept, "As the database keeps JSON") != c.anew || strings.Contains(kept, ">Hex</a>") == c.anew {
			t.Errorf("%q: without the scope for it, the page does not say what it shows", c.payload)
		}
		if strings.Contains(kept, ">JSON</a>") != (c.lines != "") {
			t.Errorf("%.40q: without the scope for it, the page shows JSON as text, or text as JSON", c.payload)
		}
		if strings.Contains(kept, "Only the beginning is shown.") != (len(c.payload) > 64<<10) {
			t.Errorf("%.40q: the page does not say whether that is all", c.payload)
		}
	}
}
