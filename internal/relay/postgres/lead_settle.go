package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
)

var (
	logPutHolds    = query("log_put_holds")
	logChangeHolds = query("log_change_holds")
	logEndHolds    = query("log_end_holds")
	logExceptions  = query("log_exceptions")
	logGone        = query("log_gone")
	logPutBack     = query("log_put_back")
	logSkipped     = query("log_skipped")
	logTasksMove   = query("log_tasks_move")
	logTaskEvents  = query("log_task_events")
)

// atLeisure bounds the events of a transaction of receipts that does not wait for the disk: it has fewer. After a crash of
// PostgreSQL these events go once more; writes that build on the transaction are later in the WAL and lost too.
const atLeisure = 64

// Settle implements relay.Leadership.
func (d *leadership) Settle(ctx context.Context, rs []*relay.Receipt) (err error) {
	defer d.log.asStoreError(&err, true)
	b := &pgx.Batch{}
	m := merged(rs)
	if m.Plain() && m.Events.Len() < atLeisure {
		b.Queue("select set_config('synchronous_commit', 'off', true)")
	}
	b.Queue("select postrider.outbox_assert_leader($1)", d.nonce)
	number, position := d.number+1, max(d.position, m.Position)
	b.Queue(logReceipt, d.receiptArgs(number, position, m)...)
	if len(m.Tasks) > 0 {
		tasks, ids := make([]uuid.UUID, len(m.Tasks)), make([]int64, len(m.Tasks))
		for i, t := range m.Tasks {
			tasks[i], ids[i] = t.TaskUUID, t.ID
		}
		b.Queue(logTaskEvents, tasks, ids)
	}
	queueExceptions(b, m)
	if err := d.log.pool.Send(ctx, b); err != nil {
		return notLeading(err)
	}
	d.number, d.position = number, position
	return nil
}

func (d *leadership) receiptArgs(number, position int64, m *relay.Receipt) []any {
	var first *int64
	if len(m.Events) > 0 {
		first = &m.Events[0].First
	}
	var gaps, returned *string
	if m.Gaps != nil {
		text := rangesText(m.Gaps)
		gaps = &text
	}
	if len(m.Gone) > 0 {
		text := rangesText(unordered(m.Gone))
		returned = &text
	}
	var trying *int64
	var note *string
	if m.Trying != 0 {
		word := "trying"
		trying, note = &m.Trying, &word
	}
	return []any{number, d.began.Term, position, first, rangesText(m.Events), rangesText(m.Forgotten), gaps, returned, trying, note, nil, nil}
}

// unordered is the set of ids in any order.
func unordered(ids []int64) (rs relay.Ranges) {
	for _, id := range ids {
		rs = rs.Union(relay.Ranges{{First: id, Last: id}})
	}
	return rs
}

// merged is one receipt with the effect of several, one after the other.
func merged(rs []*relay.Receipt) *relay.Receipt {
	if len(rs) == 1 {
		return rs[0]
	}
	m := &relay.Receipt{}
	known := true // whether the gaps after the last receipt that moved the position are known
	for _, r := range rs {
		m.Events, m.Forgotten = m.Events.Union(r.Events), m.Forgotten.Union(r.Forgotten)
		if r.Position > 0 {
			m.Position, m.Gaps, known = r.Position, r.Gaps, r.Gaps != nil
		}
		if r.Trying != 0 {
			m.Trying = r.Trying
		}
		m.Sent += r.Sent
		m.Holds, m.Ended = append(m.Holds, r.Holds...), append(m.Ended, r.Ended...)
		m.Exceptions, m.Gone, m.Putback = append(m.Exceptions, r.Exceptions...), append(m.Gone, r.Gone...), append(m.Putback, r.Putback...)
		m.Skipped, m.Tasks = append(m.Skipped, r.Skipped...), append(m.Tasks, r.Tasks...)
	}
	if !known {
		m.Gaps = nil
	}
	return m
}

// queueExceptions queues the changes of holds and exceptions, in the order in which each needs the one before.
func queueExceptions(b *pgx.Batch, r *relay.Receipt) {
	if len(r.Holds) > 0 {
		put, change := holdColumns(r.Holds)
		if len(put.id) > 0 {
			b.Queue(logPutHolds, put.args()...)
		}
		if len(change.id) > 0 {
			b.Queue(logChangeHolds, change.args()...)
		}
	}
	if len(r.Exceptions) > 0 {
		x, exhausted := exceptionColumns(r.Exceptions)
		b.Queue(logExceptions, x...)
		if len(exhausted) > 0 {
			b.Queue(logTasksMove, exhausted)
		}
	}
	if len(r.Gone) > 0 {
		b.Queue(logGone, r.Gone)
	}
	if len(r.Putback) > 0 {
		b.Queue(logPutBack, r.Putback)
	}
	if len(r.Skipped) > 0 {
		b.Queue(logSkipped, r.Skipped)
	}
	if len(r.Ended) > 0 {
		b.Queue(logEndHolds, r.Ended)
	}
}

// holdRows are holds as columns.
type holdRows struct {
	id                       []int64
	scope, topic, cause      []string
	code, errorCode, message []*string
	key                      [][]byte
	partition, partitions    []*int32
	event                    []*uuid.UUID
	probes                   []int
	draining, answered       []bool
	wait                     []*int64
}

func (r *holdRows) args() []any {
	return []any{r.id, r.scope, r.topic, r.key, r.partition, r.partitions, r.code, r.cause, r.errorCode, r.message, r.event, r.probes,
		r.draining, r.wait, r.answered}
}

// holdColumns are the holds to put in place and the holds to change. If a hold is changed twice, the last change counts.
func holdColumns(holds []relay.HoldChange) (put, change holdRows) {
	last := map[int64]relay.HoldChange{}
	var order []int64
	for _, h := range holds {
		before, known := last[h.ID]
		if !known {
			order = append(order, h.ID)
		}
		h.New, h.Answered = h.New || before.New, h.Answered || before.Answered
		last[h.ID] = h
	}
	for _, id := range order {
		h := last[id]
		r := &change
		if h.New {
			r = &put
		}
		r.id, r.scope, r.topic, r.cause = append(r.id, id), append(r.scope, string(h.Scope)), append(r.topic, h.Topic), append(r.cause,
			string(h.Cause))
		r.key, r.probes = append(r.key, h.Key), append(r.probes, h.Probes)
		r.draining, r.answered = append(r.draining, h.Draining), append(r.answered, h.Answered)
		r.errorCode, r.message = append(r.errorCode, orNull(h.Code)), append(r.message, orNull(text(h.Error)))
		var partition, partitions *int32
		if h.Scope == relay.ScopePartition {
			partition, partitions = &h.Partition, &h.Partitions
		}
		r.partition, r.partitions = append(r.partition, partition), append(r.partitions, partitions)
		var code *string
		if h.Scope == relay.ScopeFailure {
			code = &h.FailureCode
		}
		r.code = append(r.code, code)
		r.event = append(r.event, orNoUUID(h.EventID))
		var wait *int64
		if h.ProbeIn != relay.Forever {
			us := micros(h.ProbeIn)
			wait = &us
		}
		r.wait = append(r.wait, wait)
	}
	return put, change
}

// exceptionColumns are the arguments of log_exceptions; if an event is there twice, the last one counts.
// exhausted are the ids of the events of tasks that were given up.
func exceptionColumns(list []relay.Exception) (args []any, exhausted []int64) {
	if len(list) > 1 {
		at := make(map[int64]int, len(list))
		kept := list[:0:0]
		for _, x := range list {
			if i, twice := at[x.ID]; twice {
				kept[i] = x
				continue
			}
			at[x.ID] = len(kept)
			kept = append(kept, x)
		}
		list = kept
	}
	n := len(list)
	id, event, topic, state := make([]int64, n), make([]uuid.UUID, n), make([]string, n), make([]string, n)
	hold, wait, most := make([]*int64, n), make([]*int64, n), make([]*int32, n)
	attempts := make([]int32, n)
	class, code, message := make([]*string, n), make([]*string, n), make([]*string, n)
	for i := range list {
		x := &list[i]
		id[i], event[i], topic[i], state[i], attempts[i] = x.ID, x.EventID, x.Topic, string(x.State), int32(x.Attempts)
		if x.State == relay.Parked {
			hold[i] = &x.Hold
		}
		if x.In > 0 {
			us := micros(x.In)
			wait[i] = &us
		}
		if x.MaxAttempts > 0 {
			m := int32(x.MaxAttempts)
			most[i] = &m
		}
		if f := &x.Failure; f.Class != "" {
			class[i], code[i], message[i] = orNull(string(f.Class)), orNull(f.Code), orNull(text(f.Error))
		}
		if x.State == relay.Exhausted && x.TaskUUID != uuid.Nil {
			exhausted = append(exhausted, x.ID)
		}
	}
	return []any{id, event, topic, state, hold, wait, attempts, most, class, code, message}, exhausted
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
