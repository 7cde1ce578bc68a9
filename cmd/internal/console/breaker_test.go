package console_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// keep opens the circuit breaker of a topic and code, with events behind it.
func (r *rig) keep(topic, code string, ids ...int64) {
	r.t.Helper()
	hold := pgtest.Value[int64](r.t, r.pool, `insert into postrider.outbox_hold (scope, topic, code, cause, error_code, next_probe_at)
		values ('failure', $1, $2, 'circuit_breaker', $2, now() + interval '1 hour') returning hold_id`, topic, code)
	pgtest.Exec(r.t, r.pool, `insert into postrider.outbox_event (id, event_id, topic, payload) overriding system value select id, gen_random_uuid(), $2, '{}' from unnest($1::bigint[]) id`, ids, topic)
	outboxtest.Settle(r.t, r.pool, outboxtest.Scheduled, ids...)
	pgtest.Exec(r.t, r.pool, `update postrider.outbox_exception set state = 'parked', hold_id = $2 where id = any ($1)`, ids, hold)
}

// TestEventsBehindABreakerAreNotForgotten: a cause whose investigations are closed still says that events with its code are kept,
// and so do its forms, which do not reach them.
func TestEventsBehindABreakerAreNotForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	group := r.group(r.die(1, invalidHeaders))
	r.keep("orders", "INVALID_HEADERS", 2001, 2002)
	r.keep("orders", "OTHER", 2003)
	b := r.as(access.Admin)
	const kept = "2 more events that fail with INVALID_HEADERS wait behind the circuit breaker of orders and have no investigation. The relay tries one at "
	const link = `<a href="/outbox?cause=circuit_breaker&amp;topic=orders#holds">Look at the hold</a>`
	cause := "/causes/" + group
	b.get(cause).is(t, http.StatusOK).has(t, `<p class="why">`+kept, link)
	b.get("/plan?kind=redrive&group="+group).is(t, http.StatusOK).has(t, kept, "No plan reaches them.", link)
	b.post(cause+"/resolve").is(t, http.StatusSeeOther)
	b.get(cause).is(t, http.StatusOK).has(t, "1 investigation is closed. "+kept)
	b.get(cause).is(t, http.StatusOK).has(t, `<p class="advice">`+kept, link, "No investigation is left to close.").lacks(t, "Nothing is left to do.")
	b.get("/outbox?cause=circuit_breaker&topic=orders").is(t, http.StatusOK).has(t, "2</b>")
}
