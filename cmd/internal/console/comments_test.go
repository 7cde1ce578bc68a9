package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestComments: people who work on one thing see who found what; only an author deletes, and that it was there stays.
func TestComments(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, invalidHeaders)
	mira, ann, reader := r.as(access.Resolve), r.as(access.Admin), r.as(access.Read)
	for _, page := range []string{"/causes/" + r.group(entry), "/investigations/" + entry} {
		mira.get(page).is(t, http.StatusOK).has(t, "There is no comment yet.", `action="`+page+`/comments"`)
		if to := mira.post(page+"/comments", "text", "  The <b>writer</b> of priority\r\nwas rolled back. \u202e ").is(t, http.StatusSeeOther).header.Get("Location"); to != page+"#comments" {
			t.Errorf("a comment leads to %s", to)
		}
		seen := ann.get(page).is(t, http.StatusOK).has(t, "key resolve", "The &lt;b&gt;writer&lt;/b&gt; of priority\nwas rolled back.")
		if strings.Contains(seen.text, "Delete…") {
			t.Error("a person may delete the comment of another")
		}
		mira.get(page).has(t, "It stands in the thread", "Delete…")
		comment := pgtest.Value[int64](t, r.pool, `select max(dlq_comment_id) from postrider.dlq_comment`)
		path := fmt.Sprintf("%s/comments/%d/delete", page, comment)
		ann.post(path).is(t, http.StatusSeeOther)
		ann.get(page).has(t, "notice waiting", "rolled back")
		mira.post(page+"/comments", "text", " ").is(t, http.StatusSeeOther)
		mira.get(page).has(t, "notice waiting")
		reader.post(page+"/comments", "text", "x").is(t, http.StatusForbidden).has(t, "resolve")
		reader.post(path).is(t, http.StatusForbidden)
		reader.get(page).is(t, http.StatusOK).has(t, "rolled back", "Comment</span>")
		mira.post(path).is(t, http.StatusSeeOther)
		gone := ann.get(page).is(t, http.StatusOK).has(t, "key resolve", "Deleted by its author")
		if strings.Contains(gone.text, "rolled back") {
			t.Error("a comment that was deleted is still shown")
		}
		for n := range 30 {
			mira.post(page+"/comments", "text", fmt.Sprintf("found %d", n)).is(t, http.StatusSeeOther)
		}
		first := ann.get(page).is(t, http.StatusOK).has(t, "found 23<", "Later ones")
		if strings.Contains(first.text, "found 24<") {
			t.Error("a page of the thread has more than 25 comments")
		}
		_, later, _ := strings.Cut(first.text, `<a href="`+page+`?comments=`)
		ann.get(page+"?comments="+later[:strings.IndexAny(later, `#"`)]).is(t, http.StatusOK).has(t, "found 29<", "The first")
	}
}

// TestACommentOfAnotherOfThatName: its author alone deletes it, and a person with the same name is not its author.
func TestACommentOfAnotherOfThatName(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	page := "/investigations/" + r.die(1, nil)
	r.as(access.Admin).post(page+"/comments", "text", "of the key").is(t, http.StatusSeeOther)
	link, _, err := r.services.Access.Link(access.WithActor(t.Context(), access.Actor{Name: "test"}), access.NewLink{Name: "key admin", Scopes: []access.Scope{access.Admin}, ExpiresIn: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	other := r.browser()
	other.post("/login", "link", link).is(t, http.StatusSeeOther)
	if page := other.get(page).is(t, http.StatusOK).has(t, "of the key"); strings.Contains(page.text, "Delete…") {
		t.Error("a person may delete the comment of another of that name")
	}
	other.post(page+"/comments/1/delete").is(t, http.StatusSeeOther)
	other.get(page).is(t, http.StatusOK).has(t, "of the key", "notice waiting")
	r.as(access.Admin).post(page+"/comments/1/delete").is(t, http.StatusSeeOther) // another session of the same key
	other.get(page).is(t, http.StatusOK).has(t, "Deleted by its author")
}

// TestLongCommentsAreFolded: a thread shows the beginning of a long comment, and the rest when it is asked for; nothing of it
// is lost. The form takes as much as the API does.
func TestLongCommentsAreFolded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Admin)
	page := "/investigations/" + r.die(1, nil)
	b.get(page).has(t, fmt.Sprintf(`maxlength="%d"`, dlq.MaxComment), "At most 16.0 KiB.")
	for name, c := range map[string]struct {
		text   string
		folded bool
	}{
		"short":        {"a line\nand another", false},
		"a bit longer": {strings.Repeat("word ", 250), false},
		"many lines":   {strings.Repeat("a line\n", 50) + "the end", true},
		"one line":     {strings.Repeat("ä", dlq.MaxComment/2), true},
	} {
		b.post(page+"/comments", "text", c.text).is(t, http.StatusSeeOther)
		seen := b.get(page).text
		_, thread, _ := strings.Cut(seen, `<ol class="thread">`)
		thread, _, _ = strings.Cut(thread, "</ol>")
		_, at, folded := strings.Cut(thread, "<summary>Show the rest, ")
		if folded != c.folded {
			t.Errorf("%s: folded %v", name, folded)
		}
		var shown strings.Builder
		for _, part := range strings.Split(thread, `<p class="words"><bdi>`)[1:] {
			words, _, _ := strings.Cut(part, "</bdi>")
			shown.WriteString(words)
		}
		if got := shown.String(); got != strings.TrimSpace(c.text) {
			t.Errorf("%s: %d bytes are shown of %d, folded %.40q", name, len(got), len(c.text), at)
		}
		pgtest.Exec(t, r.pool, `delete from postrider.dlq_comment`)
	}
	b.post(page+"/comments", "text", strings.Repeat("ä", dlq.MaxComment/2+1)).is(t, http.StatusSeeOther)
	b.get(page).has(t, "notice waiting", "at most 16384")
}
