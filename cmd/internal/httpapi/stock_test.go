package httpapi_test

import (
	"context"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

const threeSteps = `{"steps": [{"name": "a", "handler": "h"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b"]}]}`

// furnish writes the templates that tasks are created from.
func (r *rig) furnish() {
	r.t.Helper()
	ledgertest.Apply(r.t, r.pool, ledgertest.Template{Configuration: threeSteps})
}

// die writes event n to the outbox as dead-lettered, records its letter and returns its investigation.
func (r *rig) die(n int) string {
	r.t.Helper()
	return r.record(r.dead(n, nil))
}

// dead writes event n to the outbox as dead-lettered, and returns its letter.
func (r *rig) dead(n int, change func(*dlq.Letter)) dlq.Letter {
	r.t.Helper()
	l := dlqtest.Letters(dlqtest.Event(n, 1))[0]
	if change != nil {
		change(&l)
	}
	id := int64(1000 + n)
	l.OutboxID = &id
	headers := `[["trace", "x"]]`
	if _, invalid := l.InvalidHeaders(); len(l.Headers) > 1 && !invalid {
		headers = string(message.MarshalHeaders(l.Headers))
	}
	r.exec(`insert into postrider.outbox_event (id, event_id, topic, key, payload, headers)
		overriding system value values ($1, $2, $3, $4, $5, $6)`,
		id, l.EventID, l.OriginTopic, l.Key, l.Payload, headers)
	outboxtest.Settle(r.t, r.pool, outboxtest.DeadLettered, id)
	return l
}

func (r *rig) record(l dlq.Letter) string {
	r.t.Helper()
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: r.pool})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := store.RecordLetters(r.t.Context(), []dlq.Letter{l}); err != nil {
		r.t.Fatal(err)
	}
	return value[uuid.UUID](r, `select dlq_entry_uuid from postrider.dlq_letter where letter_id = $1`, l.ID).String()
}

// halted is the investigation of an event that halts its key, and the number of the event and of the hold.
func (r *rig) halted(n int) (entry, event, hold string) {
	r.t.Helper()
	l := r.dead(n, func(l *dlq.Letter) { l.Key = []byte("halting " + strconv.Itoa(n)) })
	id := value[int64](r, `insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at)
		values ('key', $1, $2, 'halted', $3, 'infinity') returning hold_id`, l.OriginTopic, l.Key, l.EventID)
	return r.record(l), strconv.FormatInt(*l.OutboxID, 10), strconv.FormatInt(id, 10)
}

// pending is the number of an event that waits.
func (r *rig) pending() string {
	r.t.Helper()
	var id int64
	err := pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error {
		event, err := outbox.Enqueue(r.t.Context(), tx, outbox.Message{Topic: "orders", Key: []byte("k"), Payload: []byte(`{"a":1}`)})
		if err != nil {
			return err
		}
		return tx.QueryRow(context.WithoutCancel(r.t.Context()), `select id from postrider.outbox_event where event_id = $1`, event).Scan(&id)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return strconv.FormatInt(id, 10)
}

// delivered is the number of an event that its topic acknowledged an hour ago.
func (r *rig) delivered() string {
	r.t.Helper()
	id := r.pending()
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	outboxtest.Settle(r.t, r.pool, outboxtest.Published, number)
	r.anHourAgo()
	return id
}

// anHourAgo makes all that was settled as old.
func (r *rig) anHourAgo() {
	r.t.Helper()
	r.exec(`update postrider.outbox_receipt set at = now() - interval '1 hour'`)
}

// breaker is the number of the hold of a circuit breaker with one event behind it.
func (r *rig) breaker(code string) string {
	r.t.Helper()
	id := value[int64](r, `insert into postrider.outbox_hold (scope, topic, code, cause, error_code, next_probe_at)
		values ('failure', 'orders', $1, 'circuit_breaker', $1, now() + interval '1 hour') returning hold_id`, code)
	number, err := strconv.ParseInt(r.pending(), 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	outboxtest.Settle(r.t, r.pool, outboxtest.Scheduled, number)
	r.exec(`update postrider.outbox_exception set state = 'parked', hold_id = $1, next_attempt_at = null where id = $2`, id, number)
	return strconv.FormatInt(id, 10)
}

// task is a task, in a state.
func (r *rig) task(state string) string {
	r.t.Helper()
	id := ledgertest.Create(r.t, r.pool, ledgertest.New{Context: `{"order": 17}`})
	if state != "" {
		ledgertest.Put(r.t, r.pool, id, state)
	}
	return id.String()
}

// steps are the ids of a task's steps, by name.
func (r *rig) steps(task string) map[string]string {
	r.t.Helper()
	ids := map[string]string{}
	steps, err := r.services.Tasks.Ledger().Steps(r.t.Context(), uuid.MustParse(task))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range steps {
		ids[s.Name] = s.UUID.String()
	}
	return ids
}

// archived is a task in the archive.
func (r *rig) archived() string {
	r.t.Helper()
	id := r.task("complete")
	ledgertest.Age(r.t, r.pool, uuid.MustParse(id), 40*24*3600e9)
	r.exec(`select * from postrider.archive_completed_tasks(30, 1000, false)`)
	if there, err := r.services.Archive.Contains(r.t.Context(), uuid.MustParse(id)); err != nil || !there {
		r.t.Fatalf("task %s is not in the archive: %v", id, err)
	}
	return id
}

// taskEntry is a task that has an investigation.
func (r *rig) taskEntry() string {
	r.t.Helper()
	r.record(dlqtest.Letters(dlqtest.Task(7, 1))[0])
	return dlqtest.EventID(7).String()
}
