package console_test

import (
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// played sets how an operation stands, as its engine would have left it.
func (r *rig) played(operation, set string) {
	r.t.Helper()
	pgtest.Exec(r.t, r.pool, `update postrider.dlq_operation set updated_at = now(), `+set+` where dlq_operation_uuid = $1::uuid`, path.Base(operation))
}

// lacks reports texts that a page must not have.
func (g got) lacks(t *testing.T, what ...string) got {
	t.Helper()
	for _, w := range what {
		if strings.Contains(g.text, w) {
			t.Errorf("the page (%d) has %q:\n%s", g.status, w, excerpt(g.text))
		}
	}
	return g
}

// TestAPlanThatIsMadeAgain: a plan that would send nothing ends when another is made in its place, also by the page of the cause,
// and the cause shows the operation that did the work. A plan that was ended says nothing of the investigations that it left.
func TestAPlanThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	group := r.group(r.die(1, invalidHeaders))
	r.die(2, invalidHeaders)
	b := r.as(access.Admin)
	plan := func(more ...string) string {
		t.Helper()
		return b.post("/plan", append([]string{"kind", "redrive", "group", group}, more...)...).is(t, http.StatusSeeOther).header.Get("Location")
	}
	idle := r.planned(map[string]any{"kind": "redrive", "name": "idle", "scope": map[string]any{"group": group}}) // the form makes no such plan
	b.get(idle).is(t, http.StatusOK).has(t, "idle would send nothing", "&amp;instead="+path.Base(idle))
	b.get("/plan?kind=redrive&group="+group).is(t, http.StatusOK).has(t, `name="instead" value="`+path.Base(idle), "It ends when this plan is made.")
	good := plan("name", "good", "headers", "priority: 5", "instead", path.Base(idle))
	b.get(good).is(t, http.StatusOK).has(t, "The plan “idle” is ended")
	b.get(idle).is(t, http.StatusOK).has(t, "idle was ended before it began.", "Nothing of it was done.").lacks(t, "open as before")
	b.post(good+"/start").is(t, http.StatusSeeOther)
	third := plan("name", "third", "headers", "priority: 5", "instead", path.Base(good))
	b.get(third).has(t, "notice waiting", "This plan is made beside “good”, which was to end: key admin started it at ")
	if state := pgtest.Value[string](t, r.pool, `select state from postrider.dlq_operation where name = 'good'`); state == "aborted" {
		t.Error("an operation that was started is ended by a plan")
	}
	b.get("/causes/"+group).has(t, path.Base(good))
	r.played(good, `state = 'completed', done = 2, delivered = 2, started_at = now(), treated_at = now(), finished_at = now()`)
	plan("name", "fourth", "headers", "priority: 5")
	b.post("/causes/"+group+"/resolve").is(t, http.StatusSeeOther)
	page := b.get("/causes/"+group).is(t, http.StatusOK)
	page.text, _, _ = strings.Cut(page.text, `<section id="activity"`)
	page.has(t, "good is done: all 2 arrived.").lacks(t, "fourth", "would send nothing")
}

// TestARoadBehindManyOperations: the redrive of a cause that is under way is on its page, however many operations of other causes
// are newer.
func TestARoadBehindManyOperations(t *testing.T) {
	t.Parallel()
	r, b, group, operation := planned(t)
	b.post(operation+"/start").is(t, http.StatusSeeOther)
	pgtest.Exec(t, r.pool, `insert into postrider.dlq_operation (kind, name, actor, state, scope, created_at)
		select 'redrive', 'newer ' || n, 'ann', 'completed', '{}', now() + interval '1 second' from generate_series(1, 60) n`)
	b.get("/causes/"+group).is(t, http.StatusOK).has(t, "first: 0 of the canary of 5 arrived.")
	b.get("/plan?kind=redrive&group="+group).is(t, http.StatusOK).has(t, "This cause has an operation already")
}

// TestTheProofOfAClosedCauseStays: hours later, and behind newer operations of the same investigations that sent nothing, the page of
// a cause still shows that its messages arrived.
func TestTheProofOfAClosedCauseStays(t *testing.T) {
	t.Parallel()
	r, b, group, operation := planned(t)
	r.played(operation, `state = 'completed', done = 7, delivered = 7, started_at = now(), treated_at = now(), finished_at = now() - interval '2 hours'`)
	b.post("/causes/"+group+"/resolve").is(t, http.StatusSeeOther)
	pgtest.Exec(t, r.pool, `insert into postrider.dlq_operation (kind, name, actor, state, scope, created_at, finished_at, items, skipped)
		select 'redrive', 'newer ' || n, 'ann', case n % 2 when 0 then 'aborted' else 'completed' end, jsonb_build_object('group', $1::text), now() + interval '1 second',
			now() + interval '2 seconds', 3, 3 from generate_series(1, 120) n`, group)
	b.get("/causes/"+group).is(t, http.StatusOK).has(t, `<b>Confirmed<span class="sr">, done</span></b>7 of 7 arrived`, "first is done: all 7 arrived.", operation, "None of its 7 investigations is open: 7 resolved.")
}

// planned is a person with a plan to redrive the 7 messages of a group, with a canary of 5.
func planned(t *testing.T) (r *rig, b *browser, group, operation string) {
	t.Helper()
	r = newRig(t, nil)
	for n := range 7 {
		group = r.group(r.die(n+1, nil))
	}
	b = r.as(access.Admin)
	operation = b.post("/plan", "kind", "redrive", "group", group, "name", "first", "canary", "5").is(t, http.StatusSeeOther).header.Get("Location")
	return r, b, group, operation
}

// TestACanaryThatFailed is a red step, before and after its operation is ended; what failed is the first choice, and sending the
// others asks. The text of the ended operation says that what was sent failed.
func TestACanaryThatFailed(t *testing.T) {
	t.Parallel()
	r, b, group, operation := planned(t)
	b.post(operation+"/start").is(t, http.StatusSeeOther)
	const why = "5 of 5 became dead letters again, more than 10 %"
	r.played(operation, `state = 'halted', done = 5, came_back = 5, error = '`+why+`'`)
	const canary, failed = `<b>Canary<span class="sr">, failed</span></b>0 of 5 arrived, 5 failed again`, `<span class="dot failed">`
	for _, page := range []string{operation, "/causes/" + group} {
		b.get(page).is(t, http.StatusOK).has(t, canary, failed, `<a class="btn main" href="`+operation+`?outcome=came_back#items">See what failed again</a>`,
			`<summary class="btn ">Send the other 2…</summary>`, "If the cause is not mended, the others fail, too.", "<b>Fix</b>sent as they are")
	}
	b.post(operation+"/abort").is(t, http.StatusSeeOther)
	b.get(operation).is(t, http.StatusOK).has(t, canary, failed, "first was ended: of 7 messages, 5 were sent; 0 arrived, 5 failed again.", "ended it, after it had halted by itself: "+why, "<b>Send</b>0 sent").
		lacks(t, "were done", "5 go first", `<b>Send<span class="sr">, done</span>`)
	cause := r.as(access.Read).get("/causes/"+group).is(t, http.StatusOK)
	_, activity, _ := strings.Cut(cause.text, `<section id="activity"`)
	got{cause.status, cause.header, activity}.has(t, `<a href="`+operation+`"><bdi>first</bdi></a>: <bdi>key admin</bdi> <bdi>planned it`, "started it", "ended it, after it had halted by itself: "+why,
		`<span class="hint"><bdi>first was ended: of 7 messages, 5 were sent; 0 arrived, 5 failed again.`)
}

// TestStepsThatAreDone speak of what was.
func TestStepsThatAreDone(t *testing.T) {
	t.Parallel()
	r, b, _, operation := planned(t)
	b.get(operation).is(t, http.StatusOK).has(t, "<b>Canary</b>5 go first", "<b>Send</b>2 wait", "<b>Fix</b>sent as they are",
		"Send 5 first, then the other 2 if they arrive</button>", "Once it is started, 5 messages go first. If they arrive, the other 2 go without another click; ")
	b.post(operation+"/start").is(t, http.StatusSeeOther)
	r.played(operation, `state = 'running', done = 6, delivered = 5`)
	b.get(operation).has(t, `<b>Canary<span class="sr">, done</span></b>5 of 5 arrived`, "<b>Send</b>1 sent, 1 waits")
	r.played(operation, `state = 'completed', done = 7, delivered = 7, treated_at = now(), finished_at = now()`)
	b.get(operation).has(t, `</b>5 of 5 arrived`, `<b>Send<span class="sr">, done</span></b>2 sent`, "7 of 7 arrived").lacks(t, "go first", "wait<", "Fix<span")
}
