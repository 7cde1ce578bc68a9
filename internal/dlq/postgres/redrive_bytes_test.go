package postgres

import (
	"bytes"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// large makes n investigations of messages of 7 MiB: two of them go into a statement, nine into a transaction.
func (r *redriving) large(n int) (entries []uuid.UUID) {
	r.t.Helper()
	payload := bytes.Repeat([]byte("x"), 7<<20)
	size := int64(len(payload))
	for i := range n {
		entries = append(entries, r.die(i, func(l *dlq.Letter) { l.Payload, l.PayloadBytes = payload, &size }))
	}
	return entries
}

// wantStatements checks how many statements wrote the sent messages, and that none of them wrote more than it may.
func (r *redriving) wantStatements(want int) {
	r.t.Helper()
	// Each is in a savepoint, which has a number of its own.
	if n := r.count(`select count(distinct xmin::text) from postrider.outbox_event where id > 1000`); n != want {
		r.t.Errorf("%d statements wrote them, want %d", n, want)
	}
	if most := pgtest.Value[int64](r.t, r.subject.pool, `select max(n) from (select sum(octet_length(payload)) as n from postrider.outbox_event where id > 1000 group by xmin::text) s`); most > statementBytes {
		r.t.Errorf("one statement wrote %d bytes", most)
	}
}

// TestABatchOfLargeMessagesIsBounded: an operation sends in one transaction the messages that can be written in its time,
// and the rest at once after it.
func TestABatchOfLargeMessagesIsBounded(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	o := r.plan(dlq.Scope{Entries: r.large(12)}, dlq.OperationOptions{})
	r.command(o.UUID, dlq.Start)
	if n := r.step(); n != 9 {
		t.Fatalf("%d were treated, want 9 of 12", n)
	}
	r.wantStatements(5)
	if got := r.operation(o.UUID); got.State != dlq.Running || got.Done != 9 || got.Skipped+got.Failed != 0 {
		t.Errorf("%+v", got)
	}
	if !pgtest.Value[bool](t, r.subject.pool, `select treated_through = 9 and next_at <= clock_timestamp() from postrider.dlq_operation`) {
		t.Error("the rest is not next, and at once")
	}
	if n := r.step(); n != 3 {
		t.Errorf("%d were treated then, want 3", n)
	}
	r.wantStatements(7)
	if n := r.count(`select count(*) from postrider.dlq_operation_item where state = 'done'`); n != 12 {
		t.Errorf("%d items are done", n)
	}
	if !pgtest.Value[bool](t, r.subject.pool, `select array_agg(r.outbox_id order by l.outbox_id) = array_agg(r.outbox_id order by r.outbox_id) from postrider.dlq_redrive r join postrider.dlq_letter l using (letter_id)`) {
		t.Error("they do not go in the order in which they were written")
	}
}

// TestLargeMessagesTogether: the messages of a request go all together, by as many statements as that takes.
func TestLargeMessagesTogether(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	if done := r.redrive(r.large(11)...); len(done.Entries) != 11 {
		t.Errorf("%+v", done)
	}
	r.wantStatements(6)
}
