package actions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
)

// Auditor writes, in the transaction of a change, who made it, and the sources of the changed things: the actor in ctx if
// there is one, otherwise actor.
type Auditor interface {
	Audit(ctx context.Context, tx pgx.Tx, actor, action, targetType, targetID string, sources []string, details any) error
}

// ErrRequest is wrapped by errors about what was asked for.
var ErrRequest = errors.New("refused")

// ErrBusy is wrapped when another process is doing the same work; asking again helps.
var ErrBusy = errors.New("another session works on it; ask again")

// own are the sources of all that these services change: the desk's own database.
var own = []string{dlq.MainSource}

// Config is what the services need.
type Config struct {
	// Pool is the database, at the newest version of the schema. Required.
	Pool *pgxpool.Pool
	// Auditor writes the audit log. Required.
	Auditor Auditor
	// Timeout bounds each change. Defaults to 30s.
	Timeout time.Duration
	// LetterTopic is that of internal/relay/postgres.StoreOptions, for Outbox.
	LetterTopic func(topic string) string
}

func (c Config) check() (Config, error) {
	switch {
	case c.Pool == nil || c.Auditor == nil:
		return c, errors.New("actions: Pool and Auditor are required")
	case c.Timeout < 0:
		return c, errors.New("actions: Timeout is negative")
	case c.Timeout == 0:
		c.Timeout = 30 * time.Second
	}
	return c, nil
}

// begin begins a transaction that does not keep its locks when this process vanishes in it.
const begin = "begin isolation level read committed read write; set local idle_in_transaction_session_timeout = '60s'; set local statement_timeout = '60s'"

// deadlocks is how often a change is made that others got in the way of: workers lock tasks and steps as they need.
const deadlocks = 5

// change runs f in a transaction that is bounded in time. Where that deadlocked it is made again, with f from its
// beginning.
func (c Config) change(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	for n := 1; ; n++ {
		err := pgx.BeginTxFunc(ctx, c.Pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error { return f(ctx, tx) })
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "40P01" || n == deadlocks {
			return err
		}
	}
}

// named refuses a change without an actor.
func named(actor string) error {
	if actor == "" {
		return fmt.Errorf("%w: the actor is missing", ErrRequest)
	}
	return nil
}
