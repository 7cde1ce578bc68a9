package postgres

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/relay/ledger"
)

//go:embed queries/catch_up.sql
var catchUpSQL string

//go:embed queries/retry_task.sql
var retryTaskSQL string

//go:embed queries/dead_letter_task.sql
var deadLetterTaskSQL string

//go:embed queries/read_task.sql
var readTaskSQL string

//go:embed queries/undelivered_events.sql
var undeliveredEventsSQL string

// roadDB is a pool, a connection or a transaction.
type roadDB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Road is what becomes of a task whose event could not be delivered, and how it gets on again. It is safe for
// concurrent use as far as what it was made of is.
type Road struct{ db roadDB }

var _ ledger.CatchUpper = (*Road)(nil)

// NewRoad returns a Road on a pool or connection, or on a transaction that the caller commits.
func NewRoad(db roadDB) *Road { return &Road{db} }

// CatchUp implements ledger.CatchUpper.
func (r *Road) CatchUp(ctx context.Context, limit int) (ledger.CaughtUp, error) {
	var c ledger.CaughtUp
	if err := r.db.QueryRow(ctx, catchUpSQL, limit).Scan(&c.Moved, &c.Refused, &c.Waiting); err != nil {
		return c, fmt.Errorf("move tasks whose events were given up: %w", err)
	}
	return c, nil
}

// Retry puts a task back to its beginning and writes the event that starts it, or says that it was retried;
// it returns that event's id. A task in no retryable state is an error with SQLSTATE 22023, an unknown one with
// P0002. actor may be empty.
func (r *Road) Retry(ctx context.Context, task uuid.UUID, actor string) (event uuid.UUID, err error) {
	if err := r.db.QueryRow(ctx, retryTaskSQL, task, actor).Scan(&event); err != nil {
		return uuid.Nil, fmt.Errorf("retry task %s: %w", task, err)
	}
	return event, nil
}

// DeadLetter dead-letters a task by hand and returns the id of the event that is its letter. A task that has
// ended, or has a pending investigation, is an error with SQLSTATE 22023, an unknown one with P0002. actor may
// be empty.
func (r *Road) DeadLetter(ctx context.Context, task uuid.UUID, reason, actor string) (letter uuid.UUID, err error) {
	if err := r.db.QueryRow(ctx, deadLetterTaskSQL, task, reason, actor).Scan(&letter); err != nil {
		return uuid.Nil, fmt.Errorf("dead-letter task %s: %w", task, err)
	}
	return letter, nil
}

// Read returns a task with its template, steps and transitions, as postrider.task_snapshot gives them. A
// dead-lettered task that did not change for 7 days is moved to the archived state of its machine by that, if it
// has one. An unknown task is an error with SQLSTATE P0002.
func (r *Road) Read(ctx context.Context, task uuid.UUID) (json.RawMessage, error) {
	var snapshot []byte
	if err := r.db.QueryRow(ctx, readTaskSQL, task).Scan(&snapshot); err != nil {
		return nil, fmt.Errorf("read task %s: %w", task, err)
	}
	return snapshot, nil
}

// UndeliveredEvent is an event of a task that was given up without its task being moved in that transaction.
type UndeliveredEvent struct {
	EventID      uuid.UUID `json:"event_id"`
	Episode      int       `json:"episode"`
	Topic        string    `json:"topic"`
	Attempts     int       `json:"attempts"`
	ErrorCode    string    `json:"error_code,omitempty"`
	ErrorMessage string    `json:"error_message,omitempty"`
	// Outcome is waiting (it is tried again), moved (that went well later) or refused; Detail says why.
	Outcome string    `json:"outcome"`
	Detail  string    `json:"detail"`
	NotedAt time.Time `json:"noted_at"`
}

// MaxUndelivered is how many events Undelivered returns at most.
const MaxUndelivered = 100

// Undelivered returns the newest events of a task that were given up without moving it at once, the newest first.
func (r *Road) Undelivered(ctx context.Context, task uuid.UUID) ([]UndeliveredEvent, error) {
	rows, err := r.db.Query(ctx, undeliveredEventsSQL, task, MaxUndelivered)
	if err == nil {
		var events []UndeliveredEvent
		if events, err = pgx.CollectRows(rows, pgx.RowToStructByPos[UndeliveredEvent]); err == nil {
			return events, nil
		}
	}
	return nil, fmt.Errorf("read the undelivered events of task %s: %w", task, err)
}
