package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// TestBesideAGoodOne: a cause shows how its message differs from the nearest event of its topic and type that was delivered,
// to people who may see payloads, and the audit log has both looks.
func TestBesideAGoodOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, func(l *dlq.Letter) {
		invalidHeaders(l)
		l.Headers = append(l.Headers, message.Header{Name: "type", Value: []byte("placed")})
		l.Payload = []byte(`{"order": 7, "total": "12", "note": "<script>alert(1)</script>"}`)
	})
	cause := "/causes/" + r.group(entry)
	b := r.as(access.Admin)
	b.lookAt(cause+"/compare").is(t, http.StatusOK).has(t, "no delivered event of orders any more")
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, key, payload, headers) overriding system value values
		(990, gen_random_uuid(), 'orders', 'k', '{"order": 5, "total": 12, "currency": "EUR"}', '{"type": "placed", "priority": "5"}'),
		(991, gen_random_uuid(), 'orders', 'k', '{"cancelled": true}', '{"type": "cancelled"}'),
		(992, gen_random_uuid(), 'refunds', 'k', '{}', '{"type": "placed"}')`)
	outboxtest.Settle(t, r.pool, outboxtest.Published, 990, 991, 992)
	if page := b.get(cause).is(t, http.StatusOK).has(t, "Compare them"); strings.Contains(page.text, "EUR") {
		t.Error("a payload is shown before a person asked")
	}
	shown := b.lookAt(cause+"/compare").is(t, http.StatusOK).has(t, `href="/outbox/990"`, "header priority", "currency", "EUR", "total", `&#34;12&#34;`, `\u003cscript\u003e`, "The audit log has that you looked.")
	if strings.Contains(shown.text, `href="/outbox/991"`) || strings.Contains(shown.text, "<script>alert") {
		t.Error("it is compared with another type, or a payload is not text")
	}
	if missing, value := strings.Index(shown.text, "currency"), strings.Index(shown.text, "<bdi>order</bdi>"); missing > value {
		t.Error("a value stands before a field that is missing")
	}
	if looks := pgtest.Column[string](t, r.pool, `select target_type || ' ' || target_id from postrider.access_audit where action like '%reveal%' order by access_audit_id`); len(looks) != 3 || looks[2] != "event 990" {
		t.Errorf("the audit log has the looks %q", looks)
	}
	r.as(access.Resolve).post(cause+"/compare").is(t, http.StatusForbidden)
}

// TestAnExportWaitsForTheLimit: an export asks more often than its person may, and is whole for all that.
func TestAnExportWaitsForTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"http.requests_per_second": "2", "http.request_burst": "3"})
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_event (event_id, topic, key, payload) select gen_random_uuid(), 'orders', 'k', '{}' from generate_series(1, 550)`)
	var rows []any
	if err := json.Unmarshal([]byte(r.as(access.Read).get("/outbox/export?format=json").is(t, http.StatusOK).text), &rows); err != nil || len(rows) != 550 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// TestTheNearestGoodOne: the event behind the failed one counts as the one before it, however many came later. A list that
// looked at its most and found none does not say that there is none.
func TestTheNearestGoodOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	compare := "/causes/" + r.group(r.die(1, nil)) + "/compare"
	b := r.as(access.Admin)
	add := func(topic string, from, to int, after string) {
		t.Helper()
		pgtest.Exec(t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, key, payload, created_at) overriding system value
			select n, gen_random_uuid(), $1, 'k', '{}', (select created_at from postrider.outbox_event where id = 1001) + $4::text::interval from generate_series($2::bigint, $3) n`, topic, from, to, after)
	}
	add("refunds", 2000, 22100, "1 hour")
	b.lookAt(compare).is(t, http.StatusOK).has(t, "No delivered event of orders is among the nearest 20,000 events.")
	add("orders", 900, 900, "-1 hour")
	add("orders", 1002, 1002, "1 second")
	add("orders", 1100, 1129, "1 day")
	settled := []int64{900, 1002}
	for id := int64(1100); id < 1130; id++ {
		settled = append(settled, id)
	}
	outboxtest.Settle(t, r.pool, outboxtest.Published, settled...)
	b.lookAt(compare).is(t, http.StatusOK).has(t, `href="/outbox/1002"`)
}

// TestAResolvedCause tells that nothing is left to do, and no longer what to do.
func TestAResolvedCause(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	cause := "/causes/" + r.group(r.die(1, invalidHeaders))
	b := r.as(access.Admin)
	b.get(cause).is(t, http.StatusOK).has(t, "repair the service", "Plan a redrive of 1", "Fix")
	b.post(cause+"/resolve", "notes", "by hand").is(t, http.StatusSeeOther)
	page := b.get(cause).is(t, http.StatusOK).has(t, "None of its 1 investigation is open: 1 resolved.", "Nothing is left to do.")
	for _, wrong := range []string{"repair the service", "Plan a redrive", "Send the canary", `class="road"`} {
		if strings.Contains(page.text, wrong) {
			t.Errorf("a resolved cause still has %q", wrong)
		}
	}
}

// TestATaskCauseLeadsOn: the page of a cause about tasks leads to the task, and tries it again.
func TestATaskCauseLeadsOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	task, _ := r.shipping()
	b := r.as(access.Admin)
	letter := dlqtest.Letters(dlqtest.Task(1, 1))[0]
	letter.Subject.ID, letter.TaskUUID = task, uuid.MustParse(task)
	if _, err := r.services.Store.RecordLetters(t.Context(), []dlq.Letter{letter}); err != nil {
		t.Fatal(err)
	}
	group := pgtest.Value[string](t, r.pool, `select dlq_group_uuid::text from postrider.dlq_entry where subject_type = 'task' and resolution_status = 'pending'`)
	b.get("/causes/"+group).is(t, http.StatusOK).has(t, `href="/tasks/`+task+`">Go to the task</a>`, `action="/tasks/`+task+`/retry"`)
	b.get("/investigations/"+pgtest.Value[string](t, r.pool, `select dlq_entry_uuid::text from postrider.dlq_entry where subject_type = 'task'`)).is(t, http.StatusOK).has(t, `href="/tasks/`+task+`">Go to the task</a>`)
	if dashed := r.as(access.Read).get("/causes/"+group).is(t, http.StatusOK).text; strings.Contains(dashed, `action="/tasks/`+task+`/retry"`) {
		t.Error("a reader may try a task again")
	}
}

// TestTasksArePutBackTogether: tasks of a cause, and tasks that were picked in the list. If the database fails in the middle, the
// page says so, and begins anew.
func TestTasksArePutBackTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"dlq.requeue_limit": "2"})
	ledgertest.Apply(t, r.pool, ledgertest.Template{})
	var tasks []string
	for n := range 4 {
		id := ledgertest.Create(t, r.pool, ledgertest.New{})
		ledgertest.Put(t, r.pool, id, "error")
		letter := dlqtest.Letters(dlqtest.Task(n, 1))[0]
		letter.Subject.ID, letter.TaskUUID = id.String(), id
		if _, err := r.services.Store.RecordLetters(t.Context(), []dlq.Letter{letter}); err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, id.String())
	}
	states := func() string {
		return pgtest.Value[string](t, r.pool, `select string_agg(state, ' ' order by task_uuid) from postrider.tasker_tasks`)
	}
	cause := "/causes/" + pgtest.Value[string](t, r.pool, `select distinct dlq_group_uuid::text from postrider.dlq_entry`)
	b := r.as(access.Admin)
	b.get(cause).is(t, http.StatusOK).has(t, `action="`+cause+`/retry"`, "Every task of the 4 open investigations", "Go to one of the tasks")
	pgtest.Exec(t, r.pool, `create function fail() returns trigger language plpgsql as $$ begin raise exception using errcode = '53100', message = 'no space left'; end $$`)
	pgtest.Exec(t, r.pool, `create trigger fail before update on postrider.tasker_tasks for each row when (old.task_uuid = '`+tasks[1]+`') execute function fail()`)
	cut := b.post(cause+"/retry").is(t, http.StatusSeeOther).header.Get("Location")
	b.get(cut).is(t, http.StatusOK).has(t, "1 task is back at its beginning.", "The database failed before all of them were reached", "Put them back to their beginning")
	pgtest.Exec(t, r.pool, `drop trigger fail on postrider.tasker_tasks`)
	to := b.post(cause+"/retry").is(t, http.StatusSeeOther).header.Get("Location")
	if got := states(); got != "pending pending pending error" || !strings.Contains(to, "?after=") {
		t.Fatalf("after the first portion they are %s, and it goes on at %s", got, to)
	}
	b.get(to).is(t, http.StatusOK).has(t, "2 tasks are back at their beginning. A task that fails again comes back here. There are more", "Put the others back")
	after, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	b.post(cause+"/retry", "after", after.Query().Get("after")).is(t, http.StatusSeeOther)
	if got := states(); got != "pending pending pending pending" {
		t.Errorf("after the second portion they are %s", got)
	}
	b.get(cause).has(t, "1 task is back at its beginning. A task that fails again comes back here.", "None of its 4 investigations is open",
		"No investigation is left to close. A task that was put back and fails again opens it again.", "</bdi> <bdi>closed ").lacks(t, "Nothing is left to do", "Nothing was done yet.")
	r.as(access.Read).get(cause).has(t, "key admin</bdi> <bdi>closed ", "as resolved</bdi>: <bdi>the task was retried")
	pgtest.Exec(t, r.pool, `update postrider.tasker_tasks set state = 'error', live = false where task_uuid = $1`, tasks[0])
	b.get("/tasks?status=error").is(t, http.StatusOK).has(t, `action="/tasks/retry"`, `name="id" value="`+tasks[0]+`"`, `name="back" value="/tasks?status=error"`)
	if to := b.post("/tasks/retry", "id", tasks[0], "id", tasks[1], "back", "/tasks?status=error").is(t, http.StatusSeeOther).header.Get("Location"); to != "/tasks?status=error" {
		t.Errorf("it leads to %s", to)
	}
	b.get("/tasks").is(t, http.StatusOK).has(t, "1 task is back at its beginning. 1 was skipped. Task "+tasks[1]+": It is pending; machine workflow retries from error. A task that fails again comes back to its cause.")
	b.post("/tasks/retry", "back", "/tasks").is(t, http.StatusSeeOther)
	b.get("/tasks").is(t, http.StatusOK).has(t, "No task is picked.")
	for _, path := range []string{"/tasks", cause} {
		if page := r.as(access.Read).get(path).is(t, http.StatusOK).text; strings.Contains(page, "/retry\"") {
			t.Errorf("%s lets a reader retry tasks", path)
		}
	}
}

// TestWhatCameBefore: a predecessor is named as what it is.
func TestWhatCameBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	first := r.die(1, invalidHeaders)
	b := r.as(access.Admin)
	b.post("/causes/"+r.group(first)+"/resolve").is(t, http.StatusSeeOther)
	pgtest.Exec(t, r.pool, `update postrider.dlq_group set resolved_through = now() - interval '1 hour'`)
	second := r.die(2, invalidHeaders)
	b.get("/investigations/"+second).is(t, http.StatusOK).has(t, `<a href="/investigations/`+first+`">the last investigation of its cause before that was resolved; it is about another event</a>`)
}

// TestPlansAreCounted: a plan says how many it is about, and its canary is no larger.
func TestPlansAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var entry string
	for n := range 3 {
		entry = r.die(n+1, invalidHeaders)
	}
	b := r.as(access.Admin)
	b.get("/plan?kind=purge&all=true").is(t, http.StatusOK).has(t, "all 3 that are open.", "3 investigations with their dead letters are removed")
	b.get("/plan?kind=redrive&group="+r.group(entry)).is(t, http.StatusOK).has(t, `type="number" min="0" max="3"`, `value="2"`)
	b.get("/plan?kind=redrive&id="+entry).is(t, http.StatusOK).has(t, `max="1"`, `value="0"`, `<details class="more-fields" open>`)
	refused := b.post("/plan", "kind", "redrive", "id", entry, "name", "one", "canary", "5").is(t, http.StatusSeeOther).header.Get("Location")
	b.get(refused).has(t, "The canary of 5 is larger than the plan, which is about 1.")
	purge := b.post("/plan", "kind", "purge", "all", "true", "name", "old ones").is(t, http.StatusSeeOther).header.Get("Location")
	b.get(purge).is(t, http.StatusOK).has(t, "Remove for good: 3 investigations")
	// What cannot be sent as it is leads to a plan, and to no command.
	b.get("/investigations/"+entry).is(t, http.StatusOK).has(t, fmt.Sprintf(`href="/plan?kind=redrive&amp;id=%s">Plan how…`, entry))
	b.post("/investigations/" + entry + "/send")
	if page := b.get("/investigations/"+entry).has(t, "It was not sent.", "plan a redrive, and say in the plan what is sent instead"); strings.Contains(page.text, "--header") {
		t.Error("the page advises a command")
	}
}

// TestBytesThatCannotBeSeen: NUL is an escape, and tabs have the same names wherever a payload is shown.
func TestBytesThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, func(l *dlq.Letter) { l.Payload = []byte("a\x00b") })
	b := r.as(access.Admin)
	got := b.lookAt("/investigations/"+entry+"/reveal", "as", "text").is(t, http.StatusOK).has(t, `a\u0000b`, ">Hex</button>", ">Text</button>")
	if strings.Contains(got.text, "\ufffd") {
		t.Error("a NUL is shown as a replacement character")
	}
	b.get("/investigations/"+entry+"?as=text").is(t, http.StatusOK).has(t, `a\u0000b`, ">Hex</a>", ">Text</a>")
}

// TestListsAreExported: a list leads to its files, with its filter; a file has all rows.
func TestListsAreExported(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"dlq.page_size_max": "2", "dlq.page_size_default": "2"})
	var entry string
	for n := range 5 {
		entry = r.die(n+1, nil)
	}
	b := r.as(access.Admin)
	b.post("/plan", "kind", "redrive", "group", r.group(entry), "name", "=one").is(t, http.StatusSeeOther)
	task, _ := r.shipping()
	b.until("/", "events given up")
	for list, c := range map[string]struct {
		has  string
		rows int // at least
	}{
		"/investigations": {entry, 5}, "/causes": {r.group(entry), 1}, "/operations": {"'=one", 1}, "/outbox": {"orders", 5}, "/tasks": {task, 1}, "/tasks/archive": {"id,namespace", 0}, "/audit": {"operation.plan", 3},
	} {
		b.get(list).is(t, http.StatusOK).has(t, `href="`+list+"/export?", "Export CSV", "Export JSON")
		csv := b.get(list+"/export?format=csv").is(t, http.StatusOK).has(t, c.has)
		if n := strings.Count(csv.text, "\n") - 1; n < c.rows {
			t.Errorf("%s: %d rows, not %d:\n%s", list, n, c.rows, csv.text)
		}
		var rows []map[string]any
		if err := json.Unmarshal([]byte(b.get(list+"/export?format=json").is(t, http.StatusOK).text), &rows); err != nil || len(rows) < c.rows {
			t.Errorf("%s: %d rows as JSON, %v", list, len(rows), err)
		}
		b.get(list+"/export?format=odd").is(t, http.StatusBadRequest)
	}
	b.get("/outbox?topic=orders&status=dead_lettered").is(t, http.StatusOK).has(t, "/outbox/export?format=csv&amp;status=dead_lettered&amp;topic=orders")
	if text := b.get("/outbox/export?format=csv&topic=nowhere").is(t, http.StatusOK).text; strings.Count(text, "\n") != 1 {
		t.Errorf("a filter that nothing matches exports %s", text)
	}
	r.as(access.Read).get("/audit/export?format=csv").is(t, http.StatusForbidden)
}

// TestTheHoldOfAnEvent is found however many other holds its topic has.
func TestTheHoldOfAnEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_hold (scope, topic, key, cause, held_at, next_probe_at) select 'key', 'orders', convert_to('k' || n, 'UTF8'), 'redrive', now() - interval '1 hour', 'infinity' from generate_series(1, 150) n`)
	hold := pgtest.Value[int64](t, r.pool, `insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 'orders', 'route', now() + interval '1 minute') returning hold_id`)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, key, payload) overriding system value values (7000, gen_random_uuid(), 'orders', 'k', '{}')`)
	outboxtest.Settle(t, r.pool, outboxtest.Scheduled, 7000)
	pgtest.Exec(t, r.pool, `update postrider.outbox_exception set state = 'parked', hold_id = $1 where id = 7000`, hold)
	r.as(access.Read).get("/outbox/7000").is(t, http.StatusOK).has(t, "Topic orders is held. Waits for the topic, or for the right to write to it.")
}

// TestWhoDidWhatToAnOperation: the page of an operation names who planned, started and halted it, to all who may read.
func TestWhoDidWhatToAnOperation(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	operation := r.as(access.Admin).post("/plan", "kind", "redrive", "id", entry, "name", "one", "canary", "").is(t, http.StatusSeeOther).header.Get("Location")
	other := r.as(access.Redrive)
	other.post(operation+"/start").is(t, http.StatusSeeOther)
	other.post(operation+"/pause").is(t, http.StatusSeeOther)
	// Its batches have rows in the audit log, too.
	pgtest.Exec(t, r.pool, `insert into postrider.access_audit (actor, action, target_type, target_id, details) select 'ada', 'dlq.requeue', 'operation', $1, '{}' from generate_series(1, 60)`, path.Base(operation))
	r.as(access.Read).get(operation).is(t, http.StatusOK).has(t, "<b><bdi>key admin</bdi></b> <bdi>planned it", "<b><bdi>key redrive</bdi></b> <bdi>started it", "<b><bdi>key redrive</bdi></b> <bdi>halted it",
		"key <code><bdi>key-1</bdi></code>", "event <code>"+dlqtest.EventID(1).String()+"</code>", "on <bdi>orders</bdi>")
}
