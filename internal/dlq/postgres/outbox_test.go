package postgres

import (
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// outboxID is outbox_event.id of event n.
func outboxID(n int) int64 { return *dlqtest.Letters(dlqtest.Event(n, 1))[0].OutboxID }

// settle makes of event n what a leader makes of it.
func (r *redriving) settle(state string, n int) {
	r.t.Helper()
	outboxtest.Settle(r.t, r.subject.pool, state, outboxID(n))
}

// waiting are the ids of the next n sent events that the log still has before it.
func (r *redriving) waiting(n int) []int64 {
	r.t.Helper()
	return pgtest.Column[int64](r.t, r.subject.pool, outboxtest.Pending+` limit $2`, 1000, n)
}

// settleSent makes of the next n sent events what a leader makes of them.
func (r *redriving) settleSent(state string, n int) {
	r.t.Helper()
	outboxtest.Settle(r.t, r.subject.pool, state, r.waiting(n)...)
}

// deliverAndForget has the next n sent events delivered; retention takes them before anything has looked at them.
func (r *redriving) deliverAndForget(n int) {
	r.t.Helper()
	ids := r.waiting(n)
	outboxtest.Settle(r.t, r.subject.pool, outboxtest.Published, ids...)
	mustExec(r.t, r.subject.pool, `delete from postrider.outbox_event where id = any ($1)`, ids)
}

// settleAll makes of all events that wait for a time what a leader makes of them.
func (r *redriving) settleAll(state string) {
	r.t.Helper()
	outboxtest.SettleAll(r.t, r.subject.pool, state, `select id from postrider.outbox_exception where state = 'scheduled'`)
}

// gap has the log go past the sent events, which were not visible then.
func (r *redriving) gap() {
	r.t.Helper()
	mustExec(r.t, r.subject.pool, `insert into postrider.outbox_event (topic) values ('elsewhere')`)
	outboxtest.SettleAll(r.t, r.subject.pool, outboxtest.Published, `select id from postrider.outbox_event where topic = 'elsewhere'`)
}
