package ledgertest

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Session is a pool, a connection or a transaction.
type Session interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Exhaust gives an event of the outbox up with this failure as the last of three attempts, or again, as the settlement
// of the relay that leads does, short of telling the task. An empty class is that of an event without failures.
func Exhaust(ctx context.Context, s Session, id int64, class, code string) error {
	_, err := s.Exec(ctx, `
		insert into postrider.outbox_exception as x (id, state, attempts, max_attempts, episode, first_error_at, last_error_at, last_error_class,
			last_error_code, last_error, event_id, topic, copied, kind, key, payload, headers, task_uuid, idempotency_key, created_at)
		select e.id, 'exhausted', 3, 3, 1, clock_timestamp(), clock_timestamp(), nullif($2, ''), nullif($3, ''), 'the broker refused it',
			e.event_id, e.topic, true, e.kind, e.key, e.payload, e.headers, e.task_uuid, e.idempotency_key, e.created_at
		from postrider.outbox_event e where e.id = $1
		on conflict (id) do update
		set state = excluded.state, hold_id = null, attempts = excluded.attempts, max_attempts = excluded.max_attempts, episode = x.episode + 1,
			updated_at = clock_timestamp(), last_error_at = excluded.last_error_at, last_error_class = excluded.last_error_class,
			last_error_code = excluded.last_error_code, last_error = excluded.last_error, copied = true, kind = excluded.kind, key = excluded.key,
			payload = excluded.payload, headers = excluded.headers, task_uuid = excluded.task_uuid, idempotency_key = excluded.idempotency_key,
			created_at = excluded.created_at`, id, class, code)
	return err
}

// GiveUp writes an event of a task to the topic documents and gives it up, as Exhaust does.
func GiveUp(ctx context.Context, s Session, task uuid.UUID, class, code string) (id int64, event uuid.UUID, err error) {
	err = s.QueryRow(ctx, `insert into postrider.outbox_event (topic, key, payload, task_uuid) values ('documents', 'k', '{}', $1) returning id, event_id`,
		task).Scan(&id, &event)
	if err == nil {
		err = Exhaust(ctx, s, id, class, code)
	}
	return id, event, err
}

// MustGiveUp is GiveUp for a test that has nothing to do where it fails.
func MustGiveUp(t testing.TB, s Session, task uuid.UUID, class, code string) (id int64, event uuid.UUID) {
	t.Helper()
	id, event, err := GiveUp(t.Context(), s, task, class, code)
	if err != nil {
		t.Fatalf("give up an event of task %s: %v", task, err)
	}
	return id, event
}
