// Package outboxtest does, in the database of a test, what a leading relay does with events: with one statement, without
// a relay and without brokers.
package outboxtest

import (
	"context"
	_ "embed"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// DB is a pool, a connection or a transaction, with the rights of the owner.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// What events become.
const (
	Published    = "published"
	Scheduled    = "scheduled"
	Exhausted    = "exhausted"
	DeadLettered = "dead_lettered"
)

//go:embed settle.sql
var settle string

// Settle writes what a leader settles when the events with these ids become state, and takes them into the log's
// progress: events between them that were not settled are in gaps from now on. An event that was given up counts one episode
// more, unless it was given up before and has not been redriven since.
func Settle(t testing.TB, db DB, state string, ids ...int64) {
	t.Helper()
	pgtest.Exec(t, db, settle, ids, state)
}

// SettleAll is Settle of the events whose ids a query returns.
func SettleAll(t testing.TB, db DB, state, query string, args ...any) {
	t.Helper()
	Settle(t, db, state, pgtest.Column[int64](t, db, query, args...)...)
}

// Pending are the ids of the events behind an id that the log has before it, in their order.
const Pending = `select id from postrider.v_outbox_event where state = 'pending' and id > $1 order by id`
