package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// long is a name of so many bytes without a place to break a line.
func long(name string, size int) string {
	return strings.Repeat(name+"_", size/(len(name)+1)+1)[:size]
}

// strain makes the names and texts of brokers as long as they may be.
func (s *brokersSay) strain(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lag, end, denied := int64(1204), int64(5204), "TOPIC_AUTHORIZATION_FAILED: "+long("denied", 4000)
	s.topics = []api.Topic{{Name: topic, Uses: []api.TopicUse{api.UsedForEvents}, Waits: true, Problem: &denied}}
	group := api.ConsumerGroup{Name: long("group", 200), Protocol: api.ProtocolConsumer, State: "Stable", Members: 3, Topics: []string{topic, long("other", 249)}, Lag: 1204, Standing: 1,
		Partitions: []api.ConsumedPartition{{Topic: topic, Committed: 4000, End: &end, Lag: &lag, Standing: true}}}
	unread := api.ConsumerGroup{Name: long("unread", 200), Protocol: api.ProtocolClassic, State: "Stable", Problem: &denied}
	s.groups = []api.ConsumerGroup{group, unread}
	s.found = []doctor.Finding{{Group: "topics", Check: topic, Verdict: doctor.Failed, Says: denied, Hint: denied}}
	s.dbs = []api.Source{{Name: long("source", 40), Database: "postgres://" + long("host", 400), Origin: long("/folder", 300) + ":1", Reason: new("away"), Error: &denied, Leader: new(long("relay", 200))},
		{Name: long("other", 40), Database: "postgres://" + long("host", 400), OK: true, Led: true, Leader: new(long("relay", 200))}}
}

// TestLongNamesInABrowser: with names and texts as long as they may be, no page is wider than its window, no two texts lie on one
// another, and a text that is cut is whole under the pointer.
func TestLongNamesInABrowser(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"console.name": long("installation", 100)})
	r.silentStreams.Store(true)
	topic, why := long("topic", 249), "cannot be handled: "+long("why", 2000)+" "+strings.Repeat("and more ", 220)
	var entry string
	for n := range 3 {
		entry = r.die(n+1, func(l *dlq.Letter) {
			l.OriginTopic, l.DLQTopic, l.ConsumerGroup = topic, long("letters", 249), long("group", 200)
			l.ErrorMessage, l.ErrorCode, l.Key = why, long("CODE", 100), []byte(long("key", 2000))
			l.Headers = []message.Header{{Name: long("name", 300), Value: []byte(long("value", 3000))}}
			l.Payload = []byte(`{"` + long("member", 500) + `": "` + long("value", 3000) + `"}`)
		})
	}
	admin := r.as(access.Admin)
	cause, letter := "/causes/"+r.group(entry), "/investigations/"+entry
	for _, page := range []string{cause, letter} {
		admin.post(page+"/change", "what", "assign", "assignee", long("person", 200)).is(t, http.StatusSeeOther)
		admin.post(page+"/comments", "text", long("comment", 3000)).is(t, http.StatusSeeOther)
	}
	admin.post(cause+"/change", "what", "note", "note", long("note", 2000)).is(t, http.StatusSeeOther)
	operation := admin.post("/plan", "kind", "redrive", "group", r.group(entry), "name", long("operation", 200), "why", long("reason", 1000), "canary", "1", "rate", "20", "target", long("target", 249)).is(t, http.StatusSeeOther).header.Get("Location")
	if !strings.HasPrefix(operation, "/operations/") {
		t.Fatalf("no plan: %s", operation)
	}
	admin.post(operation+"/start").is(t, http.StatusSeeOther)
	r.played(operation, `state = 'halted', done = 2, came_back = 2, error = '`+long("error", 500)+`'`)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_hold (scope, topic, code, cause, error_code, error, next_probe_at)
		values ('failure', $1, $2, 'circuit_breaker', $2, $3, now() + interval '1 minute')`, topic, long("CODE", 60), why)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, key, payload) overriding system value values (3001, gen_random_uuid(), $1, $2, '{}')`, topic, long("key", 2000))
	outboxtest.SettleAll(t, r.pool, outboxtest.Scheduled, `select id from postrider.outbox_event where id = 3001`)
	template := long("template", 128)
	ledgertest.Apply(t, r.pool, ledgertest.Template{Namespace: long("namespace", 100), Name: template, Configuration: `{"steps": [{"name": "` + long("step", 128) + `", "max_retries": 0}, {"name": "next", "dependencies": ["` + long("step", 128) + `"]}]}`})
	task := ledgertest.Create(t, r.pool, ledgertest.New{Namespace: long("namespace", 100), Name: template, Context: `{"` + long("member", 500) + `": 1}`})
	step := ledgertest.Steps(t, r.pool, task)[long("step", 128)]
	pgtest.Exec(t, r.pool, `select postrider.enqueue_step($1)`, step.UUID)
	pgtest.Exec(t, r.pool, `select postrider.start_step($1, $2)`, step.UUID, long("worker", 100))
	pgtest.Exec(t, r.pool, `select postrider.fail_step($1, $2)`, step.UUID, why)
	r.cluster.strain(topic)
	pgtest.Exec(t, r.pool, `insert into postrider.access_audit (actor, action, target_type, target_id, details) values ($1, $2, 'event', $3, jsonb_build_object('reason', $4::text))`, long("actor", 200), long("action", 100), long("id", 200), why)
	admin.until("/", "task")
	b := r.tab(t, access.Admin)
	for name, page := range map[string]string{"now": "/", "causes": "/causes", "cause": cause, "investigations": "/investigations", "letter": letter, "plan": "/plan?kind=redrive&group=" + r.group(entry), "operations": "/operations", "operation": operation,
		"outbox": "/outbox", "event": "/outbox/3001", "dead": "/outbox/1001", "tasks": "/tasks", "task": fmt.Sprintf("/tasks/%s?step=%s", task, step.UUID), "templates": "/tasks/templates", "template": "/tasks/templates/" + long("namespace", 100) + "/" + template,
		"consumers": "/consumers?group=" + long("group", 200), "doctor": "/doctor", "sources": "/sources", "source": "/sources/" + long("source", 40), "audit": "/audit", "access": "/access"} {
		b.do(chromedp.Navigate(r.URL + page))
		b.until("document.querySelector('h1') !== null && document.readyState === 'complete'")
		for _, width := range []int64{1280, 768, 320} {
			b.look(width, map[bool]string{true: "light", false: "dark"}[width != 768])
			if wide := evaluate[int](b, "document.scrollingElement.scrollWidth - innerWidth"); wide > 0 {
				t.Errorf("%s at %d is %d pixels too wide: %s", name, width, wide, evaluate[string](b, widest))
			}
			for _, found := range evaluate[[]string](b, overlapping) {
				t.Errorf("%s at %d: %s", name, width, found)
			}
			b.shoot(fmt.Sprintf("long-%s-%d", name, width))
		}
	}
}

// overlapping are pairs of texts that lie on one another, and texts that a box or the page has cut without a title that is whole.
const overlapping = `(() => {
  const out = [], texts = [];
  const nodes = document.createNodeIterator(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let n = nodes.nextNode(); n; n = nodes.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || e.closest(".sr, svg, script, pre, textarea, select, option, details:not([open]) > :not(summary)") || !e.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    let box = { left: -1e6, right: 1e6, top: -1e6, bottom: 1e6 }, hidden = false;
    for (let up = e; up; up = up.parentElement) {
      const s = getComputedStyle(up);
      if (s.overflowX !== "visible" || s.overflowY !== "visible") {
        const r = up.getBoundingClientRect();
        box = { left: Math.max(box.left, r.left), right: Math.min(box.right, r.right), top: Math.max(box.top, r.top), bottom: Math.min(box.bottom, r.bottom) };
        hidden ||= s.overflowX === "hidden" && up.scrollWidth > up.clientWidth + 1 && up !== document.body;
      }
    }
    if ((hidden || n.data.trim().endsWith("…") && n.data.length > 30) && !e.closest("[title], th, button, summary, a.btn, option, h3, p.more, .notice, p.hint, .cause-say, legend, h1") && !e.querySelector("[title]")) out.push("cut, and nowhere whole: " + e.tagName + "." + e.className + " in " + e.parentElement.className + ": " + n.data.trim().slice(0, 60));
    const range = document.createRange();
    range.selectNodeContents(n);
    for (const r of range.getClientRects()) {
      const left = Math.max(r.left, box.left), right = Math.min(r.right, box.right), top = Math.max(r.top, box.top), bottom = Math.min(r.bottom, box.bottom);
      if (right - left > 2 && bottom - top > 2) texts.push({ e, left, right, top: top + 3, bottom: bottom - 3, text: n.data.trim().slice(0, 40) });
    }
  }
  texts.sort((a, b) => a.top - b.top);
  for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length && texts[j].top < texts[i].bottom; j++) {
    const a = texts[i], b = texts[j];
    if (a.e !== b.e && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2) out.push("one on another: " + JSON.stringify(a.text) + " and " + JSON.stringify(b.text));
  }
  return out.slice(0, 10);
})()`
