package ledgertest

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Event is what the ledger wrote into the outbox about a task.
type Event struct {
	ID      int64
	EventID uuid.UUID
	Topic   string
	Kind    string
	Type    string // its header ce_type
	Payload json.RawMessage
	// Fields of the payload; empty if the payload has none.
	From, To, Step, Reason string
	SortKey                int
}

// Events reads all that has a task's uuid as its key, in the order of the outbox: lifecycle events, dead
// letters, start events.
func Events(t testing.TB, pool *pgxpool.Pool, task uuid.UUID) []Event {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		select e.id, e.event_id, e.topic, e.kind, coalesce((select h->>1 from jsonb_array_elements(e.headers) h where h->>0 = 'ce_type'), ''),
			p.payload, coalesce(p.payload->>'from_state', p.payload->>'from_status', ''),
			coalesce(p.payload->>'to_state', p.payload->>'to_status', ''), coalesce(p.payload->>'step_name', ''),
			coalesce(p.payload->>'dlq_reason', p.payload->>'reason', ''), coalesce((p.payload->>'sort_key')::int, 0)
		from postrider.outbox_event e cross join lateral (select convert_from(e.payload, 'UTF8')::jsonb as payload) p
		where e.key = convert_to($1::uuid::text, 'UTF8') order by e.id`, task)
	if err != nil {
		t.Fatal(err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
	if err != nil {
		t.Fatalf("read the events of task %s: %v", task, err)
	}
	return events
}

// OfType are the events of one type, for example postrider.task.transitioned.v1.
func OfType(events []Event, ceType string) []Event {
	var out []Event
	for _, e := range events {
		if e.Type == ceType {
			out = append(out, e)
		}
	}
	return out
}

// Letters reads the dead letters of a task.
func Letters(t testing.TB, pool *pgxpool.Pool, task uuid.UUID) []Event {
	t.Helper()
	return OfType(Events(t, pool, task), "postrider.task.dead_lettered.v1")
}
