package app

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestSourcesAreServed: the API and the console show the sources of the process as they are now, those that came after the start
// too, and what is wrong with one of them.
func TestSourcesAreServed(t *testing.T) {
	t.Parallel()
	desk, _ := newSource(t)
	orders, ordersConn := newSource(t)
	file := newFleetFile(t, desk.URL, kafkatest.Kfake(t).Addrs...)
	write := func(sources ...string) {
		if err := os.WriteFile(file.path, []byte("sources:\n  - "+strings.Join(sources, "\n  - ")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(sourceLine("orders", orders.URL))
	c, err := file.load()
	if err != nil {
		t.Fatal(err)
	}
	a := run(t, Options{Config: c, Roles: []Role{Relay, HTTP}, Reload: file.load, Logger: slog.New(slog.DiscardHandler)})
	ann := newPerson(t, a, "ann", access.Admin)
	shown := func() (all string) {
		for _, item := range ann.ask("GET", "/sources", "")["items"].([]any) {
			source := item.(map[string]any)
			all += fmt.Sprintf("%v led %v %v; ", source["name"], source["led"], source["reason"])
		}
		return all
	}
	for _, step := range []struct{ more, want string }{
		{"", "orders led true <nil>; "},
		{sourceLine("away", "postgres://u:s3ntinel@127.0.0.1:1/d?connect_timeout=2"), "away led false away; orders led true <nil>; "},
	} {
		if step.more != "" {
			write(sourceLine("orders", orders.URL), step.more)
			a.Reload()
		}
		eventually(t, "the API shows "+step.want, func() (bool, string) { got := shown(); return got == step.want, got })
	}
	_, raw, err := ann.send(t.Context(), "GET", "/sources/away", "")
	if text := string(raw); err != nil || !strings.Contains(text, `"name":"away"`) || strings.Contains(text, "s3ntinel") {
		t.Errorf("%s, %v", text, err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser, console := &http.Client{Jar: jar, Timeout: 3 * time.Minute}, "http://"+a.Addr()
	signedIn, err := browser.PostForm(console+"/login", url.Values{"key": {ann.key}})
	if err != nil {
		t.Fatal(err)
	}
	signedIn.Body.Close()
	for page, wants := range map[string][]string{
		"/sources":      {"2 sources: away cannot be reached.", `href="/sources/orders"`, `<a href="/sources" aria-current="page">Sources`},
		"/sources/away": {"away cannot be reached.", "Not known while it cannot be carried.", "postgres://u:xxxxx@127.0.0.1:1/d"},
		// The relay of this process leads it.
		"/sources/orders": {"orders has a leader, and no event is late.", "<dt>Leader</dt>"},
	} {
		resp, err := browser.Get(console + page)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		for _, want := range wants {
			if !strings.Contains(string(body), want) || strings.Contains(string(body), "s3ntinel") || err != nil {
				t.Errorf("%s: %d, without %q or with a password, %v: %s", page, resp.StatusCode, want, err, body)
			}
		}
	}

	pgtest.Exec(t, ordersConn, `update postrider.outbox_source set desk = 'south'`)
	eventually(t, "the source is of another desk", func() (bool, string) { // an answer is kept for a moment
		s := ann.ask("GET", "/sources/orders", "")
		return s["desk"] == "south" && s["other_desk"] == true && s["ok"] == true, fmt.Sprint(s)
	})
	report, err := Examine(t.Context(), a.settingsNow(), Examination{})
	if err != nil || !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool {
		return f.Check == "orders" && f.Verdict == doctor.Warning && strings.Contains(f.Says, "belongs to the desk south")
	}) {
		t.Errorf("the doctor says %+v, %v", report.Findings, err)
	}
	resp, err := browser.Get(console + "/sources/orders")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "<code><bdi>south</bdi></code>, and refuses the commands of this one") || !strings.Contains(string(body), "Of another desk") {
		t.Errorf("the page of a source of another desk: %s, %v", body, err)
	}
}
