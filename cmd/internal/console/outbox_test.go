package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestTheOutbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Admin)
	b.until("/outbox", "No event waits.").is(t, http.StatusOK).has(t, "Nothing is held back.", "No event was written yet.", `aria-current="page">Outbox`)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, key, payload, headers) overriding system value
		select n, gen_random_uuid(), case when n % 2 = 0 then 'orders' else 'refunds' end, convert_to('key ' || n, 'UTF8'), '{"n": 1}', '{"trace": "x"}' from generate_series(1, 60) n`)
	outboxtest.Settle(t, r.pool, outboxtest.Published, 1, 2)
	outboxtest.Settle(t, r.pool, outboxtest.DeadLettered, 3)
	hold := pgtest.Value[string](t, r.pool, `insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 'refunds', 'route', now() + interval '1 minute') returning hold_id::text`)
	b.until("/outbox", "1 hold is open").is(t, 200).has(t, "Topic refunds", "Waits for the topic", "Try one now", "Older", "#events")
	first := b.get("/outbox")
	if n := strings.Count(first.text, "<tr role=\"row\" data-row"); n != 25 {
		t.Errorf("%d events on the first page", n)
	}
	b.get("/outbox?status=dead_lettered").is(t, 200).has(t, "Given up", `href="/outbox/3"`)
	if page := b.get("/outbox?topic=orders").is(t, 200).text; strings.Contains(page, `href="/outbox/3"`) || strings.Contains(page, "Try one now") {
		t.Error("a filter on a topic shows another topic")
	}
	for filter, finds := range map[string]bool{"key=no-such-key": false, "error_code=NO_SUCH": false, "hold_id=999": false, "from=2099-01-01": false, "to=2099-01-01": true, "state=dead_lettered&from=2099-01-01": false} {
		if found := strings.Contains(b.get("/outbox?"+filter).is(t, 200).text, "data-row"); found != finds {
			t.Errorf("with %s events are listed: %v", filter, found)
		}
	}
	b.get("/outbox?hold_id=odd").is(t, http.StatusBadRequest)
	b.get("/outbox?key=k").is(t, 200).has(t, `name="key" value="k"`)
	b.get("/outbox?topic=nowhere").is(t, 200).has(t, "No event matches.", "No hold matches.", "Clear the filter")
	b.get("/outbox?cause=halted").is(t, 200).has(t, "No hold matches.")
	b.get("/outbox?status=odd").is(t, http.StatusBadRequest).has(t, "must be one of")
	b.get("/outbox?cause=odd").is(t, http.StatusBadRequest).has(t, "must be one of")
	b.get("/outbox/9999999").is(t, http.StatusNotFound)
	b.get("/outbox/odd").is(t, http.StatusBadRequest)
	to := b.post("/holds/"+hold+"/release", "back", "/outbox?topic=refunds").is(t, http.StatusSeeOther).header.Get("Location")
	if to != "/outbox?topic=refunds" {
		t.Errorf("releasing a hold leads to %s", to)
	}
	b.get(to).has(t, "One event is tried now. If it arrives, all that waits behind it goes on; if not, the hold stays")
	r.keep("refunds", "BAD", 2001)
	breaker := pgtest.Value[string](t, r.pool, `select hold_id::text from postrider.outbox_hold where cause = 'circuit_breaker'`)
	b.get("/outbox?topic=refunds").is(t, http.StatusOK).has(t, "Try all now", "Try one now")
	b.post("/holds/"+breaker+"/release", "back", "/outbox").is(t, http.StatusSeeOther)
	b.get("/outbox").has(t, "All that waits behind it is tried once more.")
}

func TestAnEventsLife(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, invalidHeaders)
	pgtest.Exec(t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, key, payload, headers) overriding system value
		values (5000, gen_random_uuid(), 'orders', 'k', '{"secret": 5}', '{"trace": "abc"}'), (5001, gen_random_uuid(), 'orders', 'l', null, '[]')`)
	b := r.as(access.Admin)
	b.get("/outbox/1001").is(t, 200).has(t, "was given up", "/investigations/"+entry, "Send it again…", "It was given up already.")
	if strings.Contains(b.get("/outbox/1001").text, "its topic acknowledged it") {
		t.Error("an event that was given up has arrived, says its life")
	}
	b.post("/outbox/1001/redrive").is(t, http.StatusSeeOther)
	b.get("/outbox/1001").has(t, "notice waiting", "does not halt its key") // the rule is the outbox's own
	waits := b.get("/outbox/5000").is(t, 200).has(t, "waits for its turn", "Written", "13 bytes of payload", "Give it up…", "Only an event that was given up is sent again here")
	if strings.Contains(waits.text, "secret") {
		t.Error("a payload is shown before a person asked")
	}
	b.lookAt("/outbox/5000/reveal", "as", "json").is(t, 200).has(t, "secret", "trace", "abc", "The audit log has that you looked.")
	b.lookAt("/outbox/5001/reveal").is(t, 200).has(t, "It is a tombstone")
	if who := pgtest.Value[string](t, r.pool, `select actor from postrider.access_audit where action = 'payload.reveal' and target_id = '5000'`); who != "key admin" {
		t.Errorf("the audit log says that %q looked", who)
	}
	b.post("/outbox/5000/skip", "reason", " ").is(t, http.StatusSeeOther)
	b.get("/outbox/5000").has(t, "notice waiting", "it must say why")
	b.post("/outbox/5000/skip", "reason", "asked for by sales").is(t, http.StatusSeeOther)
	b.get("/outbox/5000").has(t, "It is given up: it becomes a dead letter")
	if why := pgtest.Value[string](t, r.pool, `select reason from postrider.outbox_skip_request where id = 5000`); why != "asked for by sales" {
		t.Errorf("the reason is %q", why)
	}
	outboxtest.Settle(t, r.pool, outboxtest.Published, 5001)
	b.get("/outbox/5001").is(t, 200).has(t, "The event arrived in orders.", "It arrived: there is nothing to do.", "its topic acknowledged it")
}
