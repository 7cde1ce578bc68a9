package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestPagesSayTheSource: a source that is not main is on the pages of its causes and investigations, and selects them in lists and
// files. Nothing leads from them to an event or a task of this database with the same id.
func TestPagesSayTheSource(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	own := r.die(7, nil)
	letters := dlqtest.Letters(dlqtest.From("stock-2", dlqtest.Event(7, 1)), dlqtest.From("stock-2", dlqtest.Task(8, 1)))
	if _, err := r.services.Store.RecordLetters(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	id := func(n int) string {
		return pgtest.Value[string](t, r.pool, `select dlq_entry_uuid::text from postrider.dlq_letter where letter_id = $1`, letters[n].ID)
	}
	other, task := id(0), id(1)
	b := r.as(access.Admin)
	b.get("/investigations/"+other).is(t, http.StatusOK).has(t, `source <a href="/investigations?source=stock-2">stock-2</a>`, "<dt>Source</dt><dd>stock-2</dd>",
		"whether its later events wait only stock-2 knows", "If its event halts its key in stock-2, the key goes on without it.")
	for halts, want := range map[string]string{"true": "Nothing is sent. Its key goes on without it. A closed one", "false": "Nothing is sent. A closed one"} {
		pgtest.Exec(t, r.pool, `update postrider.dlq_letter set halts_key = $1 where letter_id = $2`, halts == "true", letters[0].ID)
		b.get("/investigations/"+other).has(t, want)
	}
	b.get("/causes/"+r.group(other)).is(t, http.StatusOK).has(t, `source <a href="/causes?source=stock-2">stock-2</a>`)
	for path, without := range map[string]string{"/investigations/" + own: "stock-2", "/causes/" + r.group(own): "source <a", "/investigations/" + task: `href="/tasks/`, "/causes/" + r.group(task): `href="/tasks/`, "/outbox/1007": other} {
		if page := b.get(path).is(t, http.StatusOK); strings.Contains(page.text, without) {
			t.Errorf("%s has %s", path, without)
		}
	}
	b.get("/causes/"+r.group(task)).has(t, "Its task is in the database of the source stock-2.")
	for path, want := range map[string][2]string{
		"/investigations?source=stock-2": {"/investigations/" + other, "/investigations/" + own}, "/investigations?source=main": {"/investigations/" + own, "/investigations/" + other},
		"/causes?source=stock-2": {"/causes/" + r.group(other), "/causes/" + r.group(own)}, "/causes?source=main": {"/causes/" + r.group(own), "/causes/" + r.group(other)},
		"/investigations/export?source=stock-2&format=csv": {other + ",stock-2", own}, "/causes/export?source=stock-2&format=csv": {r.group(other) + ",stock-2", r.group(own)},
	} {
		if page := b.get(path).is(t, http.StatusOK).has(t, want[0]); strings.Contains(page.text, want[1]) {
			t.Errorf("%s has %s", path, want[1])
		}
	}
	b.get("/causes?source=stock-2").has(t, "source: stock-2", `name="source" value="stock-2"`)
	b.get("/investigations?source=stock-2").has(t, "source:stock-2")
	if to := b.get("/investigations?q=source:stock-2").header.Get("Location"); to != "/investigations?source=stock-2" {
		t.Errorf("the search leads to %s", to)
	}
	b.get("/causes?source=Orders").is(t, http.StatusBadRequest).has(t, "Parameter source is")
}

// TestPagesSpeakOfTheirOutboxAlone: where the settings name other databases, pages do not say of those what they know of the desk's
// own outbox. Without other databases they name none.
func TestPagesSpeakOfTheirOutboxAlone(t *testing.T) {
	t.Parallel()
	const all, own = "No hold is open: all other events go on.", "No hold is open in the desk’s own database."
	for sources, c := range map[bool]struct {
		flags            map[string]string
		has, calm, never string
	}{
		false: {nil, all, "All is well. No event arrived in the last minute.", "page <a href"},
		true:  {map[string]string{"sources_dir": t.TempDir()}, own, "Of the desk’s own outbox: No event arrived in the last minute.", all},
	} {
		r := newRig(t, c.flags)
		b := r.as(access.Admin)
		b.until("/", c.calm)
		if page := b.get("/outbox").is(t, http.StatusOK); strings.Contains(page.text, `are on the page <a href="/sources">Sources</a>`) != sources {
			t.Errorf("with other databases %v, the outbox is called %s", sources, excerpt(page.text))
		}
		l := dlqtest.Letters(dlqtest.From("stock-2", dlqtest.Event(7, 1)))
		l[0].LastFailedAt, l[0].DLQRecordAt = time.Now().Add(-time.Minute), time.Now().Add(-time.Minute)
		if _, err := r.services.Store.RecordLetters(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if page := b.until("/", c.has); strings.Contains(page.text, c.never) {
			t.Errorf("with other databases %v: %s", sources, excerpt(page.text))
		}
		tenant := r.tenant("stock-2")
		if page := tenant.until("/", "1 event given up"); strings.Contains(page.text, "No hold is open") {
			t.Errorf("a person of one source reads of holds: %s", excerpt(page.text))
		}
	}
}
