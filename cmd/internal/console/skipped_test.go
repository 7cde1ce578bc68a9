package console_test

import (
	"html"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// TestWhatAPlanSkips: a plan names the headers that keep messages from being sent, and leads to them, as long as it goes;
// when it has ended, what was skipped can be planned again.
func TestWhatAPlanSkips(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	first := r.die(1, invalidHeaders)
	var ids []string
	for n := 2; n < 4; n++ {
		ids = append(ids, r.die(n, func(l *dlq.Letter) {
			invalidHeaders(l)
			l.ErrorMessage = strings.ReplaceAll(l.ErrorMessage, "priority", "tenant")
			l.Headers = []message.Header{{Name: message.HeaderInvalidHeaders, Value: []byte(`{"tenant": 5}`)}}
		}))
	}
	b := r.as(access.Admin)
	operation := b.post("/plan", "kind", "redrive", "id", first, "id", ids[0], "id", ids[1], "name", "urgent", "canary", "1", "headers", "priority: 5").is(t, http.StatusSeeOther).header.Get("Location")
	says := func() {
		t.Helper()
		page := b.get(operation).is(t, http.StatusOK).has(t, "2 are about the header “tenant”, which cannot be read", "2 would be skipped: Some of its headers cannot be read")
		if strings.Contains(page.text, "--header") || strings.Contains(page.text, "header “priority”") {
			t.Error("the plan speaks of flags of the command, or of a header that is given")
		}
		_, link, _ := strings.Cut(page.text, `href="/investigations?`)
		link, _, _ = strings.Cut(link, `"`)
		b.get("/investigations?"+html.UnescapeString(link)).is(t, http.StatusOK).has(t, "2 investigations are open.")
	}
	says()
	b.post(operation+"/start").is(t, http.StatusSeeOther)
	says()
	b.get(operation).has(t, "the other 2 go")
	id := path.Base(operation)
	pgtest.Exec(t, r.pool, `update postrider.dlq_operation_item set state = 'skipped', reason = 'unreadable_headers' where dlq_operation_uuid = $1::uuid and dlq_entry_uuid <> $2::uuid`, id, first)
	pgtest.Exec(t, r.pool, `update postrider.dlq_operation_item set state = 'done', outcome = 'delivered' where dlq_operation_uuid = $1::uuid and dlq_entry_uuid = $2::uuid`, id, first)
	pgtest.Exec(t, r.pool, `update postrider.dlq_operation set state = 'completed', skipped = 2, done = 1, delivered = 1, treated_at = now(), finished_at = now() where dlq_operation_uuid = $1::uuid`, id)
	ended := b.get(operation).is(t, http.StatusOK).has(t, "Plan the 2 again", "2 are about the header “tenant”")
	_, link, _ := strings.Cut(ended.text, `href="/plan?`)
	link, _, _ = strings.Cut(link, `"`)
	b.get("/plan?"+html.UnescapeString(link)).is(t, http.StatusOK).has(t, "2 investigations that were picked", ids[0], ids[1])
}

// TestTasksAreNotSent: a redrive of tasks alone would send nothing. Neither the form nor the API makes such a plan.
func TestTasksAreNotSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	letter := dlqtest.Letters(dlqtest.Task(7, 1))[0]
	if _, err := r.services.Store.RecordLetters(t.Context(), []dlq.Letter{letter}); err != nil {
		t.Fatal(err)
	}
	entry := pgtest.Value[string](t, r.pool, `select dlq_entry_uuid::text from postrider.dlq_entry where subject_type = 'task'`)
	b := r.as(access.Admin)
	b.get("/plan?kind=redrive&group="+r.group(entry)).is(t, http.StatusConflict).has(t, "This cause is about tasks", "put it back to its beginning")
	for _, scope := range [][]string{{"group", r.group(entry)}, {"id", entry}} {
		to := b.post("/plan", append([]string{"kind", "redrive", "name", "tasks"}, scope...)...).is(t, http.StatusSeeOther).header.Get("Location")
		if strings.HasPrefix(to, "/operations/") {
			t.Errorf("a redrive of tasks alone is planned: %v", scope)
		}
	}
	b.get("/operations").has(t, "all 1 in its scope are about tasks")
}
